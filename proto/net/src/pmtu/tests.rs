use core::net::Ipv4Addr;

use super::*;
use proptest::prelude::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn six() -> IpAddr {
    "2001:db8::1".parse().unwrap()
}

fn said(dst: IpAddr, length: u32, mtu: u32) -> TooBig {
    TooBig { packet: packet(dst, length), dont_fragment: true, mtu }
}

fn packet(dst: IpAddr, length: u32) -> SentPacket {
    let (protocol, ports) = (17, (5000, 7));
    SentPacket { src: ip(200), dst, protocol, ports, length, fragment: false }
}

fn sent_to(list: &[IpAddr], now: u64) -> RecentSends {
    let recent = RecentSends::new([1, 2]);
    for length in [1500, 1492, 1400, 1006, 9000] {
        list.iter().for_each(|&dst| recent.note(&packet(dst, length), now));
    }
    recent
}

#[test]
fn learns_lowers_and_forgets() {
    let recent = sent_to(&[ip(1), six()], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    assert_eq!(table.learn(said(ip(1), 1500, 1400), 1500, &recent, 0), Ok(1400));
    assert_eq!(table.learn(said(ip(1), 1400, 1300), 1500, &recent, 5), Ok(1300));
    assert_eq!(table.learn(said(ip(1), 1500, 1400), 1500, &recent, 6), Err(TooBigReject::NotLower));
    assert_eq!(table.learn(said(six(), 1500, 600), 1500, &recent, 7), Ok(1280));
    let view = table.view();
    assert_eq!(
        (view.mtu(ip(1), 1500), view.mtu(ip(2), 1500), view.mtu(ip(1), 1000)),
        (1300, 1500, 1000)
    );
    assert_eq!(table.poll_at(), Some(600 * SECOND + 5));
    assert!(!table.poll(600 * SECOND + 4));
    let before = table.generation();
    assert!(table.poll(600 * SECOND + 5) && table.generation() > before);
    assert_eq!((table.lookup(ip(1)), table.lookup(six())), (None, Some(1280)));
    assert!(table.view().mtu(ip(1), 1500) == 1500 && View::default().is_empty());
    table.forget(None);
    assert!(table.view().is_empty() && table.poll_at().is_none());
}

#[test]
fn a_row_of_small_steps_is_short() {
    let recent = sent_to(&[ip(1), six()], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    for (dst, floor) in [(ip(1), 576), (six(), 1280)] {
        let before = table.generation();
        for mtu in (0..1500).rev() {
            let _ = table.learn(said(dst, 1500, mtu), 1500, &recent, 0);
        }
        assert_eq!(table.lookup(dst), Some(floor));
        assert!(table.generation() - before <= 31, "few views are published");
    }
    // A tunnel's small MTU is believed as it is.
    table.forget(None);
    assert_eq!(table.learn(said(ip(1), 1500, 1496), 1500, &recent, 0), Ok(1496));
}

/// However many paths are known, only one bucket is published anew.
#[test]
fn views_share_what_has_not_changed() {
    let all: Vec<IpAddr> =
        (0..1024u32).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n).into()).collect();
    let mut table = PathMtus::new(PathMtuConfig::default());
    for dst in &all {
        let recent = sent_to(&[*dst], 0);
        assert_eq!(table.learn(said(*dst, 1500, 1400), 1500, &recent, 0), Ok(1400));
    }
    let known = table.entries().len();
    assert!((600..=1024).contains(&known), "{known} of 1024 have found a place");
    let before = table.view();
    let changed = table.entries()[7].dst;
    table.learn(said(changed, 1500, 1300), 1500, &sent_to(&[changed], 1), 1).unwrap();
    let after = table.view();
    let pairs = before.buckets.iter().zip(&after.buckets);
    assert_eq!(pairs.filter(|(old, new)| !Arc::ptr_eq(old, new)).count(), 1);
    assert_eq!((before.mtu(changed, 1500), after.mtu(changed, 1500)), (1400, 1300));
    assert!(table.poll(600 * SECOND) && table.entries().len() == 1);
    assert_eq!((after.entries, table.view().entries), (known, 1));
}

#[test]
fn an_old_router_is_guessed_at() {
    let recent = sent_to(&[ip(1)], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    for (length, mtu) in [(1500, 1492), (1492, 1006), (1006, 576)] {
        assert_eq!(table.learn(said(ip(1), length, 0), 1500, &recent, 0), Ok(mtu));
    }
    assert_eq!(
        table.learn(said(ip(1), 576, 0), 1500, &recent, 0),
        Err(TooBigReject::Contradiction)
    );
}

#[test]
fn what_cannot_be_is_not_believed() {
    let recent = sent_to(&[ip(1)], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    let mut refused = |said, now| table.learn(said, 1500, &recent, now).unwrap_err();
    assert_eq!(
        refused(TooBig { dont_fragment: false, ..said(ip(1), 1500, 1400) }, 0),
        TooBigReject::Contradiction
    );
    assert_eq!(refused(said(ip(1), 1400, 1400), 0), TooBigReject::Contradiction);
    assert_eq!(refused(said(ip(1), 500, 400), 0), TooBigReject::Contradiction);
    assert_eq!(refused(said(ip(2), 1500, 1400), 0), TooBigReject::NeverSent);
    assert_eq!(refused(said(ip(1), 1500, 1400), 60 * SECOND), TooBigReject::NeverSent);
    assert_eq!(refused(said(ip(1), 9000, 8000), 0), TooBigReject::NotLower);
}

/// Off-path, an attacker does not know the ports or the length of the packets we sent.
#[test]
fn a_guess_at_what_was_sent_is_not_believed() {
    let recent = sent_to(&[ip(1)], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    let sent = packet(ip(1), 1500);
    for guess in [
        SentPacket { ports: (5001, 7), ..sent },
        SentPacket { ports: (5000, 8), ..sent },
        SentPacket { src: ip(201), ..sent },
        SentPacket { protocol: 6, ..sent },
        SentPacket { length: 1499, ..sent },
        SentPacket { fragment: true, ..sent },
    ] {
        let said = TooBig { packet: guess, dont_fragment: true, mtu: 600 };
        assert_eq!(table.learn(said, 1500, &recent, 0), Err(TooBigReject::NeverSent), "{guess:?}");
    }
    assert_eq!(table.learn(said(ip(1), 1500, 1400), 1500, &recent, 0), Ok(1400));
}

/// A sender that pings us in another's name, and so has us send there, cannot lower the path MTU to
/// it.
#[test]
fn an_echo_reply_is_no_packet_of_ours() {
    let recent = RecentSends::new([1, 2]);
    let reply = SentPacket { protocol: 1, ports: (0, 0), ..packet(ip(1), 1500) };
    recent.note(&reply, 0);
    let said = TooBig { packet: reply, dont_fragment: true, mtu: 600 };
    let mut table = PathMtus::new(PathMtuConfig::default());
    assert_eq!(table.learn(said, 1500, &recent, 0), Err(TooBigReject::NeverSent));
}

/// An MTU of 300 bytes is below the lowest believed one, but packets must not vanish on such a
/// link.
#[test]
fn below_the_floor_routers_may_fragment() {
    let recent = sent_to(&[ip(1)], 0);
    let mut table = PathMtus::new(PathMtuConfig::default());
    assert_eq!(
        table.learn(said(ip(1), 1500, 60), 1500, &recent, 0),
        Err(TooBigReject::Contradiction)
    );
    assert_eq!(table.learn(said(ip(1), 1500, 600), 1500, &recent, 0), Ok(600));
    assert!(!table.view().may_fragment(ip(1)));
    assert_eq!(table.learn(said(ip(1), 1500, 300), 1500, &recent, 0), Ok(576));
    let view = table.view();
    assert_eq!((view.mtu(ip(1), 1500), view.may_fragment(ip(1))), (576, true));
    assert_eq!(table.learn(said(ip(1), 1500, 300), 1500, &recent, 0), Err(TooBigReject::NotLower));
}

proptest! {
    #[test]
    fn never_raised_never_below_the_floor_never_beyond_the_capacity(
        messages in proptest::collection::vec((0u8..40, 0u32..70_000, 0u32..70_000, 0u64..900), 1..200)
    ) {
        let mut table = PathMtus::new(PathMtuConfig { capacity: 16, ..PathMtuConfig::default() });
        for (n, (dst, length, mtu, _)) in messages.into_iter().enumerate() {
            let dst = if dst == 0 { six() } else { ip(dst) };
            let now = n as u64;
            let before = table.lookup(dst);
            let recent = RecentSends::new([1, 2]);
            recent.note(&packet(dst, length), now);
            let before_view = table.view().may_fragment(dst);
            let got = table.learn(said(dst, length, mtu), 1500, &recent, now);
            let after = table.lookup(dst);
            let changed = after != before || table.view().may_fragment(dst) != before_view;
            prop_assert!(after.unwrap_or(1500) <= before.unwrap_or(1500));
            prop_assert!(after.is_none_or(|mtu| mtu >= floor(dst)));
            prop_assert_eq!(got.is_ok(), changed);
            prop_assert!(table.entries().len() <= 16);
            prop_assert!(table.entries().is_sorted_by_key(|entry| entry.dst));
        }
    }
}
