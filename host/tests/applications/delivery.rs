//! Which socket a datagram or an error gets to.

use std::net::IpAddr;

use weever_app_ring::{PacketFlags, PacketInfo};
use weever_app_server::SocketRequest;
use weever_blocks_std::testing::frames::{
    HOST, HOST_MAC, PEER, PEER_MAC, ethernet, ipv4, ipv4_repr, udp,
};
use weever_net::demux::Sharing;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;

use crate::{Bench, bench};

const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 1, 1, 1));

fn to(addr: impl Into<IpAddr>, port: u16) -> PacketInfo {
    PacketInfo { remote: (addr.into(), port).into(), ..PacketInfo::default() }
}

#[test]
fn sockets_of_one_host_reach_each_other_in_both_families() {
    let mut bench = bench();
    let (asker, server) = (bench.bind(4000), bench.bind(53));
    for ours in [HOST.into(), "2001:db8::1".parse::<IpAddr>().unwrap()] {
        // Duplicate address detection takes a second.
        bench.run_for(3_000);
        bench.submit(asker, &to(ours, 53), b"question");
        assert_eq!(bench.heard(), [(server, (ours, 4000).into(), b"question".to_vec())]);
        bench.submit(server, &to(ours, 4000), &[7; 5000]);
        let heard = bench.heard();
        let payload: Vec<u8> = heard.iter().flat_map(|(_, _, part)| part.clone()).collect();
        assert_eq!((heard[0].0, payload), (asker, vec![7; 5000]), "nothing cuts it up");
    }
    assert_eq!(bench.received(), Vec::<Vec<u8>>::new(), "nothing of it leaves");
}

#[test]
fn the_hosts_own_services_answer_its_applications() {
    let mut bench = bench();
    let asker = bench.bind(4000);
    bench.submit(asker, &to(HOST, 7), b"echo?");
    assert_eq!(bench.heard(), [(asker, (HOST, 7).into(), b"echo?".to_vec())]);
}

/// Three sockets on one port, the first two in the group.
fn members(bench: &mut Bench) -> [u32; 3] {
    let request = SocketRequest {
        local_port: Some(5353),
        sharing: Sharing::Latest,
        ..SocketRequest::default()
    };
    let sockets = [0; 3].map(|_: u32| bench.server.open_socket(bench.queue, &request).unwrap().id);
    for member in &sockets[..2] {
        bench.server.join(bench.queue, *member, GROUP, None).unwrap();
    }
    bench.run();
    sockets
}

#[test]
fn what_comes_to_a_group_reaches_each_member_and_what_goes_to_one_comes_back() {
    let mut bench = bench();
    let [first, second, third] = members(&mut bench);
    let IpAddr::V4(group) = GROUP else { unreachable!() };
    let frame = ethernet(
        weever_net::ipv4::multicast_mac(group),
        PEER_MAC,
        ethertype::IPV4,
        &ipv4(ipv4_repr(PEER, group, protocol::UDP), &udp_of(9, 5353, b"news")),
    );
    bench.send(&frame);
    let sockets = |bench: &mut Bench| {
        let mut sockets: Vec<u32> = bench.heard().into_iter().map(|(id, ..)| id).collect();
        sockets.sort_unstable();
        sockets
    };
    assert_eq!(sockets(&mut bench), [first, second]);
    bench.received();
    bench.submit(third, &to(GROUP, 5353), b"mine");
    assert_eq!(sockets(&mut bench), [first, second], "a sender need be no member");
    let is_to_group = |packet: &Vec<u8>| packet[16..20] == group.octets() && packet[9] == 17;
    assert_eq!(bench.received().iter().filter(|p| is_to_group(p)).count(), 1);
    let quiet = PacketInfo { flags: PacketFlags::NO_LOOP, ..to(GROUP, 5353) };
    bench.submit(third, &quiet, b"mine");
    assert!(sockets(&mut bench).is_empty());
    bench.server.leave(bench.queue, first, GROUP, None).unwrap();
    bench.server.leave(bench.queue, second, GROUP, None).unwrap();
    bench.run();
    bench.send(&frame);
    assert!(sockets(&mut bench).is_empty());
}

#[test]
fn a_broadcast_reaches_every_socket_of_the_port() {
    let mut bench = bench();
    let all = members(&mut bench);
    let frame = ethernet(
        weever_wire::MacAddr::BROADCAST,
        PEER_MAC,
        ethertype::IPV4,
        &ipv4(ipv4_repr(PEER, [10, 0, 0, 255].into(), protocol::UDP), &udp_of(9, 5353, b"all")),
    );
    bench.send(&frame);
    let mut heard: Vec<u32> = bench.heard().into_iter().map(|(id, ..)| id).collect();
    heard.sort_unstable();
    assert_eq!(heard, all);
}

/// A UDP datagram without a checksum.
fn udp_of(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [from, to, 8 + payload.len() as u16, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(payload);
    datagram
}

/// An ICMP error from the peer about a packet of the host.
fn icmp_error(kind: u8, code: u8, mtu: u16, about: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&about[..28]);
    let sum = weever_wire::checksum::finish(weever_wire::checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ethernet(
        HOST_MAC,
        PEER_MAC,
        ethertype::IPV4,
        &ipv4(ipv4_repr(PEER, HOST, protocol::ICMP), &message),
    )
}

#[test]
fn an_icmp_error_is_told_to_the_socket_that_sent_and_to_no_other() {
    let mut bench = bench();
    let (socket, _other) = (bench.bind(53), bench.bind(54));
    bench.submit(socket, &to(PEER, 9), b"is anybody there?");
    let sent = bench.received().remove(0);
    bench.send(&icmp_error(3, 3, 0, &sent));
    assert_eq!(bench.error(), Some((socket, 111, 0, (PEER, 9).into())), "ECONNREFUSED");
    bench.send(&icmp_error(3, 4, 1300, &sent));
    assert_eq!(bench.error(), Some((socket, 90, 1300, (PEER, 9).into())), "EMSGSIZE");
    let mut forged = sent.clone();
    forged[15] = 77;
    bench.send(&icmp_error(3, 3, 0, &forged));
    assert_eq!(bench.error(), None, "not from an address of ours");
    let mut unsent = sent;
    unsent[21] = 99;
    bench.send(&icmp_error(3, 3, 0, &unsent));
    assert_eq!(bench.error(), None, "from a port that is not open");
    bench.send(&udp(9, 54, b"x"));
    assert_eq!(bench.heard().len(), 1);
}
