#![doc = include_str!("README.md")]

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, PortDoc, Ports, tasks_marked, tasks_where,
};
use weever_graph::Effects;
use weever_net::{ipv4, ipv6};
use weever_packet::Flags;

use crate::headers::{is_v6, push};
use crate::host::StateReader;
use crate::kinds::network;

/// The block type.
pub static LOOPBACK: BlockType = BlockType {
    spawns: &["ipv4", "ipv6"],
    effects: MARKS.union(Effects::MOVES_HEAD).union(Effects::WRITES).union(Effects::CONSUMES),
    ..BlockType::new(
        "Loopback",
        "Hands packets from this host to itself to the receive side, with an IP header.",
        &[PortDoc { name: "drop", doc: "no room for a header" }],
        |build| Ok(Box::new(Loopback { state: network(build)?.reader() })),
    )
};

struct Loopback {
    state: StateReader,
}

impl Block for Loopback {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let done = tasks_marked(burst, input, |packet| {
            let written = if packet.meta().endpoints.is_v4() {
                let ttl = state.settings().default_ttl;
                push(packet, ipv4::HEADER_LEN as u16) && crate::ipv4::fill(packet, 0, ttl).is_ok()
            } else {
                push(packet, ipv6::HEADER_LEN as u16) && crate::ipv6::fill(state, packet).is_ok()
            };
            written && as_received(packet)
        });
        let v6 = tasks_where(burst, done, is_v6);
        cx.spawn(0, done & !v6);
        cx.spawn(1, v6);
        ports.enable(0, input & !done);
    }
}

/// Records the metadata that the receive side would have recorded. The header was written here, so
/// it is right.
fn as_received(packet: &mut Buffer) -> bool {
    let start = packet.head();
    let Ok(len) = u16::try_from(packet.len()) else { return false };
    let header = if is_v6(packet) { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let meta = packet.meta_mut();
    let many = meta.flags.has(Flags::TO_SELF);
    (meta.l2, meta.l3, meta.l4, meta.end) = (start, start, start + header as u16, start + len);
    meta.flags = Flags::CHECKSUM_VERIFIED;
    if many {
        meta.flags = meta.flags.with(Flags::LINK_BROADCAST);
    }
    (meta.entry, meta.segment) = (0, 0);
    true
}
