use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View, protocol};

use super::*;
use crate::SECOND;

fn datagram_v4(src: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, src), Ipv4Addr::new(10, 0, 0, 2));
    let repr = Ipv4Repr {
        tos: 0,
        ident: 0,
        flags_frag: 0,
        ttl: 9,
        protocol: protocol::UDP,
        src,
        dst,
        payload_len: payload.len() as u16,
    };
    let mut out = vec![0; 20 + payload.len()];
    repr.emit(&mut out).unwrap();
    out[20..].copy_from_slice(payload);
    out
}

fn datagram_v6(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    out[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).octets());
    out.extend(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2).octets());
    out.extend(payload);
    out
}

fn payload(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8 ^ seed)).collect()
}

fn all(mut split: Split<'_>, mtu: usize) -> Vec<Vec<u8>> {
    let mut out = vec![0; 65_535];
    let mut list = Vec::new();
    let count = split.count();
    while let Some(len) = split.next(&mut out) {
        assert!(len <= mtu, "a fragment of {len} bytes for an MTU of {mtu}");
        list.push(out[..len].to_vec());
    }
    assert_eq!(list.len(), count);
    list
}

fn split(datagram: &[u8], mtu: usize, ident: u32) -> Vec<Vec<u8>> {
    match datagram[0] >> 4 {
        4 => all(split_v4(datagram, mtu, Some(ident as u16)).unwrap(), mtu),
        _ => all(split_v6(datagram, mtu, ident).unwrap(), mtu),
    }
}

fn piece(packet: &[u8]) -> Result<Option<Piece<'_>>, Reject> {
    if packet[0] >> 4 == 4 { Piece::v4(packet, 0) } else { Piece::v6(packet, 0) }
}

type Pieces = Reassembler<Vec<u8>>;

fn room() -> Option<Vec<u8>> {
    Some(vec![0xaa; MAX_DATAGRAM])
}

fn offer(to: &mut Pieces, packet: &[u8], now: u64) -> Offer<Vec<u8>> {
    match piece(packet) {
        Ok(Some(piece)) => to.offer(&piece, now, room),
        Ok(None) => panic!("not a fragment"),
        Err(reject) => Offer::Rejected(reject),
    }
}

/// The datagrams reassembled from these packets.
fn feed<'a>(to: &mut Pieces, packets: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
    let whole = |packet: &Vec<u8>| match offer(to, packet, 0) {
        Offer::Whole(room, len) => Some(room[..len].to_vec()),
        _ => None,
    };
    packets.into_iter().filter_map(whole).collect()
}

fn same_datagram(got: &[u8], want: &[u8]) {
    assert_eq!(got.len(), want.len());
    if got[0] >> 4 == 4 {
        let (got, want) = (Ipv4View::new(got).unwrap(), Ipv4View::new(want).unwrap());
        assert!(got.checksum_ok() && !got.header().is_fragment());
        assert_eq!(got.payload(), want.payload());
        assert_eq!(got.header().addresses(), want.header().addresses());
        assert_eq!(got.header_bytes()[20..], want.header_bytes()[20..], "options");
    } else {
        assert_eq!(got, want);
    }
}

#[test]
fn the_longest_of_both_families() {
    for datagram in [datagram_v4(1, &payload(65_515, 1)), datagram_v6(&payload(65_495, 2))] {
        assert_eq!(datagram.len(), MAX_DATAGRAM);
        for mtu in [1280, 1500, 9000] {
            let mut fragments = split(&datagram, mtu, 77);
            fragments.reverse();
            let got = feed(&mut Pieces::new(ReassemblyConfig::default()), &fragments);
            assert_eq!(got.len(), 1);
            same_datagram(&got[0], &datagram);
        }
    }
}

#[test]
fn options_travel_as_they_should() {
    let mut datagram = datagram_v4(1, &[&[0; 8][..], &payload(3000, 0)].concat());
    // Router alert (copied), record route (not copied), padding.
    datagram.splice(20..20, [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]);
    datagram[0] = 0x48;
    let total = datagram.len() as u16;
    datagram[2..4].copy_from_slice(&total.to_be_bytes());
    let fragments = split(&datagram, 576, 1);
    assert_eq!((fragments[0][0], fragments[1][0]), (0x48, 0x46));
    assert_eq!(fragments[1][20..24], [148, 4, 0, 0]);
    let mut order: Vec<_> = fragments.to_vec();
    order.rotate_left(1);
    let got = feed(&mut Pieces::new(ReassemblyConfig::default()), &order);
    same_datagram(&got[0], &datagram);
}

#[test]
fn a_fragment_is_cut_further_and_still_fits() {
    let datagram = datagram_v4(1, &payload(9000, 3));
    let (mut coarse, mut fine) = (split(&datagram, 4000, 5), Vec::new());
    let last = coarse.pop().unwrap();
    for fragment in &coarse {
        fine.extend(all(split_v4(fragment, 1500, None).unwrap(), 1500));
    }
    fine.push(last);
    same_datagram(&feed(&mut Pieces::new(ReassemblyConfig::default()), &fine)[0], &datagram);
}

#[test]
fn what_cannot_be_cut() {
    let mut datagram = datagram_v4(1, &payload(3000, 3));
    assert_eq!(split_v4(&datagram, 27, None).unwrap_err(), SplitError::MtuTooSmall);
    datagram[6] = 0x40;
    assert_eq!(split_v4(&datagram, 1500, None).unwrap_err(), SplitError::Forbidden);
    assert_eq!(split_v6(&datagram_v6(&[0; 99]), 55, 0).unwrap_err(), SplitError::MtuTooSmall);
    assert_eq!(split_v6(&datagram[..30], 1500, 0).unwrap_err(), SplitError::Malformed);
}

#[test]
fn extension_headers_stay_in_front() {
    // Hop-by-hop options of 8 bytes, then destination options of 8, then UDP.
    let mut packet = datagram_v6(
        &[&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &payload(4000, 4)].concat(),
    );
    packet[6] = 0;
    let fragments = split(&packet, 1280, 0xdead_beef);
    for fragment in &fragments {
        assert_eq!((fragment[6], fragment[40], fragment[48]), (0, 44, 60), "only hop-by-hop stays");
    }
    let mut reversed = fragments.clone();
    reversed.reverse();
    assert_eq!(feed(&mut Pieces::new(ReassemblyConfig::default()), &reversed), [packet]);
}

#[test]
fn atomic_fragments_are_by_themselves() {
    let mut packet = datagram_v6(&[&[17, 0, 0, 0, 1, 2, 3, 4][..], &payload(64, 4)].concat());
    packet[6] = 44;
    assert_eq!(piece(&packet), Ok(None));
    assert_eq!(Piece::atomic(&packet), Some((6, 40)));
    packet[43] = 1;
    assert_eq!(Piece::atomic(&packet), None);
    assert!(matches!(piece(&packet), Ok(Some(_))));
}

#[test]
fn impossible_fragments_are_refused_by_themselves() {
    let fragments = split(&datagram_v4(1, &payload(4000, 3)), 1500, 5);
    let change = |at: usize, edit: fn(&mut Vec<u8>)| {
        let mut packet = fragments[at].clone();
        edit(&mut packet);
        piece(&packet).unwrap_err()
    };
    assert_eq!(change(0, |p| p[2..4].copy_from_slice(&[0, 20])), Reject::Empty);
    assert_eq!(change(0, |p| p[2..4].copy_from_slice(&1499u16.to_be_bytes())), Reject::Misaligned);
    assert_eq!(change(2, |p| p[6..8].copy_from_slice(&[0x1f, 0xff])), Reject::TooLong);
    assert_eq!(change(0, |p| p[2..4].copy_from_slice(&[9, 9])), Reject::Malformed);
    let tiny = |p: &mut Vec<u8>| {
        p[9] = protocol::TCP;
        p[2..4].copy_from_slice(&28u16.to_be_bytes());
    };
    assert_eq!(change(0, tiny), Reject::Tiny);
    let rewrite = |p: &mut Vec<u8>| {
        p[9] = protocol::TCP;
        p[6..8].copy_from_slice(&[0x20, 1]);
    };
    assert_eq!(change(1, rewrite), Reject::Tiny, "RFC 1858");
}

#[test]
fn the_end_cannot_move() {
    let long = split(&datagram_v4(1, &payload(4400, 3)), 1500, 5);
    let short = split(&datagram_v4(1, &payload(2900, 3)), 1500, 5);
    for order in [[&long[2], &short[1]], [&short[1], &long[2]]] {
        let mut pieces = Pieces::new(ReassemblyConfig::default());
        assert_eq!(offer(&mut pieces, order[0], 0), Offer::Kept);
        assert_eq!(offer(&mut pieces, order[1], 0), Offer::Rejected(Reject::Overlap));
        assert_eq!(offer(&mut pieces, &long[0], 0), Offer::Rejected(Reject::GivenUp));
        assert_eq!((pieces.bytes(), pieces.len()), (0, 1), "given up, but remembered");
    }
}

#[test]
fn a_duplicate_is_passed_over_and_a_forgery_is_not() {
    let fragments = split(&datagram_v4(1, &payload(4000, 3)), 1500, 5);
    let mut pieces = Pieces::new(ReassemblyConfig::default());
    assert_eq!(offer(&mut pieces, &fragments[1], 0), Offer::Kept);
    assert_eq!(offer(&mut pieces, &fragments[1], 0), Offer::Duplicate);
    let mut forged = fragments[1].clone();
    forged[500] ^= 1;
    assert_eq!(offer(&mut pieces, &forged, 0), Offer::Rejected(Reject::Overlap));
}

#[test]
fn time_runs_out_and_says_so_if_the_first_came() {
    let mut pieces = Pieces::new(ReassemblyConfig::default());
    let (one, two) = (datagram_v4(1, &payload(4000, 3)), datagram_v4(3, &payload(4000, 3)));
    let (one, two) = (split(&one, 1500, 5), split(&two, 1500, 6));
    let six = split(&datagram_v6(&payload(4000, 3)), 1500, 7);
    offer(&mut pieces, &one[0], 0);
    offer(&mut pieces, &two[1], SECOND);
    offer(&mut pieces, &six[0], 0);
    assert_eq!(pieces.poll_at(), Some(30 * SECOND));
    let gone = |pieces: &mut Pieces, now| {
        let mut list = Vec::new();
        pieces
            .poll(now, |expired| list.push((expired.key.ident, expired.quote.map(<[u8]>::to_vec))));
        list
    };
    assert_eq!(gone(&mut pieces, 30 * SECOND - 1), []);
    assert_eq!(gone(&mut pieces, 30 * SECOND), [(5, Some(one[0][..1232].to_vec()))]);
    assert_eq!(gone(&mut pieces, 31 * SECOND), [(6, None)]);
    assert_eq!(gone(&mut pieces, 60 * SECOND), [(7, Some(six[0][..1232].to_vec()))]);
    assert!(pieces.is_empty() && pieces.poll_at().is_none());
}

#[test]
fn a_flood_pushes_out_itself() {
    let config = ReassemblyConfig { datagrams: 8, per_source: 6, ..ReassemblyConfig::default() };
    let mut pieces = Pieces::new(config);
    let honest = split(&datagram_v4(1, &payload(2000, 3)), 1500, 5);
    assert_eq!(offer(&mut pieces, &honest[0], 0), Offer::Kept);
    for ident in 0..1000 {
        let bomb = split(&datagram_v4(66, &payload(2000, 3)), 1500, ident);
        assert_eq!(offer(&mut pieces, &bomb[0], 0), Offer::Kept);
        assert!(pieces.len() <= 7 && pieces.bytes() <= config.bytes);
    }
    assert_eq!(pieces.evicted(), 994);
    assert!(matches!(offer(&mut pieces, &honest[1], 0), Offer::Whole(..)));
    // Two floods compete; the source with more loses.
    for ident in 0..100 {
        for src in [66, 67, 1] {
            let bomb = split(&datagram_v4(src, &payload(2000, 3)), 1500, ident);
            if src != 1 || ident == 50 {
                offer(&mut pieces, &bomb[0], 0);
            }
        }
    }
    let honest = split(&datagram_v4(1, &payload(2000, 3)), 1500, 50);
    assert!(matches!(offer(&mut pieces, &honest[1], 0), Offer::Whole(..)));
}

/// Single fragments from sources without number come faster than a long datagram does: it makes progress,
/// and they do not.
#[test]
fn a_flood_of_single_fragments_does_not_push_out_what_makes_progress() {
    let mut pieces = Pieces::new(ReassemblyConfig::default());
    let honest = split(&datagram_v4(1, &payload(9000, 3)), 1500, 5);
    let mut flood = (2..=250u8).cycle().zip(1000u16..);
    assert_eq!(offer(&mut pieces, &honest[0], 0), Offer::Kept);
    for (n, part) in honest[1..].iter().enumerate() {
        let whole = offer(&mut pieces, part, 0);
        assert_eq!(matches!(whole, Offer::Whole(..)), n + 2 == honest.len(), "part {n}");
        for (src, ident) in flood.by_ref().take(200) {
            let bomb = split(&datagram_v4(src, &payload(2000, 3)), 1500, ident.into());
            assert_eq!(offer(&mut pieces, &bomb[0], 0), Offer::Kept);
        }
    }
}

#[test]
fn bytes_are_bounded_and_memory_that_is_gone_is_taken_back() {
    let mut pieces = Pieces::new(ReassemblyConfig { bytes: 10_000, ..ReassemblyConfig::default() });
    for src in 0..200 {
        let bomb = split(&datagram_v4(src, &payload(3000, 3)), 1500, 1);
        offer(&mut pieces, &bomb[0], 0);
        offer(&mut pieces, &bomb[1], 0);
        assert!(pieces.bytes() < 10_000 + 3000);
    }
    // No room at all is an answer too.
    let packet = split(&datagram_v4(1, &payload(3000, 3)), 1500, 9);
    let piece = piece(&packet[0]).unwrap().unwrap();
    assert_eq!(pieces.offer(&piece, 0, || None), Offer::Rejected(Reject::NoRoom));
    let mut small = Pieces::new(ReassemblyConfig::default());
    assert_eq!(small.offer(&piece, 0, || Some(vec![0; 100])), Offer::Rejected(Reject::TooLong));
    assert_eq!(small.bytes(), 0);
}

/// What has come of a datagram goes on at another reassembler: its bytes, its time and its first fragment.
#[test]
fn half_a_datagram_moves() {
    let (mut here, mut there) = (Pieces::new(tiny()), Pieces::new(tiny()));
    let whole = datagram_v4(1, &payload(3000, 3));
    let parts = split(&whole, 1500, 5);
    offer(&mut here, &parts[0], 0);
    offer(&mut here, &parts[1], SECOND);
    let key = piece(&parts[0]).unwrap().unwrap().key();
    let moved = here.take(&key).unwrap();
    assert_eq!((here.len(), here.bytes(), here.ended()), (0, 0, &[key][..]));
    there.put(moved).unwrap();
    assert_eq!((there.bytes(), there.poll_at()), (2960, Some(30 * SECOND)));
    // One that is here already, and one without room, are given back.
    offer(&mut here, &parts[0], 0);
    let twin = there.put(here.take(&key).unwrap()).unwrap_err();
    for src in [7, 8] {
        offer(&mut here, &split(&datagram_v4(src, &payload(3000, 3)), 1500, 5)[0], 0);
    }
    assert!(here.put(twin).is_err());
    let Offer::Whole(room, len) = offer(&mut there, &parts[2], 2 * SECOND) else { panic!() };
    assert_eq!((room[20..len] == *payload(3000, 3), there.ended()), (true, &[key][..]));
    assert!(there.is_empty() && there.bytes() == 0);
}

/// Memory is short: new datagrams push out others, down to the limit.
#[test]
fn a_limit_holds_from_the_next_datagram_on() {
    let mut pieces = Pieces::new(ReassemblyConfig { per_source: 1, ..ReassemblyConfig::default() });
    let bomb = |src| split(&datagram_v4(src, &payload(3000, 3)), 1500, 5).swap_remove(0);
    (0..64).for_each(|src| drop(offer(&mut pieces, &bomb(src), 0)));
    assert_eq!((pieces.len(), pieces.evicted()), (64, 0));
    pieces.limit(16);
    assert_eq!(pieces.len(), 64);
    offer(&mut pieces, &bomb(64), 0);
    assert_eq!((pieces.len(), pieces.evicted(), pieces.ended().len()), (16, 49, 49));
    pieces.limit(0);
    offer(&mut pieces, &bomb(65), 0);
    assert_eq!(pieces.len(), 1);
    pieces.limit(1000);
    (100..200).for_each(|src| drop(offer(&mut pieces, &bomb(src), 0)));
    assert_eq!(pieces.len(), 64, "never more than the configuration allows");
}

fn tiny() -> ReassemblyConfig {
    ReassemblyConfig { datagrams: 2, ..ReassemblyConfig::default() }
}

#[test]
fn congestion_marks_are_joined() {
    let mark = |fragments: &mut Vec<Vec<u8>>, marks: [u8; 2]| {
        for (fragment, mark) in fragments.iter_mut().zip(marks) {
            fragment[1] = mark;
        }
    };
    let mut fragments = split(&datagram_v4(1, &payload(2000, 3)), 1500, 5);
    mark(&mut fragments, [2, 3]);
    assert_eq!(feed(&mut Pieces::new(ReassemblyConfig::default()), &fragments)[0][1], 3);
    mark(&mut fragments, [0, 3]);
    let mut pieces = Pieces::new(ReassemblyConfig::default());
    offer(&mut pieces, &fragments[0], 0);
    assert_eq!(offer(&mut pieces, &fragments[1], 0), Offer::Rejected(Reject::Ecn));
}

proptest! {
    #[test]
    fn any_order_with_duplicates_gives_the_datagram_back(
        len in 1500usize..20_000, mtu in 60usize..1500, six: bool, seed: u64, repeat in 0usize..20,
    ) {
        let data = payload(len, seed as u8);
        let (datagram, mtu) = match six {
            true => (datagram_v6(&data), mtu + 40),
            false => (datagram_v4(1, &data), mtu),
        };
        let mut fragments = split(&datagram, mtu, seed as u32);
        let mut random = crate::random::Random::new(seed);
        for _ in 0..repeat {
            let again = fragments[random.up_to(fragments.len() as u64 - 1) as usize].clone();
            fragments.push(again);
        }
        for at in (1..fragments.len()).rev() {
            fragments.swap(at, random.up_to(at as u64) as usize);
        }
        let mut pieces = Pieces::new(ReassemblyConfig::default());
        let whole = feed(&mut pieces, &fragments);
        // Enough duplicates are a second datagram.
        prop_assert!(!whole.is_empty());
        whole.iter().for_each(|whole| same_datagram(whole, &datagram));
    }

    #[test]
    fn what_overlaps_never_gets_whole(
        cuts in proptest::collection::vec((0usize..500, 1usize..200), 1..40), total in 400usize..700,
        bytes: u8,
    ) {
        // Pieces of a datagram of `total` units, some of which share a unit without being equal.
        let data = payload(total * 8, bytes);
        let mut pieces = Pieces::new(ReassemblyConfig::default());
        let mut taken = vec![None; total];
        let mut overlapped = false;
        for (n, &(first, units)) in cuts.iter().enumerate() {
            let end = (first + units).min(total);
            if first >= end { continue }
            let range = first..end;
            let mine = Some((first, end));
            overlapped |= taken[range.clone()].iter().any(|&t| t.is_some() && t != mine);
            let more = end < total;
            let mut packet = datagram_v4(1, &data[first * 8..end * 8]);
            let frag = first as u16 | if more { 0x2000 } else { 0 };
            if frag == 0 { continue }
            packet[6..8].copy_from_slice(&frag.to_be_bytes());
            let got = offer(&mut pieces, &packet, n as u64);
            if overlapped {
                prop_assert!(matches!(got, Offer::Rejected(Reject::Overlap | Reject::GivenUp)), "{:?}", got);
            }
            taken[range].fill(mine);
        }
    }

    #[test]
    fn any_bytes_are_harmless(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..40)) {
        let mut pieces = Pieces::new(ReassemblyConfig { datagrams: 4, ..ReassemblyConfig::default() });
        for (now, mut packet) in packets.into_iter().enumerate() {
            if packet.len() > 44 {
                packet[0] = if packet[0] & 1 == 0 { 0x45 } else { 0x60 };
                if packet[0] == 0x60 { packet[6] = [44, 0, 60][usize::from(packet[7]) % 3]; packet[4..6].copy_from_slice(&[0, 4]); }
                else { packet[2..4].copy_from_slice(&[0, 44]); }
            }
            for family in [Piece::v4, Piece::v6] {
                if let Ok(Some(piece)) = family(&packet, 0) {
                    pieces.offer(&piece, now as u64, room);
                }
            }
            let _ = Piece::atomic(&packet);
            prop_assert!(pieces.len() <= 4);
            for ident in [None, Some(3)] {
                if let Ok(split) = split_v4(&packet, 68, ident) { all(split, 68); }
            }
            if let Ok(split) = split_v6(&packet, 1280, 3) { all(split, 1280); }
        }
    }
}

/// A first fragment behind `extra` bytes of destination options.
fn first_behind_options(extra: usize, ident: u8) -> Vec<u8> {
    let mut packet = datagram_v6(&[]);
    packet[6] = 60;
    let mut options = vec![0; extra];
    (options[0], options[1]) = (44, (extra / 8 - 1) as u8);
    packet.extend(options);
    packet.extend([17, 0, 0, 1, 0, 0, 0, ident]);
    packet.extend(payload(16, 3));
    let len = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet
}

#[test]
fn headers_longer_than_what_is_remembered_leave_the_account_right() {
    let mut pieces = Pieces::new(ReassemblyConfig::default());
    let refused = offer(&mut pieces, &first_behind_options(1192, 8), 0);
    assert_eq!(refused, Offer::Rejected(Reject::Malformed));
    assert_eq!(pieces.bytes(), 0);
    let datagram = datagram_v6(&payload(3000, 1));
    assert_eq!(feed(&mut pieces, &split(&datagram, 1280, 5)), [datagram]);
    assert_eq!(offer(&mut pieces, &first_behind_options(1184, 9), 0), Offer::Kept);
}
