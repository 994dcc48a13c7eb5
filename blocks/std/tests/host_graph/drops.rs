use std::net::Ipv4Addr;

use weever_blocks_std::testing::frames::*;
use weever_wire::MacAddr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::protocol;

use super::answers::{IntoSocket, serving};

/// The fault, the frame, and the node and counter that show it.
type Case = (&'static str, Vec<u8>, &'static str, &'static str);

const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 9]);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn good() -> Vec<u8> {
    udp(5000, 7, b"payload")
}

/// The good frame with a byte of its IPv4 header changed, checksum repaired.
fn ip_patched(at: usize, value: u8) -> Vec<u8> {
    from_peer(&patched(&good()[14..], at, value))
}

fn last_fragment(frame: &[u8]) -> Vec<u8> {
    from_peer(&patched(&patched(&frame[14..], 6, 0x1f), 7, 0xff))
}

fn byte_changed(frame: &[u8], at: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] ^= 1;
    frame
}

fn cut(frame: &[u8], len: usize) -> Vec<u8> {
    frame[..len].to_vec()
}

fn between(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    from_peer(&udp_datagram((src, 5000).into_socket(), (dst, 7).into_socket(), b"x"))
}

fn ethernet_cases() -> Vec<Case> {
    let tagged_good = tagged(&good(), 0, 0);
    let to = |dst| ethernet(dst, PEER_MAC, 0x0800, &good()[14..]);
    let typed = |t| ethernet(HOST_MAC, PEER_MAC, t, &[0; 46]);
    vec![
        ("13 bytes", cut(&good(), 13), "RxL2EtherClassified", "shorter than"),
        ("nothing at all", vec![], "RxL2EtherClassified", "shorter than"),
        ("a cut tag", cut(&tagged_good, 17), "RxL2EtherValidLength", "inside its 802.1Q tag"),
        ("another VLAN", tagged(&good(), 5, 0), "RxL2EtherValidVlan", "VLAN"),
        ("two tags", tagged(&tagged_good, 0, 0), "RxL2EtherValidVlan", "tagged more than once"),
        ("802.1ad", service_tagged(), "RxL2EtherValidVlan", "802.1ad"),
        ("another station", to(PEER_MAC), "RxL2EtherValidLocalMAC", "MAC"),
        ("a group", to(GROUP), "RxL2EtherValidMulticast", "multicast"),
        (
            "from a group",
            ethernet(HOST_MAC, GROUP, 0x0800, &good()[14..]),
            "RxL2EtherValidSrc",
            "source MAC",
        ),
        ("an 802.3 length", typed(46), "RxL2EtherValidType", "802.3"),
        ("no IPv6 header", typed(0x86dd), "RxL3IPv6ValidVersion", "version"),
        ("LLDP", typed(0x88cc), "RxL2EtherClassifyL3", "EtherType"),
    ]
}

fn arp_cases() -> Vec<Case> {
    let request = arp_request(HOST);
    let from = |sha, spa| arp(1, (sha, spa), (MacAddr::ZERO, HOST));
    vec![
        ("a cut request", cut(&request, 41), "RxL3ARPValidHeaderLength", "cut short"),
        ("of token ring", byte_changed(&request, 15), "RxL3ARPValidHeaderLength", "Ethernet"),
        ("operation 3", arp(3, (PEER_MAC, PEER), (HOST_MAC, HOST)), "RxL3ARPClassify", "operation"),
        (
            "from a broadcast address",
            from(PEER_MAC, Ipv4Addr::BROADCAST),
            "RxL3ARPValidRequest",
            "sender",
        ),
        (
            "a reply from nobody",
            arp(2, (PEER_MAC, Ipv4Addr::UNSPECIFIED), (HOST_MAC, HOST)),
            "RxL3ARPValidResponse",
            "sender",
        ),
        (
            "between others",
            arp(1, (PEER_MAC, OTHER), (MacAddr::ZERO, Ipv4Addr::new(10, 0, 0, 8))),
            "RxL3ARPIsPending",
            "others",
        ),
        (
            "an unsolicited reply",
            arp(2, (PEER_MAC, OTHER), (HOST_MAC, HOST)),
            "RxL3ARPIsPending",
            "unsolicited",
        ),
    ]
}

fn service_tagged() -> Vec<u8> {
    let mut frame = tagged(&good(), 0, 0);
    frame[12..14].copy_from_slice(&[0x88, 0xa8]);
    frame
}

/// The frame sent to every station.
fn to_all(frame: &[u8]) -> Vec<u8> {
    [&MacAddr::BROADCAST.0, &frame[6..]].concat()
}

fn ipv4_cases() -> Vec<Case> {
    let (good, ping) = (good(), echo_request(1, 2, b"data"));
    vec![
        ("19 bytes", cut(&good, 33), "RxL3IPv4ValidHeaderLength", "cut short"),
        ("no bytes", cut(&good, 14), "RxL3IPv4ValidHeaderLength", "cut short"),
        ("16 bytes of header", ip_patched(0, 0x44), "RxL3IPv4ValidHeaderLength", "length"),
        ("60 bytes of header", ip_patched(0, 0x4f), "RxL3IPv4ValidHeaderLength", "length"),
        ("version 6", ip_patched(0, 0x65), "RxL3IPv4ValidVersion", "version"),
        ("a total length of 19", ip_patched(3, 19), "RxL3IPv4ValidLength", "total length"),
        ("more than there is", ip_patched(3, 36), "RxL3IPv4ValidLength", "total length"),
        ("65,535 bytes", ip_patched(2, 0xff), "RxL3IPv4ValidLength", "total length"),
        ("a truncated datagram", cut(&good, 48), "RxL3IPv4ValidLength", "total length"),
        ("a bad checksum", byte_changed(&good, 24), "RxL3IPv4ValidChecksum", "checksum"),
        ("a fragment beyond 65,535", last_fragment(&good), "RxL3IPv4Reassemble", "cannot be part"),
        ("from 127.0.0.1", between(Ipv4Addr::LOCALHOST, HOST), "RxL3IPv4ValidSource", "source"),
        ("from ourselves", between(HOST, HOST), "RxL3IPv4ValidSource", "source"),
        ("from all", between(Ipv4Addr::BROADCAST, HOST), "RxL3IPv4ValidSource", "source"),
        ("for another host", between(PEER, OTHER), "RxL3IPv4Destination", "not ours"),
        ("ours, in a link broadcast", to_all(&good), "RxL3IPv4Destination", "link broadcast"),
        ("a ping in a link broadcast", to_all(&ping), "RxL3IPv4Destination", "link broadcast"),
        (
            "for nobody",
            between(PEER, Ipv4Addr::new(240, 0, 0, 1)),
            "RxL3IPv4Destination",
            "not a host's",
        ),
        ("for a group", between(PEER, Ipv4Addr::new(224, 0, 0, 9)), "RxL3IPv4Destination", "group"),
        ("a source route", source_routed(), "RxL3IPv4ValidOptions", "source"),
    ]
}

fn source_routed() -> Vec<u8> {
    let header = ipv4_repr(PEER, HOST, protocol::UDP);
    let mut datagram = ipv4(header, &[&[131, 3, 4, 0], &good()[34..]].concat());
    datagram[0] = 0x46;
    datagram[10..12].fill(0);
    let check = !weever_wire::checksum::sum(&datagram[..24]);
    datagram[10..12].copy_from_slice(&check.to_be_bytes());
    from_peer(&datagram)
}

fn transport_cases() -> Vec<Case> {
    let echo = IcmpRepr::EchoRequest { ident: 1, seq: 2, data: b"data" };
    let ping = icmp(HOST, echo);
    let reply = icmp(HOST, IcmpRepr::EchoReply { ident: 1, seq: 2, data: b"data" });
    let short = |p, len| from_peer(&ipv4(ipv4_repr(PEER, HOST, p), &vec![8; len]));
    let udp_length = |length: u8| {
        let mut frame = good();
        frame[39] = length;
        frame
    };
    vec![
        ("7 bytes of ICMP", short(protocol::ICMP, 7), "RxL3ICMPValidHeaderLength", "cut short"),
        ("a bad ICMP checksum", byte_changed(&ping, 44), "RxL3ICMPValidChecksum", "checksum"),
        ("an echo reply", reply, "RxL3ICMPClassify", "unsolicited"),
        ("a ping to all", icmp(SUBNET_BROADCAST, echo), "RxL3ICMPNeedsResponse", "broadcast"),
        ("7 bytes of UDP", short(protocol::UDP, 7), "RxL4UDPValidHeaderLength", "cut short"),
        ("a UDP length of 7", udp_length(7), "RxL4UDPValidLength", "length"),
        ("a UDP length of 16", udp_length(16), "RxL4UDPValidLength", "length"),
        ("a bad UDP checksum", byte_changed(&good(), 44), "RxL4UDPValidChecksum", "checksum"),
        ("echo to all", between(PEER, SUBNET_BROADCAST), "RxL4UDPEcho", "loop"),
        ("from the echo port", udp(7, 7, b"x"), "RxL4UDPEcho", "loop"),
        (
            "a closed port, to all",
            from_peer(&udp_datagram(
                (PEER, 5000).into_socket(),
                (SUBNET_BROADCAST, 8).into_socket(),
                b"x",
            )),
            "RxL4UDPClosedPortAction",
            "must not",
        ),
    ]
}

#[test]
fn every_malformed_frame_lands_at_exactly_its_reason() {
    let cases = [ethernet_cases(), arp_cases(), ipv4_cases(), transport_cases()].concat();
    for (what, frame, node, reason) in cases {
        let mut host = serving();
        host.receive(&[&frame]);
        let drops = host.drops();
        assert_eq!(drops.len(), 1, "{what}: {drops:?}");
        let (at, why, n) = &drops[0];
        assert_eq!((at.as_str(), *n), (node, 1), "{what}");
        assert!(why.contains(reason), "{what}: {why}");
        assert_eq!(host.sent(), Vec::<Vec<u8>>::new(), "{what}");
        host.finish();
    }
}

/// Neighbours in a burst do not change each other's fate.
#[test]
fn a_mixed_burst_is_the_sum_of_its_packets() {
    let cases = [ethernet_cases(), arp_cases(), ipv4_cases(), transport_cases()].concat();
    let mut host = serving();
    let frames: Vec<Vec<u8>> =
        cases.iter().flat_map(|(_, frame, ..)| [frame.clone(), good()]).collect();
    host.receive(&frames);
    assert_eq!(host.sent().len(), cases.len());
    for (what, _, node, reason) in &cases {
        let found = host.drops().iter().any(|(at, why, _)| at == node && why.contains(reason));
        assert!(found, "{what}");
    }
    let dropped: u64 = host.drops().iter().map(|(.., n)| n).sum();
    assert_eq!(dropped, cases.len() as u64);
    host.finish();
}
