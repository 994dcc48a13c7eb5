//! A pool so small that a flood could empty it.

use std::net::{Ipv4Addr, SocketAddrV4};

use weever_blocks_std::testing::{LinkBox, frames::*};
use weever_models::{HostConfig, Service, host};

const MILLISECOND: u64 = 1_000_000;
const FRAMES: u32 = 512;

/// A host that has announced itself and knows no neighbour.
fn lonely() -> LinkBox {
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut host = LinkBox::new(graph, FRAMES, 64);
    for _ in 0..500 {
        host.turn(10 * MILLISECOND);
    }
    host.received();
    host
}

/// An echo request over UDP from a neighbour.
fn from(src: Ipv4Addr) -> Vec<u8> {
    let to = SocketAddrV4::new(HOST, 7);
    from_peer(&udp_datagram(SocketAddrV4::new(src, 5000), to, b"x"))
}

/// Asks from this many neighbours that the host does not know and that do not answer.
fn flood(host: &mut LinkBox, neighbours: std::ops::RangeInclusive<u8>) {
    for last in neighbours {
        let frames = vec![from(Ipv4Addr::new(10, 0, 0, last)); 64];
        assert!(host.send(&frames) > 0, "the pool is exhausted");
        host.settle();
        host.received();
    }
}

#[test]
fn what_waits_for_neighbours_leaves_room_for_their_answers() {
    let mut host = lonely();
    assert_eq!(host.send(&vec![from(PEER); 20]), 20);
    host.settle();
    flood(&mut host, 3..=250);
    let waiting = host.counters().total("blocked_now");
    assert_eq!(waiting, u64::from(FRAMES / 8), "as many as may");
    assert!(host.available() >= FRAMES as usize / 4, "{} frames are left", host.available());

    assert_eq!(host.send(&[arp_reply()]), 1);
    host.settle();
    let echoes = |frames: Vec<Vec<u8>>| {
        frames.iter().filter(|f| f[..6] == PEER_MAC.0 && f[12..14] == [8, 0]).count()
    };
    assert_eq!(echoes(host.received()), 20, "those that waited");
    assert_eq!(host.send(&vec![from(PEER); 64]), 64);
    host.settle();
    assert_eq!(echoes(host.received()), 64);
    host.finish();
}

/// A peer that takes no frames holds up its own, and no other peer's.
#[test]
fn a_peer_that_takes_nothing_does_not_empty_the_pool() {
    let mut host = lonely();
    assert_eq!(host.send(&[arp_request(HOST)]), 1);
    host.settle();
    for _ in 0..200 {
        host.send(&vec![from(PEER); 64]);
        (0..20).for_each(|_| drop(host.turn(0)));
    }
    assert!(host.available() >= FRAMES as usize / 4, "{} frames are left", host.available());
    for _ in 0..20 {
        host.received();
        host.settle();
    }
    host.received();
    assert_eq!(host.send(&[from(PEER)]), 1);
    host.settle();
    assert_eq!(host.received().len(), 1);
    host.finish();
}
