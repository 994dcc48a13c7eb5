use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{BlockType, Buffer, Claim, Priority};
use weever_net::icmp::Cause;
use weever_net::state::{NetConfig, Rate};
use weever_packet::Flags;
use weever_wire::icmpv4::{IcmpRepr, IcmpView};
use weever_wire::ipv4::protocol;

use super::*;
use crate::bench::{Bench, Ran};
use crate::host::Network;
use crate::testing::frames::*;

fn bench() -> Bench {
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    Bench::new().providing(Arc::new(Network::new(config)))
}

fn received(bench: &mut Bench, datagram: &[u8]) -> Buffer {
    let mut packet = bench.packet(datagram);
    let (head, len) = (packet.head(), packet.len() as u16);
    let meta = packet.meta_mut();
    (meta.l3, meta.l4, meta.end) = (head, head + 20, head + len);
    packet
}

fn run(block: &'static BlockType, datagram: &[u8]) -> Ran {
    let mut bench = bench();
    let packet = received(&mut bench, datagram);
    let burst = bench.single(packet);
    bench.run(block, burst, 1)
}

/// Runs a node which the text defines.
fn stated(node: &str, datagram: &[u8]) -> Ran {
    let mut bench = bench();
    let mut packet = received(&mut bench, datagram);
    packet.meta_mut().ethertype = 0x0800;
    let burst = bench.single(packet);
    bench.run_stated(node, burst, 1)
}

fn message(dst: Ipv4Addr, repr: IcmpRepr<'_>) -> Vec<u8> {
    icmp(dst, repr)[14..].to_vec()
}

const REQUEST: IcmpRepr<'_> = IcmpRepr::EchoRequest { ident: 3, seq: 4, data: b"data" };
const REPLY: IcmpRepr<'_> = IcmpRepr::EchoReply { ident: 3, seq: 4, data: b"data" };

#[test]
fn validators() {
    let good = message(HOST, REQUEST);
    assert_eq!(stated("RxL3ICMPValidHeaderLength", &good[..28]).ports, [0, 1]);
    assert_eq!(stated("RxL3ICMPValidHeaderLength", &good[..27]).ports, [1, 0]);
    assert_eq!(run(&VALID_CHECKSUM, &good).ports, [0, 1]);
    assert_eq!(run(&VALID_CHECKSUM, &good[..31]).ports, [1, 0]);
    assert_eq!(stated("RxL3ICMPClassify", &good).ports, [1, 0, 0, 0, 0]);
    assert_eq!(stated("RxL3ICMPClassify", &message(HOST, REPLY)).ports, [0, 0, 0, 1, 0]);
}

#[test]
fn only_what_is_sent_to_us_alone_is_answered() {
    let answered = [(Claim::Spawn { edge: 0, priority: Priority::High }, 1)];
    assert_eq!(run(&NEEDS_RESPONSE, &message(HOST, REQUEST)).requests.claims, answered);
    let ran = run(&NEEDS_RESPONSE, &message(SUBNET_BROADCAST, REQUEST));
    assert_eq!((ran.ports, ran.requests.claims), (vec![1, 0], vec![]));
}

/// One bucket for the host: tokens taken by one worker's block are missing for the other's.
#[test]
fn echo_replies_are_bounded_for_all_workers_together() {
    let mut bench = bench().with_param("per_second", "10").with_param("burst", "3");
    let mut workers = [bench.make(&NEEDS_RESPONSE), bench.make(&NEEDS_RESPONSE)];
    let mut answered = Vec::new();
    for (worker, later) in [(0, 0), (1, 0), (0, 100_000_000), (1, 0)] {
        bench.now += later;
        let mut burst = weever_block::Burst::new();
        for task in 0..2 {
            let packet = received(&mut bench, &message(HOST, REQUEST));
            burst.put(task, packet);
        }
        let ran = bench.run_block(workers[worker].as_mut(), &NEEDS_RESPONSE, burst, 0b11);
        assert_eq!(ran.ports[0], 0, "none was to a broadcast address");
        answered.push(2 - ran.ports[1].count_ones());
    }
    assert_eq!(answered, [2, 1, 1, 0]);
}

#[test]
fn the_reply_carries_the_data() {
    let mut bench = bench();
    let packet = received(&mut bench, &message(HOST, REQUEST));
    let burst = bench.single(packet);
    let burst = bench.run(&INITIATE_RESPONSE, burst, 1).burst;
    let ran = bench.run(&FILL_HEADER, burst, 1);
    let view = IcmpView::new(ran.packet(0).data()).unwrap();
    assert!(view.checksum_ok());
    assert_eq!(IcmpRepr::parse(view), Ok(REPLY));
}

/// A UDP datagram for a closed port, with this much payload.
fn stray(len: usize) -> Vec<u8> {
    udp(5000, 33434, &vec![0x5a; len])[14..].to_vec()
}

#[test]
fn an_error_quotes_what_it_is_about() {
    for (len, quoted) in [(4, 32), (1000, 548)] {
        let mut bench = bench();
        let datagram = stray(len);
        let padded = [&datagram[..], &[0; 10]].concat();
        let mut packet = received(&mut bench, &padded);
        packet.meta_mut().entry = Cause::PortUnreachable.to_bits();
        let mut burst = bench.single(packet);
        for block in [&INITIATE_ERROR, &ALLOCATE_HEADER, &FILL_ERROR] {
            burst = bench.run(block, burst, 1).burst;
        }
        let view = IcmpView::new(burst.get(0).unwrap().data()).unwrap();
        assert!(view.checksum_ok());
        let wanted = IcmpRepr::Unreachable { code: 3, mtu: 0, quote: &datagram[..quoted] };
        assert_eq!(IcmpRepr::parse(view), Ok(wanted));
    }
}

#[test]
fn errors_are_bounded_and_sometimes_forbidden() {
    let rate = Rate { per_second: 1, burst: 2 };
    let mut config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    config.settings.icmp.each = rate;
    let bench = Bench::new().providing(Arc::new(Network::new(config)));
    let bench = bench.providing(Arc::new(super::IcmpLimits::new([1, 2])));
    let mut bench = bench.with_param("cause", "port");
    let reply = message(HOST, REPLY);
    let to_all = ipv4(ipv4_repr(PEER, SUBNET_BROADCAST, protocol::UDP), &stray(1)[20..]);
    let datagrams = [stray(1), to_all, stray(2), stray(3)];
    let mut burst = weever_block::Burst::new();
    for (task, datagram) in datagrams.iter().enumerate() {
        let packet = received(&mut bench, datagram);
        burst.put(task, packet);
    }
    let ran = bench.run(&REPORT, burst, 0b1111);
    assert_eq!(ran.ports, [0b0010, 0b1000]);
    assert_eq!(ran.requests.claims[0].1, 0b0101);

    let mut packet = received(&mut bench, &reply);
    packet.meta_mut().flags = Flags::LINK_BROADCAST;
    let burst = bench.single(packet);
    assert_eq!(bench.run(&REPORT, burst, 1).ports, [1, 0]);
}
