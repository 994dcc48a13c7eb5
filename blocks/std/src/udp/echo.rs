//! The echo service (RFC 862).

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, READS,
    bits, tasks_where,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::limit::SharedLimit;
use weever_net::state::{NetState, Rate};
use weever_wire::ipv4::Ipv4Header;
use weever_wire::ipv6::Ipv6Header;
use weever_wire::udp::UdpHeader;

use crate::headers::{hop_limit, is_v6};
use crate::host::StateReader;
use crate::kinds::network;

/// Answers datagrams with their payload.
pub static UDP_ECHO: BlockType = BlockType {
    spawns: &["reply"],
    effects: READS.union(Effects::CONSUMES),
    params: &[ParamDoc {
        name: "per_second",
        default: "0",
        doc: "answers that the host sends in a second, or 0 for any number",
    }],
    counters: &["packets"],
    ..BlockType::new(
        "UdpEcho",
        "Sends datagrams back to where they came from (RFC 862).",
        &[
            PortDoc {
                name: "drop",
                doc: "to a broadcast address, from the same or a well-known port, or with a spent time to live: an answer could loop",
            },
            PortDoc { name: "limited", doc: "too many were answered lately" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let per_second: u32 = build.param("per_second")?;
    // A tenth of a second's worth at once.
    let rate = Rate { per_second, burst: (per_second / 10).max(1) };
    let rate = (per_second > 0).then_some(rate);
    let (state, limit) = (network(build)?.reader(), build.env.get_or_default());
    Ok(Box::new(UdpEcho { state, rate, limit }))
}

/// The budget of UDP echo answers of a host.
#[derive(Debug, Default)]
struct AnswerLimit(SharedLimit);

struct UdpEcho {
    state: StateReader,
    rate: Option<Rate>,
    limit: Arc<AnswerLimit>,
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

/// Ports of well-known services: echo, chargen, daytime and others that answer every datagram.
const SERVICES: u16 = 1024;

/// A forged datagram must not set two services that answer on each other. One that comes from a
/// well-known port is not answered. Of the rest the answer has a lower time to live than the request, so
/// that two such services end after a while if both do that; where the other one does not, only the rate
/// bounds them.
#[inline]
fn may_answer(state: &NetState, packet: &Buffer) -> bool {
    let udp = packet.array_at(packet.meta().l4).map(UdpHeader::of);
    let (Some(lives), Some(udp)) = (hop_limit(packet), udp) else { return false };
    let returnable = udp.src_port() != udp.dst_port() && udp.src_port() >= SERVICES;
    returnable && lives > 1 && is_ours(state, packet)
}

impl Block for UdpEcho {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let wanted = tasks_where(burst, input, |packet| may_answer(state, packet));
        let answered = match self.rate {
            None => wanted,
            Some(rate) => {
                let granted = bits(wanted).filter(|_| self.limit.0.take(rate, 1, cx.now));
                granted.fold(0, |all, task| all | 1 << task)
            }
        };
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
