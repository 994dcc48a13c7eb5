//! Forwarding: a router's handling of packets for others (RFC 8200 §3, RFC 4291 §2.5.6, RFC 4443).

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, PortDoc, Ports, StateKind,
    bits,
};
use weever_graph::Effects;
use weever_net::icmp6::Cause;
use weever_net::iface::IfaceId;
use weever_net::ipv6::may_forward;
use weever_net::route::{Hop, Kind};
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_wire::checksum::{self, Pseudo};
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::{Chain, HEADER_LEN, next_header, set_hop_limit};
use weever_wire::udp::never_zero;

use super::{header, whole};
use crate::host::StateReader;
use crate::icmp6::{Icmp6Limits, LIMITS, Verdict};
use crate::kinds::network;
use crate::redirect::{RecentRedirects, redirect6};

const FORWARD_EDGE: usize = 0;
const REPORT_EDGE: usize = 1;
const REDIRECT_EDGE: usize = 2;
const SCOPE: usize = 0;
const REVERSE: usize = 1;
const BLACKHOLE: usize = 2;
const SILENT: usize = 3;
const LIMITED: usize = 4;

/// Passes packets for others on.
pub static FORWARD: BlockType = BlockType {
    spawns: &["forward", "report", "redirect"],
    effects: MARKS.union(Effects::WRITES).union(Effects::CONSUMES).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["forwarded", "reported", "redirects"],
    ..BlockType::new(
        "RxL3IPv6Forward",
        "Passes packets for others on: finds the next hop and counts the hop; reports packets that cannot \
         be passed on to their sender, and a better first hop (RFC 4861 §8.2). Routers do not fragment.",
        &[
            PortDoc { name: "scope", doc: "an address that is valid only on its link" },
            PortDoc { name: "reverse", doc: "its source fails the reverse path check (RFC 3704)" },
            PortDoc { name: "blackhole", doc: "a route discards it silently" },
            PortDoc { name: "silent", doc: "an error about it must not be sent" },
            PortDoc { name: "limited", doc: "too many errors were sent lately" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let limits = build.env::<Icmp6Limits>(LIMITS)?;
    Ok(Box::new(Forward {
        state: network(build)?.reader(),
        limits,
        recent: RecentRedirects::new(build),
    }))
}

struct Forward {
    state: StateReader,
    limits: Arc<Icmp6Limits>,
    recent: RecentRedirects,
}

/// The decision on one packet.
enum Step {
    Pass,
    Tell(Cause),
    Drop(usize),
}

impl Block for Forward {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let (mut passed, mut told): (Mask, Mask) = (0, 0);
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let told_better = |packet: &Buffer, hop: &Hop<Ipv6Addr>| {
                let with = (&**state, &*self.limits, &mut self.recent);
                let told_now = redirect6(cx, REDIRECT_EDGE, with, packet, hop);
                cx.count(2, told_now.into());
            };
            match step(state, packet, told_better) {
                Step::Pass => passed |= 1 << task,
                Step::Drop(port) => ports.enable(port, 1 << task),
                Step::Tell(cause) => match self.limits.judge(packet, cause, cx.now) {
                    Verdict::Tell => told |= 1 << task,
                    Verdict::Silent => ports.enable(SILENT, 1 << task),
                    Verdict::Limited => ports.enable(LIMITED, 1 << task),
                },
            }
        }
        cx.count(0, passed.count_ones().into());
        cx.count(1, told.count_ones().into());
        cx.spawn(FORWARD_EDGE, passed);
        cx.spawn(REPORT_EDGE, told);
    }
}

/// `turns_back` is told of packets that are passed on to the link that they came from.
fn step(
    state: &NetState,
    packet: &mut Buffer,
    turns_back: impl FnOnce(&Buffer, &Hop<Ipv6Addr>),
) -> Step {
    let Some(ip) = header(packet).filter(|ip| may_forward(*ip)) else { return Step::Drop(SCOPE) };
    let (dst, hop_limit) = (ip.dst(), ip.hop_limit());
    let from = IfaceId(packet.meta().iface);
    if !state.reverse_path(from, ip.src()) {
        return Step::Drop(REVERSE);
    }
    // RFC 8200 §3: "discarded […] if Hop Limit was zero when received or is decremented to zero".
    if hop_limit <= 1 {
        return Step::Tell(Cause::HopLimitExceeded);
    }
    let hop = match state.route6(dst) {
        Some(hop) if hop.kind == Kind::Unicast => *hop,
        Some(hop) if hop.kind == Kind::Prohibited => return Step::Tell(Cause::Prohibited),
        Some(hop) if hop.kind == Kind::Blackhole => return Step::Drop(BLACKHOLE),
        _ => return Step::Tell(Cause::NoRoute),
    };
    let mtu = state.mtu6(hop.iface);
    if whole(packet).len() > mtu.into() {
        return Step::Tell(Cause::PacketTooBig { mtu: mtu.into() });
    }
    if hop.iface == from {
        turns_back(packet, &hop);
    }
    let completed = !state.interface(hop.iface).is_some_and(|i| i.tx_checksum);
    let is_partial = settle_checksum(packet, completed);
    let l3 = packet.meta().l3;
    if let Some(bytes) = packet.at_mut(l3).first_chunk_mut() {
        set_hop_limit(bytes, hop_limit - 1);
    }
    let next_hop = hop.neighbour(dst).octets();
    let meta = packet.meta_mut();
    meta.iface = hop.iface.0;
    meta.flags = meta.flags.with(Flags::ENDPOINTS).with(Flags::PROVOKED);
    meta.flags = meta.flags.without(Flags::PARTIAL_CHECKSUM);
    if is_partial {
        meta.flags = meta.flags.with(Flags::PARTIAL_CHECKSUM);
    }
    meta.endpoints = Endpoints { next_hop, remote: dst.octets(), ..Endpoints::default() };
    Step::Pass
}

/// A checksum that the sender's kernel left to a device that never saw the frame is `completed`
/// before the packet goes where it would be dropped (design/0000 §4.5), unless the link that it leaves
/// by does that. Says whether it is still partial. Links are not trusted to find their way through
/// extension headers.
fn settle_checksum(packet: &mut Buffer, completed: bool) -> bool {
    if !packet.meta().flags.has(Flags::MAY_BE_PARTIAL) {
        return false;
    }
    let (l3, end) = (packet.meta().l3, packet.meta().end);
    // A sender that fragments a packet completes its checksum before.
    let ip = header(packet).filter(|ip| ip.next_header() != next_header::FRAGMENT);
    let Some(addresses) = ip.map(|ip| ip.addresses()) else { return false };
    let Some((protocol, at)) = Chain::skim(whole(packet)) else { return false };
    let field = match protocol {
        protocol::UDP => 6,
        protocol::TCP => 16,
        _ => return false,
    };
    let l4 = l3 + at as u16;
    let len = usize::from(end.saturating_sub(l4));
    let Some(segment) = packet.at_mut(l4).get_mut(..len) else { return false };
    let Some(&[a, b]) = segment.get(field..field + 2) else { return false };
    let pseudo = Pseudo::v6(&addresses, protocol, len as u32);
    if !pseudo.is_partial(u16::from_be_bytes([a, b])) {
        return false;
    }
    if !completed && at == HEADER_LEN {
        return true;
    }
    let sum = checksum::finish(checksum::sum(segment));
    let sum = if protocol == protocol::UDP { never_zero(sum) } else { sum };
    segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    false
}
