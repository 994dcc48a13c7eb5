use std::net::SocketAddrV4;
use std::sync::Arc;

use proptest::prelude::*;
use weever_block::{Buffer, Burst, Claim, Mask, Priority};
use weever_net::iface::Interface;
use weever_net::state::NetConfig;
use weever_packet::{Endpoints, Flags};
use weever_wire::checksum;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;
use weever_wire::udp::UdpView;

use super::*;
use crate::bench::{Bench, Ran};
use crate::host::Network;
use crate::testing::frames::*;
use crate::testing::frames6::{HOST6, PEER6, udp6};

const CLIENT: SocketAddrV4 = SocketAddrV4::new(PEER, 5000);
const SERVER: SocketAddrV4 = SocketAddrV4::new(HOST, 7);

fn bench() -> Bench {
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    Bench::new().providing(Arc::new(Network::new(config)))
}

/// A datagram as it looks behind the validators of IPv4.
fn received(bench: &mut Bench, datagram: &[u8], flags: Flags) -> Buffer {
    let mut packet = bench.packet(datagram);
    let (head, len) = (packet.head(), packet.len() as u16);
    let meta = packet.meta_mut();
    (meta.l3, meta.l4, meta.end, meta.flags) = (head, head + 20, head + len, flags);
    packet
}

fn run(block: &'static weever_block::BlockType, datagram: &[u8], flags: Flags) -> Ran {
    let mut bench = bench();
    let packet = received(&mut bench, datagram, flags);
    let burst = bench.single(packet);
    bench.run(block, burst, 1)
}

fn checksum_of(datagram: &[u8], flags: Flags) -> (Vec<Mask>, Vec<(u32, u64)>) {
    let ran = run(&VALID_CHECKSUM, datagram, flags);
    (ran.ports, ran.requests.counts)
}

fn datagram() -> Vec<u8> {
    udp_datagram(CLIENT, SERVER, b"payload")
}

fn with_checksum(check: u16) -> Vec<u8> {
    let mut datagram = datagram();
    datagram[26..28].copy_from_slice(&check.to_be_bytes());
    datagram
}

#[test]
fn headers_and_lengths() {
    let good = datagram();
    for (length, wanted) in [(7, [1, 0]), (8, [0, 1]), (15, [0, 1]), (16, [1, 0])] {
        let mut datagram = good.clone();
        datagram[25] = length;
        let ran = run(&VALID_LENGTH, &datagram, Flags::NONE);
        assert_eq!(ran.ports, wanted, "{length}");
        if wanted == [0, 1] {
            let meta = ran.packet(0).meta();
            assert_eq!(meta.end - meta.l4, length.into());
        }
    }
}

#[test]
fn checksums() {
    let pseudo = checksum::pseudo_v4(PEER, HOST, protocol::UDP, 15);
    let partial = Flags::MAY_BE_PARTIAL;
    assert_eq!(checksum_of(&datagram(), Flags::NONE), (vec![0, 1], vec![]));
    assert_eq!(checksum_of(&datagram(), partial), (vec![0, 1], vec![]));
    assert_eq!(checksum_of(&with_checksum(0), Flags::NONE), (vec![0, 1], vec![(0, 1)]));
    assert_eq!(checksum_of(&with_checksum(pseudo), partial), (vec![0, 1], vec![(1, 1)]));
    assert_eq!(checksum_of(&with_checksum(pseudo), Flags::NONE), (vec![1, 0], vec![]));
    assert_eq!(checksum_of(&with_checksum(pseudo ^ 1), partial), (vec![1, 0], vec![]));
    let verified = Flags::CHECKSUM_VERIFIED;
    assert_eq!(checksum_of(&with_checksum(1), verified), (vec![0, 1], vec![]));
}

#[test]
fn a_partial_checksum_is_marked() {
    let pseudo = checksum::pseudo_v4(PEER, HOST, protocol::UDP, 15);
    let ran = run(&VALID_CHECKSUM, &with_checksum(pseudo), Flags::MAY_BE_PARTIAL);
    assert!(ran.packet(0).meta().flags.has(Flags::PARTIAL_CHECKSUM));
}

#[test]
fn the_echo_answers_whom_it_may() {
    let answered = [(Claim::Spawn { edge: 0, priority: Priority::High }, 1)];
    assert_eq!(run(&UDP_ECHO, &datagram(), Flags::NONE).requests.claims, answered);
    let to_all = SocketAddrV4::new(SUBNET_BROADCAST, 7);
    // Its own port, none, and those of chargen, DNS and NTP.
    let services = [7, 0, 19, 53, 123, 1023].map(|port| (SocketAddrV4::new(PEER, port), SERVER));
    for (src, dst) in services.into_iter().chain([(CLIENT, to_all)]) {
        let ran = run(&UDP_ECHO, &udp_datagram(src, dst, b"x"), Flags::NONE);
        assert_eq!((ran.ports, ran.requests.claims), (vec![1, 0], vec![]), "{src} {dst}");
    }
}

#[test]
fn the_echo_answers_as_often_as_it_is_told() {
    let mut bench = bench().with_param("per_second", "30");
    let mut echo = bench.make(&UDP_ECHO);
    let mut answered = |bench: &mut Bench| {
        let mut burst = Burst::new();
        for task in 0..8 {
            burst.put(task, received(bench, &datagram(), Flags::NONE));
        }
        let ran = bench.run_block(echo.as_mut(), &UDP_ECHO, burst, 0xff);
        (ran.requests.claims[0].1, ran.ports)
    };
    assert_eq!(answered(&mut bench), (0b111, vec![0, 0b1111_1000]));
}

#[test]
fn services_that_answer_each_other_stop() {
    let with_ttl = |ttl: u8| {
        let mut datagram = datagram();
        datagram[8] = ttl;
        datagram
    };
    for (ttl, answered) in [(0, false), (1, false), (2, true), (255, true)] {
        let ran = run(&UDP_ECHO, &with_ttl(ttl), Flags::NONE);
        assert_eq!(ran.requests.claims.len(), usize::from(answered), "time to live {ttl}");
    }
    for (ttl, given) in [(2, 1), (64, 63), (65, 64), (255, 64)] {
        let ran = run(&INITIATE_RESPONSE, &with_ttl(ttl), Flags::NONE);
        assert_eq!(ran.packet(0).meta().endpoints.ttl, given, "in answer to {ttl}");
    }
}

/// Whether the question has a checksum of its own (then the answer has the same one), none, or a partial one.
#[test]
fn an_answer_is_made_of_the_question() {
    let payloads = [&b"payload"[..], b"", b"ab", &[0xa5; 1472]];
    let kinds = [Checksum::Valid, Checksum::Absent, Checksum::Partial];
    for (payload, kind) in payloads.into_iter().flat_map(|p| kinds.map(|kind| (p, kind))) {
        let mut bench = bench();
        let mut question = udp_datagram(CLIENT, SERVER, payload);
        let len = question.len() as u16 - 20;
        match kind {
            Checksum::Absent => question[26..28].fill(0),
            Checksum::Partial => {
                let sum = checksum::pseudo_v4(PEER, HOST, protocol::UDP, len);
                question[26..28].copy_from_slice(&sum.to_be_bytes());
            }
            _ => {}
        }
        let mut packet = received(&mut bench, &question, Flags::MAY_BE_PARTIAL);
        assert_eq!(verify(&mut packet), kind);
        let mut burst = bench.single(packet);
        let blocks = [(&INITIATE_RESPONSE, 2), (&ALLOCATE_HEADER, 0), (&FILL_HEADER, 0)];
        let (as_it_is, anew) = (&[(&INITIATE_RESPONSE, 0)][..], &blocks[..]);
        for (block, port) in if kind == Checksum::Valid { as_it_is } else { anew } {
            let ran = bench.run(block, burst, 1);
            assert_eq!(ran.ports[*port], 1, "{}: {:?}", block.name, ran.ports);
            burst = ran.burst;
        }
        let packet = burst.get(0).unwrap();
        assert_eq!(packet.data(), udp_segment(SERVER, CLIENT, payload));
        let ends = packet.meta().endpoints;
        assert_eq!(Endpoints::v4(&ends.local), HOST.to_bits());
        assert_eq!(Endpoints::v4(&ends.remote), PEER.to_bits());
        let view = UdpView::new(packet.data()).unwrap();
        assert!(view.checksum_ok(view.pseudo_sum(HOST, PEER)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A datagram that goes back as it is has the header that one made anew would have, of either family.
    #[test]
    fn the_checksum_of_a_question_is_that_of_its_answer(
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        (src, dst) in (1024u16.., 1u16..),
        six in any::<bool>(),
    ) {
        let mut bench = bench();
        let question = match six {
            false => {
                let [src, dst] = [(PEER, src), (HOST, dst)].map(|(ip, port)| SocketAddrV4::new(ip, port));
                udp_datagram(src, dst, &payload)
            }
            true => udp6((PEER6, src), (HOST6, dst), 64, &payload),
        };
        let mut answer = || {
            let mut packet = received(&mut bench, &question, Flags::NONE);
            if six {
                let meta = packet.meta_mut();
                (meta.l4, meta.ethertype) = (meta.l3 + 40, ethertype::IPV6);
            }
            prop_assert_eq!(verify(&mut packet), Checksum::Valid);
            Ok(packet)
        };
        let (mut as_it_is, mut anew) = (answer()?, answer()?);
        prop_assert!(!turn_back(&mut as_it_is, !six), "of the other family");
        prop_assert!(turn_back(&mut as_it_is, six));
        prop_assert!(respond_unsummed(&mut anew) && make_room(&mut anew));
        let filled = if six { fill6(&mut anew).is_ok() } else { fill4(&mut anew) };
        prop_assert!(filled);
        prop_assert_eq!(as_it_is.data(), anew.data());
        prop_assert_eq!(as_it_is.meta(), anew.meta());
    }
}

/// A payload of `len` bytes after the header's block, where the link completes checksums.
fn filled(len: usize, mtu: u16, completes: bool) -> Ran {
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    let only = Interface { mtu, tx_checksum: completes, ..config.interfaces()[0].clone() };
    let mut host = NetConfig::new();
    host.add_interface(only).unwrap();
    let mut bench = Bench::new().providing(Arc::new(Network::new(host)));
    let mut packet = bench.packet(&vec![7; 8 + len]);
    let (local, remote) = (Endpoints::mapped(HOST.to_bits()), Endpoints::mapped(PEER.to_bits()));
    let meta = packet.meta_mut();
    meta.flags = Flags::ENDPOINTS;
    meta.endpoints =
        Endpoints { local, remote, local_port: 7, remote_port: 5000, ..meta.endpoints };
    let burst = bench.single(packet);
    bench.run(&FILL_HEADER, burst, 1)
}

#[test]
fn a_checksum_is_left_to_a_link_that_completes_it() {
    for (len, mtu, completes, left) in [
        (1000, 1500, true, true),
        (1472, 1500, true, true),
        (1000, 1500, false, false),
        // It will be cut up.
        (1473, 1500, true, false),
        (1000, 1000, true, false),
        // Not worth it.
        (18, 1500, true, false),
    ] {
        let mut ran = filled(len, mtu, completes);
        assert_eq!(ran.ports, [1, 0, 0]);
        let counted: u64 = ran.requests.counts.iter().map(|(_, n)| n).sum();
        assert_eq!(counted, u64::from(left));
        let packet = ran.burst.get_mut(0).unwrap();
        assert_eq!(packet.meta().flags.has(Flags::PARTIAL_CHECKSUM), left, "{len} {mtu}");
        if left {
            weever_wire::udp::complete(packet.data_mut());
        }
        let view = UdpView::new(packet.data()).unwrap();
        assert!(view.checksum_ok(view.pseudo_sum(HOST, PEER)), "{len} {mtu} {completes}");
    }
}

#[test]
fn what_was_not_received_cannot_be_answered() {
    let mut bench = bench();
    let packet = bench.packet(b"no header was recorded");
    let burst = bench.single(packet);
    assert_eq!(bench.run(&INITIATE_RESPONSE, burst, 1).ports, [0, 0, 0, 1]);
}
