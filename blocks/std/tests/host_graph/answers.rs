use weever_blocks_std::testing::{HostBox, frames::*};
use weever_engine::CounterKind;
use weever_models::{HostConfig, Service, host};
use weever_packet::Flags;
use weever_wire::MacAddr;
use weever_wire::checksum;
use weever_wire::icmpv4::{IcmpRepr, IcmpView};
use weever_wire::ipv4::{Ipv4View, protocol};

/// A host with an echo on port 7 and a discard on port 9, which knows its peer.
pub(crate) fn serving() -> HostBox {
    let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
    let mut host = HostBox::new(host(&config).unwrap());
    host.receive(&[arp_request(HOST)]);
    host.advance(5_000_000_000);
    host.sent();
    host
}

/// The frame in which the host echoes to the peer's port.
fn echoed(to_port: u16, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = ((HOST, 7).into_socket(), (PEER, to_port).into_socket());
    let mut datagram = udp_datagram(src, dst, payload);
    // weever's datagrams are atomic: no identification (RFC 6864).
    datagram = patched(&patched(&datagram, 4, 0), 5, 0);
    // An answer lives shorter than its question, which has 64.
    datagram = patched(&datagram, 8, 63);
    ethernet(PEER_MAC, HOST_MAC, 0x0800, &datagram)
}

pub(crate) trait IntoSocket {
    fn into_socket(self) -> std::net::SocketAddrV4;
}

impl IntoSocket for (std::net::Ipv4Addr, u16) {
    fn into_socket(self) -> std::net::SocketAddrV4 {
        std::net::SocketAddrV4::new(self.0, self.1)
    }
}

#[test]
fn arp_requests_are_answered() {
    let mut host = HostBox::new(host(&HostConfig::default()).unwrap());
    host.receive(&[arp_request(HOST)]);
    let reply = arp(2, (HOST_MAC, HOST), (PEER_MAC, PEER));
    let announcement = arp(1, (HOST_MAC, HOST), (MacAddr::ZERO, HOST));
    assert_eq!(host.sent(), [reply, announcement]);
    host.finish();
}

#[test]
fn echoes_of_every_size_come_back() {
    let mut host = serving();
    for len in [0, 1, 2, 17, 18, 64, 511, 1471, 1472] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        host.receive(&[udp(5000, 7, &payload)]);
        assert_eq!(host.sent(), [echoed(5000, &payload)], "{len}");
    }
    host.finish();
}

#[test]
fn a_burst_comes_back_in_order() {
    let mut host = serving();
    let asked: Vec<Vec<u8>> = (0..200).map(|i| udp(5000 + i, 7, &i.to_be_bytes())).collect();
    host.receive(&asked);
    let answers: Vec<Vec<u8>> = (0..200u16).map(|i| echoed(5000 + i, &i.to_be_bytes())).collect();
    assert_eq!(host.sent(), answers);
    host.finish();
}

#[test]
fn padding_is_no_payload() {
    let mut host = serving();
    for payload in [&b"x"[..], b""] {
        let mut frame = udp(5000, 7, payload);
        frame.resize(60, 0xee);
        host.receive(&[frame]);
        assert_eq!(host.sent(), [echoed(5000, payload)]);
    }
    host.finish();
}

#[test]
fn bytes_behind_a_shorter_udp_length_are_no_payload() {
    let mut host = serving();
    let segment = udp_segment((PEER, 5000).into_socket(), (HOST, 7).into_socket(), b"abc");
    let longer = [&segment[..], b"behind"].concat();
    host.receive(&[from_peer(&ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &longer))]);
    assert_eq!(host.sent(), [echoed(5000, b"abc")]);
    host.finish();
}

#[test]
fn options_are_stepped_over() {
    let mut host = serving();
    let plain = udp(5000, 7, b"abc");
    let header = ipv4_repr(PEER, HOST, protocol::UDP);
    // A router alert, with the header length and checksum that go with it.
    let mut datagram = ipv4(header, &[&[148, 4, 0, 0], &plain[34..]].concat());
    datagram[0] = 0x46;
    datagram[10..12].fill(0);
    let check = checksum::finish(checksum::sum(&datagram[..24]));
    datagram[10..12].copy_from_slice(&check.to_be_bytes());
    host.receive(&[from_peer(&datagram)]);
    assert_eq!(host.sent(), [echoed(5000, b"abc")]);
    host.finish();
}

#[test]
fn checksums_absent_and_partial() {
    let mut host = serving();
    let mut absent = udp(5000, 7, b"abc");
    absent[40..42].fill(0);
    let mut partial = absent.clone();
    let pseudo = checksum::pseudo_v4(PEER, HOST, protocol::UDP, 11);
    partial[40..42].copy_from_slice(&pseudo.to_be_bytes());

    host.receive(&[&absent, &partial]);
    assert_eq!(host.sent(), [echoed(5000, b"abc")]);
    host.set_flags(Flags::MAY_BE_PARTIAL);
    host.receive(&[&absent, &partial]);
    assert_eq!(host.sent(), [echoed(5000, b"abc"), echoed(5000, b"abc")]);
    let count = |label| host.count("RxL4UDPValidChecksum", CounterKind::Own, label);
    assert_eq!((count("absent"), count("partial")), (2, 1));
    host.finish();
}

#[test]
fn pings_are_answered() {
    let mut host = serving();
    for len in [0, 1, 56, 1472] {
        let data = vec![0x5a; len];
        host.receive(&[echo_request(3, 4, &data)]);
        let sent = host.sent();
        let ip = Ipv4View::new(&sent[0][14..]).unwrap();
        assert!(ip.checksum_ok());
        assert_eq!((ip.header().src(), ip.header().dst()), (HOST, PEER));
        let icmp = IcmpView::new(ip.payload()).unwrap();
        assert!(icmp.checksum_ok());
        let wanted = IcmpRepr::EchoReply { ident: 3, seq: 4, data: &data };
        assert_eq!(IcmpRepr::parse(icmp), Ok(wanted));
    }
    host.finish();
}

#[test]
fn closed_ports_are_reported_but_not_too_often() {
    let mut host = serving();
    let stray = udp(5000, 33434, b"anyone?");
    host.receive(&[&stray]);
    let sent = host.sent();
    let ip = Ipv4View::new(&sent[0][14..]).unwrap();
    let icmp = IcmpRepr::parse(IcmpView::new(ip.payload()).unwrap());
    assert_eq!(icmp, Ok(IcmpRepr::Unreachable { code: 3, mtu: 0, quote: &stray[14..] }));

    host.advance(1_000_000_000);
    host.receive(&vec![&stray; 100]);
    let sent = host.sent();
    // RFC 1812 §4.3.2.5: precedence 6.
    assert!(sent.iter().all(|frame| frame[15] == 0xc0));
    assert_eq!(sent.len(), 10, "to one destination");
    let reason = "UDP port is closed; too many ICMP errors were sent";
    assert_eq!(host.count("RxL4UDPClosedPortAction", CounterKind::Drop, reason), 90);
    host.finish();
}

#[test]
fn discarded_datagrams_are_counted_and_gone() {
    let mut host = serving();
    host.receive(&vec![udp(5000, 9, b"gone"); 70]);
    assert_eq!(host.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(host.count("RxL4UDPDiscard", CounterKind::Own, "packets"), 70);
    assert_eq!(host.drops(), []);
    host.finish();
}

#[test]
fn vlans() {
    let mut host = serving();
    host.receive(&[tagged(&udp(5000, 7, b"abc"), 0, 6)]);
    assert_eq!(host.sent(), [echoed(5000, b"abc")], "a priority tag is no VLAN");
    host.receive(&[tagged(&udp(5000, 7, b"abc"), 5, 0)]);
    assert_eq!(host.sent(), Vec::<Vec<u8>>::new());
    host.finish();

    let state = weever_blocks_std::testing::host::host_state_in(Some(5), 1500);
    let graph = weever_models::host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut host = HostBox::with(graph, state, weever_engine::Limits::default());
    host.advance(5_000_000_000);
    host.sent();
    host.receive(&[tagged(&arp_request(HOST), 5, 0), tagged(&udp(5000, 7, b"abc"), 5, 0)]);
    let reply = arp(2, (HOST_MAC, HOST), (PEER_MAC, PEER));
    assert_eq!(host.sent(), [tagged(&reply, 5, 0), tagged(&echoed(5000, b"abc"), 5, 0)]);
    host.receive(&[udp(5000, 7, b"abc")]);
    assert_eq!(host.drops().len(), 1);
    host.finish();
}
