use core::net::Ipv4Addr;
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;
use weever_wire::MacAddr;
use weever_wire::dhcp4::{DhcpOption, DhcpRepr, DhcpView, MessageType, collect, option};

use super::*;
use crate::SECOND;
use crate::random::Random;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 50);
const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn client(probing: Probing) -> Client {
    Client::new(ClientConfig { mac: MAC, random: Random::new(1), probing }, 0)
}

/// All that is to be done at `now`.
fn outputs(client: &mut Client, now: u64) -> Vec<Output> {
    std::iter::from_fn(|| client.poll(now)).collect()
}

/// Lets time pass until there is something to do.
fn next(client: &mut Client, now: &mut u64) -> Vec<Output> {
    *now = client.poll_at().unwrap().max(*now);
    outputs(client, *now)
}

fn sent(outputs: &[Output]) -> Transmit {
    match outputs {
        [Output::Send(transmit)] => *transmit,
        other => panic!("not one message: {other:?}"),
    }
}

fn emitted(transmit: &Transmit) -> Vec<u8> {
    let mut buf = std::vec![0; 400];
    let len = transmit.emit(&mut buf).unwrap();
    buf.truncate(len);
    buf
}

type Extra = (u8, &'static [u8]);
const LEASE: Extra = (option::LEASE_TIME, &[0, 0, 0x0e, 0x10]);
const MASK: Extra = (option::SUBNET_MASK, &[255, 255, 255, 0]);
const ID: Extra = (option::SERVER_ID, &[10, 0, 0, 1]);
const ROUTER: Extra = (option::ROUTER, &[10, 0, 0, 1, 10, 0, 0, 2]);

fn reply(kind: MessageType, xid: u32, your_ip: Ipv4Addr, extra: &[Extra]) -> Vec<u8> {
    let options: Vec<_> = extra.iter().map(|&(code, data)| DhcpOption { code, data }).collect();
    let (secs, broadcast, client_ip) = (0, false, NOBODY);
    let repr =
        DhcpRepr { kind, xid, secs, broadcast, client_ip, your_ip, mac: MAC, options: &options };
    let mut buf = std::vec![0; repr.buffer_len()];
    repr.emit(&mut buf).unwrap();
    buf
}

/// The client up to where it has sent its request.
fn requested(client: &mut Client, now: &mut u64) -> u32 {
    let discover = sent(&next(client, now));
    assert_eq!(
        (discover.kind, discover.src, discover.dst),
        (MessageType::Discover, NOBODY, Ipv4Addr::BROADCAST)
    );
    let bytes = emitted(&discover);
    let view = DhcpView::new(&bytes).unwrap();
    assert!(view.header().wants_broadcast() && view.header().mac() == MAC);
    let xid = view.header().xid();
    client.handle(&reply(MessageType::Offer, xid, OURS, &[ID, LEASE, MASK, ROUTER]), *now).unwrap();
    let request = emitted(&sent(&outputs(client, *now)));
    let view = DhcpView::new(&request).unwrap();
    assert_eq!(view.message_type(), Some(MessageType::Request));
    let said = |code| collect(view.options(), code).unwrap().bytes().to_vec();
    assert_eq!(
        (said(option::REQUESTED_IP), said(option::SERVER_ID)),
        (OURS.octets().to_vec(), SERVER.octets().to_vec())
    );
    xid
}

fn bound(client: &mut Client, now: &mut u64, extra: &[Extra]) -> Lease {
    let xid = requested(client, now);
    client
        .handle(&reply(MessageType::Ack, xid, OURS, &[&[ID, LEASE, MASK], extra].concat()), *now)
        .unwrap();
    match &outputs(client, *now)[..] {
        [Output::Event(Event::Bound(lease))] => lease.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_address_is_granted_and_used() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    let lease = bound(
        &mut client,
        &mut now,
        &[ROUTER, (option::DNS, &[9, 9, 9, 9, 224, 0, 0, 1]), (option::MTU, &[5, 120])],
    );
    assert_eq!(lease.address.to_string(), "10.0.0.50/24");
    let default = GatewayRoute { to: crate::addr::Cidr::ALL, gateway: SERVER };
    assert_eq!((lease.routes, lease.mtu, lease.server), (std::vec![default], Some(1400), SERVER));
    assert_eq!(lease.dns, [Ipv4Addr::new(9, 9, 9, 9)]);
    assert_eq!(
        (lease.lasts, lease.renew_after, lease.rebind_after),
        (3600 * SECOND, 1800 * SECOND, 3150 * SECOND)
    );
    assert_eq!(client.state(), State::Bound);
}

#[test]
fn classless_routes_take_the_place_of_the_router() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    let routes: Extra = (option::CLASSLESS_ROUTES, &[0, 10, 0, 0, 9, 20, 172, 16, 99, 0, 0, 0, 0]);
    let lease = bound(&mut client, &mut now, &[ROUTER, routes]);
    let text: Vec<_> =
        lease.routes.iter().map(|r| std::format!("{} {}", r.to, r.gateway)).collect();
    assert_eq!(text, ["0.0.0.0/0 10.0.0.9", "172.16.96.0/20 0.0.0.0"]);
    let cut: Extra = (option::CLASSLESS_ROUTES, &[33, 1, 2, 3, 4, 5, 10, 0, 0, 9]);
    let (mut client, mut now) = (self::client(Probing::NONE), 0);
    assert_eq!(
        bound(&mut client, &mut now, &[ROUTER, cut]).routes.len(),
        1,
        "malformed: the router"
    );
}

#[test]
fn renews_rebinds_and_loses() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    let lease = bound(&mut client, &mut now, &[]);
    let since = lease.since;
    let renewal = sent(&next(&mut client, &mut now));
    assert_eq!((renewal.src, renewal.dst, now - since), (OURS, SERVER, 1800 * SECOND));
    let bytes = emitted(&renewal);
    let view = DhcpView::new(&bytes).unwrap();
    assert_eq!(view.header().client_ip(), OURS);
    let with = |code| view.options().any(|o| o.code == code);
    assert!(!with(option::REQUESTED_IP) && !with(option::SERVER_ID), "RFC 2131 §4.3.2");
    let xid = view.header().xid();
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE, MASK]), now).unwrap();
    assert!(matches!(outputs(&mut client, now)[..], [Output::Event(Event::Bound(_))]));
    // From now on no server answers.
    let (granted, mut sends) = (now, Vec::new());
    let lost = loop {
        let all = next(&mut client, &mut now);
        match &all[..] {
            [Output::Send(t)] => sends.push(((now - granted) / SECOND, t.dst)),
            other => break other.to_vec(),
        }
        assert!(sends.len() < 50);
    };
    assert_eq!(
        sends[..2],
        [(1800, SERVER), (2475, SERVER)],
        "half of the time that remains until T2"
    );
    assert!(sends.contains(&(3150, Ipv4Addr::BROADCAST)), "{sends:?}");
    assert_eq!((now - granted) / SECOND, 3600);
    assert!(
        matches!(&lost[..], [Output::Event(Event::Lost(_)), Output::Send(t)] if t.kind == MessageType::Discover),
        "{lost:?}"
    );
}

#[test]
fn a_conflict_is_declined() {
    let (mut client, mut now) = (client(Probing::RFC5227), 0);
    let xid = requested(&mut client, &mut now);
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE, MASK]), now).unwrap();
    assert_eq!(client.probed(), Some(OURS));
    assert_eq!(next(&mut client, &mut now), [Output::Probe(OURS)]);
    client.conflict(SERVER, now);
    assert_eq!(next(&mut client, &mut now), [Output::Probe(OURS)]);
    client.conflict(OURS, now);
    let decline = sent(&outputs(&mut client, now));
    let bytes = emitted(&decline);
    let view = DhcpView::new(&bytes).unwrap();
    assert_eq!((decline.kind, view.header().client_ip()), (MessageType::Decline, NOBODY));
    assert_eq!(collect(view.options(), option::REQUESTED_IP).unwrap().bytes(), OURS.octets());
    let declined = now;
    assert_eq!(sent(&next(&mut client, &mut now)).kind, MessageType::Discover);
    assert!(now - declined >= 10 * SECOND);
}

#[test]
fn nobody_has_it_after_three_probes() {
    let (mut client, mut now) = (client(Probing::RFC5227), 0);
    let xid = requested(&mut client, &mut now);
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE, MASK]), now).unwrap();
    let (began, mut probes) = (now, 0);
    loop {
        match &next(&mut client, &mut now)[..] {
            [Output::Probe(_)] => probes += 1,
            [Output::Event(Event::Bound(_))] => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(probes, 3);
    assert!((4 * SECOND..=7 * SECOND).contains(&(now - began)));
    // A conflict later on costs the address.
    client.conflict(OURS, now);
    assert!(
        matches!(&outputs(&mut client, now)[..], [Output::Send(t), Output::Event(Event::Lost(_))] if t.kind == MessageType::Decline)
    );
}

#[test]
fn a_refusal_starts_anew_ever_more_slowly() {
    let (mut client, mut now, mut waits) = (client(Probing::NONE), 0, Vec::new());
    for _ in 0..8 {
        let xid = requested(&mut client, &mut now);
        let forged: Extra = (option::SERVER_ID, &[10, 0, 0, 66]);
        assert_eq!(
            client.handle(&reply(MessageType::Nak, xid, NOBODY, &[forged]), now),
            Err(Ignored::Unexpected)
        );
        client.handle(&reply(MessageType::Nak, xid, NOBODY, &[ID]), now).unwrap();
        waits.push((client.poll_at().unwrap() - now) / SECOND);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64]);
}

#[test]
fn nobody_answers() {
    let (mut client, mut now, mut gaps) = (client(Probing::NONE), 0, Vec::new());
    for _ in 0..8 {
        let before = now;
        assert_eq!(sent(&next(&mut client, &mut now)).kind, MessageType::Discover);
        gaps.push(now - before);
    }
    assert!(gaps[0] <= SECOND);
    for (gap, want) in gaps[1..].iter().zip([4, 8, 16, 32, 64, 64, 64]) {
        assert!(gap.abs_diff(want * SECOND) <= SECOND, "{gaps:?}");
    }
}

#[test]
fn a_request_without_an_answer_is_given_up() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    requested(&mut client, &mut now);
    let kinds: Vec<_> = (0..4).map(|_| sent(&next(&mut client, &mut now)).kind).collect();
    use MessageType::{Discover, Request};
    assert_eq!(kinds, [Request, Request, Request, Discover]);
}

const FOR_EVER: Extra = (option::LEASE_TIME, &[255; 4]);
const DAY: Extra = (option::LEASE_TIME, &[0, 1, 0x51, 0x80]);

/// A client with this lease.
fn bound_for(time: Extra, now: &mut u64) -> Client {
    let mut client = client(Probing::NONE);
    let xid = requested(&mut client, now);
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, time, MASK]), *now).unwrap();
    assert!(matches!(outputs(&mut client, *now)[..], [Output::Event(Event::Bound(_))]));
    client
}

#[test]
fn a_check_after_the_link_came_back_is_repeated_soon_and_then_given_up() {
    for time in [DAY, FOR_EVER] {
        let mut now = 0;
        let mut client = bound_for(time, &mut now);
        now += 60 * SECOND;
        client.restart(now);
        let (mut kinds, mut gaps) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let before = now;
            kinds.push(sent(&next(&mut client, &mut now)).kind);
            gaps.push((now - before).div_ceil(SECOND));
        }
        use MessageType::{Discover, Request};
        assert_eq!(kinds, [Request, Request, Request, Request, Discover]);
        assert!(gaps[1] <= 5 && gaps[4] <= 33, "{gaps:?}");
        assert!(client.lease().is_some(), "it may still be the same network");
    }
}

#[test]
fn a_lease_that_could_not_be_checked_is_replaced_or_ends() {
    let mut now = 0;
    let mut client = bound_for(LEASE, &mut now);
    client.restart(now);
    while sent(&next(&mut client, &mut now)).kind == MessageType::Request {}
    let mut searching = client.clone();
    let lost_at = searching.lease().unwrap().until();
    let mut at = now;
    let ended = loop {
        match &next(&mut searching, &mut at)[..] {
            [Output::Send(_)] => {}
            [Output::Event(Event::Lost(_)), ..] => break at,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((ended, searching.lease()), (lost_at, None));
    let xid = sent(&next(&mut client, &mut now)).xid;
    let other = Ipv4Addr::new(10, 0, 0, 51);
    client.handle(&reply(MessageType::Offer, xid, other, &[ID, LEASE, MASK]), now).unwrap();
    sent(&outputs(&mut client, now));
    client.handle(&reply(MessageType::Ack, xid, other, &[ID, LEASE, MASK]), now).unwrap();
    match &outputs(&mut client, now)[..] {
        [Output::Event(Event::Lost(old)), Output::Event(Event::Bound(new))] => {
            assert_eq!((old.address.addr(), new.address.addr()), (OURS, other));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_counts_from_its_first_request() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    let xid = requested(&mut client, &mut now);
    let first = now;
    next(&mut client, &mut now);
    now += SECOND;
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE, MASK]), now).unwrap();
    outputs(&mut client, now);
    assert_eq!(client.lease().unwrap().since, first);
    let xid = sent(&next(&mut client, &mut now)).xid;
    let renewal = now;
    next(&mut client, &mut now);
    client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE, MASK]), now).unwrap();
    assert_eq!(client.lease().unwrap().since, renewal);
    assert!(now > renewal);
}

#[test]
fn release_tells_the_server_and_then_the_host() {
    let (mut client, mut now) = (client(Probing::NONE), 0);
    bound(&mut client, &mut now, &[]);
    client.release(now);
    match &outputs(&mut client, now)[..] {
        [Output::Send(t), Output::Event(Event::Lost(_))] => {
            assert_eq!((t.kind, t.src, t.dst), (MessageType::Release, OURS, SERVER));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((client.state(), client.poll_at()), (State::Stopped, None));
    client.restart(now);
    assert!(client.poll_at().is_some());
}

#[test]
fn what_servers_may_not_grant() {
    let unusable: [(Ipv4Addr, &[Extra]); 8] = [
        (NOBODY, &[ID, LEASE, MASK]),
        (Ipv4Addr::new(224, 0, 0, 1), &[ID, LEASE, MASK]),
        (Ipv4Addr::new(127, 0, 0, 1), &[ID, LEASE, MASK]),
        (Ipv4Addr::new(10, 0, 0, 255), &[ID, LEASE, MASK]),
        (OURS, &[LEASE, MASK]),
        (OURS, &[ID, MASK]),
        (OURS, &[ID, (option::LEASE_TIME, &[0, 0, 0, 1]), MASK]),
        (OURS, &[ID, LEASE, (option::SUBNET_MASK, &[255, 0, 255, 0])]),
    ];
    for (ip, options) in unusable {
        let (mut client, mut now) = (client(Probing::NONE), 0);
        let discover = emitted(&sent(&next(&mut client, &mut now)));
        let xid = DhcpView::new(&discover).unwrap().header().xid();
        let got = client.handle(&reply(MessageType::Offer, xid, ip, options), now);
        assert_eq!(got, Err(Ignored::Unusable), "{ip} {options:?}");
        assert_eq!(
            client.handle(&reply(MessageType::Offer, xid ^ 1, OURS, &[ID, LEASE]), now),
            Err(Ignored::NotOurs)
        );
        assert_eq!(
            client.handle(&reply(MessageType::Ack, xid, OURS, &[ID, LEASE]), now),
            Err(Ignored::Unexpected)
        );
    }
}

proptest! {
    /// With any messages of servers at any time, the client neither floods nor stops.
    #[test]
    fn a_hostile_server_is_bounded(
        script in proptest::collection::vec((0u8..9, any::<u32>(), 0u64..30, any::<bool>()), 1..200), seed: u64,
    ) {
        let probing = Probing::RFC5227;
        let (mut client, mut now) = (Client::new(ClientConfig { mac: MAC, random: Random::new(seed), probing }, 0), 0);
        let (mut xid, mut messages) = (0, 0u64);
        for (kind, bits, wait, conflict) in script {
            now += wait * SECOND;
            let mut turns = 0;
            while let Some(output) = client.poll(now) {
                if let Output::Send(t) = output {
                    xid = t.xid;
                    messages += 1;
                }
                turns += 1;
                prop_assert!(turns < 10);
            }
            prop_assert!(client.state() == State::Stopped || client.poll_at().is_some_and(|at| at > now));
            let time = [bits.to_be_bytes(), [0, 0, 0, 20]][usize::from(bits % 2 == 0)];
            let time: &'static [u8] = std::boxed::Box::leak(std::boxed::Box::new(time));
            let options = [ID, (option::LEASE_TIME, time), MASK, (option::RENEWAL_TIME, &[0, 0, 0, 0])];
            if let Some(kind) = MessageType::new(kind) {
                let ip = if conflict { OURS } else { Ipv4Addr::from_bits(bits) };
                let _ = client.handle(&reply(kind, xid, ip, &options), now);
            }
            if conflict {
                client.conflict(OURS, now);
            }
        }
        prop_assert!(messages <= 10 + 3 * (now / SECOND), "{} messages in {} s", messages, now / SECOND);
    }

    #[test]
    fn any_bytes_are_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (mut client, mut now) = (client(Probing::NONE), 0);
        next(&mut client, &mut now);
        let _ = client.handle(&bytes, now);
    }
}
