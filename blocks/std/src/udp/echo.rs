//! The echo service (RFC 862).

use weever_block::{Block, BlockType, Buffer, Burst, Cx, Mask, PortDoc, Ports, READS, tasks_where};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_wire::ipv4::Ipv4Header;
use weever_wire::ipv6::Ipv6Header;
use weever_wire::udp::UdpHeader;

use crate::headers::{hop_limit, is_v6};
use crate::host::StateReader;
use crate::kinds::network;

/// Answers datagrams with what they carry.
pub static UDP_ECHO: BlockType = BlockType {
    spawns: &["reply"],
    effects: READS.union(Effects::CONSUMES),
    counters: &["packets"],
    ..BlockType::new(
        "UdpEcho",
        "Sends datagrams back to where they came from (RFC 862).",
        &[PortDoc {
            name: "drop",
            doc: "to a broadcast address, from the same port, or with a spent time to live: an answer could loop",
        }],
        |build| Ok(Box::new(UdpEcho { state: network(build)?.reader() })),
    )
};

struct UdpEcho {
    state: StateReader,
}

/// Whether it was sent to us alone.
#[inline(always)]
fn is_ours(state: &NetState, packet: &Buffer) -> bool {
    let l3 = packet.meta().l3;
    if is_v6(packet) {
        let (ip, iface) = (packet.array_at(l3).map(Ipv6Header::of), IfaceId(packet.meta().iface));
        return ip.is_some_and(|ip| state.is_ours6(iface, ip.dst()));
    }
    packet.array_at(l3).map(Ipv4Header::of).is_some_and(|ip| state.is_ours(ip.dst()))
}

/// Two echo services must not be set on each other by a forged datagram.
#[inline]
fn may_answer(state: &NetState, packet: &Buffer) -> bool {
    let udp = packet.array_at(packet.meta().l4).map(UdpHeader::of);
    let (Some(lives), Some(udp)) = (hop_limit(packet), udp) else { return false };
    let returnable = udp.src_port() != udp.dst_port() && udp.src_port() != 0;
    // The answer gets one less: services on different ports stop as well.
    returnable && lives > 1 && is_ours(state, packet)
}

impl Block for UdpEcho {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let answered = tasks_where(burst, input, |packet| may_answer(state, packet));
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
        ports.enable(0, input & !answered);
    }
}
