//! Packet sockets between two namespaces.

use std::time::{Duration, Instant};

use weever_link_sys::netdev::InterfaceError;
use weever_link_sys::packet::{PacketSocket, Protocol, RingShape, TpacketRing};
use weever_testbed::{Fixture, require_net_admin};

const ETHERTYPE: u16 = 0x88b6;
const SOON: Duration = Duration::from_secs(10);

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[..6].fill(0xff);
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}

fn socket(net: &Fixture, left: bool) -> PacketSocket {
    let (namespace, name) = if left { (&net.left, "left0") } else { (&net.right, "right0") };
    namespace.run(|| PacketSocket::open(name, Protocol::EtherType(ETHERTYPE))).unwrap()
}

#[test]
fn frames_arrive_at_the_other_end_and_only_there() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let (left, right) = (socket(&net, true), socket(&net, false));
    let mut buffer = [0; 2000];
    for len in [15, 60, 700, 1514] {
        left.send(&frame(1, len)).unwrap();
        let length = right.receive(&mut buffer, SOON).unwrap().expect("in time");
        assert_eq!(buffer[..length], frame(1, len));
        assert_eq!(left.receive(&mut buffer, Duration::ZERO).unwrap(), None, "not its own");
    }
    assert_eq!(left.interface().mac, net.veth.left.mac);
}

#[test]
fn silence_ends_after_the_timeout() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let start = Instant::now();
    let received = socket(&net, true).receive(&mut [0; 10], Duration::from_millis(30)).unwrap();
    assert!(received.is_none() && start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn what_cannot_be_sent_is_an_error() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let left = socket(&net, true);
    assert!(left.send(&frame(1, 2000)).is_err(), "beyond the MTU");
    assert!(left.send(&[1; 5]).is_err(), "no link header");
    let error = PacketSocket::open("no-such-device", Protocol::All).unwrap_err();
    assert!(matches!(error, InterfaceError::NotFound { .. }), "{error}");
}

#[test]
fn a_mapped_ring_shows_every_frame_in_order_lap_after_lap() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let shape = RingShape { blocks: 4, block_size: 1 << 14, timeout_ms: 2 };
    let protocol = Protocol::EtherType(ETHERTYPE);
    let mut ring = net.right.run(|| TpacketRing::open("right0", protocol, shape)).unwrap();
    let left = socket(&net, true);
    assert_eq!(ring.next_block(|_| {}), 0);
    for lap in 0..20u8 {
        let frames: Vec<_> = (0..10).map(|i| frame(lap * 10 + i, 60 + 100 * i as usize)).collect();
        frames.iter().for_each(|frame| left.send(frame).unwrap());
        let mut seen = Vec::new();
        let end = Instant::now() + SOON;
        while seen.len() < 10 && Instant::now() < end {
            ring.wait(Duration::from_millis(10)).unwrap();
            ring.next_block(|frame| seen.push(frame.to_vec()));
        }
        assert_eq!(seen, frames);
    }
}

#[test]
fn an_impossible_ring_is_refused() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let shape = RingShape { blocks: 4, block_size: 1000, timeout_ms: 2 };
    let open = || TpacketRing::open("right0", Protocol::All, shape);
    let error = net.right.run(open).unwrap_err();
    assert!(error.to_string().contains("PACKET_RX_RING"), "{error}");
}
