use std::sync::Arc;

use weever_block::{BlockType, Mask};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetConfig;
use weever_packet::{Endpoints, Flags};
use weever_wire::MacAddr;

use super::*;
use crate::bench::Bench;
use crate::host::Network;
use crate::testing::frames::*;

const IP4: u16 = 0x0800;
/// The group of all hosts.
const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 1]);

fn bench(vlan: Option<u16>) -> Bench {
    let iface = Interface { vlan, ..Interface::new(IfaceId(0), "link0", 0, HOST_MAC) };
    let mut config = NetConfig::new();
    config.add_interface(iface).unwrap();
    Bench::new().providing(Arc::new(Network::new(config)))
}

/// The tasks that leave by `true`, after their headers were recorded.
fn passed(block: &'static BlockType, vlan: Option<u16>, frames: &[&[u8]]) -> Mask {
    let mut bench = bench(vlan);
    let all = (1 << frames.len()) - 1;
    let burst = bench.burst(frames);
    let burst = bench.run(&CLASSIFIED, burst, all).burst;
    bench.run(block, burst, all).ports[1]
}

fn frame(dst: MacAddr, src: MacAddr) -> Vec<u8> {
    ethernet(dst, src, IP4, b"payload")
}

#[test]
fn offsets_are_recorded() {
    let mut bench = bench(None);
    let plain = frame(HOST_MAC, PEER_MAC);
    let tag = tagged(&frame(GROUP, PEER_MAC), 5, 3);
    let burst = bench.burst(&[&plain, &tag, &plain[..13]]);
    let ran = bench.run(&CLASSIFIED, burst, 0b111);
    assert_eq!(ran.ports, [0b100, 0b011]);
    let (plain, tag) = (*ran.packet(0).meta(), *ran.packet(1).meta());
    assert_eq!((plain.l3 - plain.l2, plain.ethertype, plain.vlan), (14, IP4, 0));
    assert_eq!((tag.l3 - tag.l2, tag.ethertype, tag.vlan), (18, IP4, 3 << 13 | 5));
    assert!(!plain.flags.has(Flags::LINK_BROADCAST) && tag.flags.has(Flags::LINK_BROADCAST));
}

#[test]
fn vlans() {
    let plain = frame(HOST_MAC, PEER_MAC);
    let [priority, five, six] = [0, 5, 6].map(|vid| tagged(&plain, vid, 7));
    let twice = tagged(&priority, 0, 0);
    let mut service = five.clone();
    service[12..14].copy_from_slice(&[0x88, 0xa8]);
    let frames: [&[u8]; 6] = [&plain, &priority, &five, &six, &twice, &service];
    assert_eq!(passed(&VALID_VLAN, None, &frames), 0b00011);
    assert_eq!(passed(&VALID_VLAN, Some(5), &frames), 0b00100);
}

#[test]
fn headers_are_written() {
    for (vlan, wanted) in
        [(None, frame(PEER_MAC, HOST_MAC)), (Some(5), tagged(&frame(PEER_MAC, HOST_MAC), 5, 0))]
    {
        let mut bench = bench(vlan);
        let mut packet = bench.packet(b"payload");
        packet.meta_mut().ethertype = IP4;
        packet.meta_mut().endpoints = Endpoints { next_mac: PEER_MAC.0, ..Endpoints::default() };
        let burst = bench.single(packet);
        let burst = bench.run(&ALLOCATE_HEADER, burst, 1).burst;
        let ran = bench.run(&FILL_HEADER, burst, 1);
        assert_eq!(ran.ports, [1, 0]);
        assert_eq!(ran.packet(0).data(), wanted);
    }
}

#[test]
fn no_headroom_is_a_drop() {
    let mut bench = bench(None);
    let mut packet = bench.packet(b"payload");
    packet.set_bounds(13, 20);
    let burst = bench.single(packet);
    let ran = bench.run(&ALLOCATE_HEADER, burst, 1);
    assert_eq!(ran.ports, [0, 1]);
}
