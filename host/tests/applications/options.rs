//! Options that an application sets on a single datagram, and facts it learns of one.

use weever_app_ring::{Fragment, PacketFlags, PacketInfo};
use weever_blocks_std::testing::frames::{PEER, udp};

use crate::bench;

fn to_peer(fragment: Fragment) -> PacketInfo {
    PacketInfo { remote: (PEER, 9).into(), fragment, ..PacketInfo::default() }
}

/// Identification, "don't fragment" and the rest of the word with the offset.
fn fragmentation(packet: &[u8]) -> (u16, bool, u16) {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (word(4), word(6) & 0x4000 != 0, word(6) & 0x3fff)
}

#[test]
fn who_forbids_fragments_is_told_what_is_too_long() {
    let mut bench = bench();
    let socket = bench.bind(53);
    for fragment in [Fragment::Never, Fragment::Probe] {
        bench.submit(socket, &to_peer(fragment), &[1; 1472]);
        let sent = bench.received();
        assert_eq!((sent.len(), fragmentation(&sent[0])), (1, (0, true, 0)));
        bench.submit(socket, &to_peer(fragment), &[1; 1473]);
        assert_eq!(bench.received().len(), 0);
        assert_eq!(bench.error(), Some((socket, 90, 1500, (PEER, 9).into())));
    }
    bench.submit(socket, &to_peer(Fragment::Want), &[1; 1473]);
    assert_eq!(bench.received().len(), 2, "otherwise it is cut up");
}

#[test]
fn what_others_may_cut_up_has_an_identification() {
    let mut bench = bench();
    let socket = bench.bind(53);
    let mut seen = Vec::new();
    for _ in 0..2 {
        bench.submit(socket, &to_peer(Fragment::Allow), b"short");
        let sent = bench.received();
        let (ident, dont, rest) = fragmentation(&sent[0]);
        assert_eq!((sent.len(), dont, rest), (1, false, 0));
        seen.push(ident);
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn hops_and_traffic_class_go_both_ways() {
    let mut bench = bench();
    let socket = bench.bind(53);
    let info = PacketInfo {
        hops: 3,
        traffic_class: 0xb9,
        flags: PacketFlags::HOPS.with(PacketFlags::TRAFFIC_CLASS),
        ..to_peer(Fragment::Want)
    };
    bench.submit(socket, &info, b"x");
    let sent = bench.received().remove(0);
    assert_eq!((sent[8], sent[1]), (3, 0xb9));
    bench.send(&udp(9, 53, b"y"));
    let received = bench.app.receive().unwrap().unwrap();
    let info = bench.app.info(received.frame.as_ref().unwrap());
    assert_eq!((info.hops, info.traffic_class, info.interface), (64, 0, 1));
    assert!(info.timestamp > 0, "when it came");
}
