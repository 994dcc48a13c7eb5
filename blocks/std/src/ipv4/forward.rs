//! Forwarding (RFC 1812 §5).

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::icmp::Cause;
use weever_net::iface::IfaceId;
use weever_net::ipv4::{self, Forward as Verdict, complete_partial, is_partial, options_may_pass};
use weever_net::route::Hop;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_wire::ipv4::{HEADER_LEN, Ipv4Header, set_ttl};

use super::rx::{header, whole_header};
use crate::host::StateReader;
use crate::icmp::{IcmpLimits, LIMITS};
use crate::kinds::network;
use crate::redirect::{RecentRedirects, redirect4};

/// The spawn edge.
const REDIRECT: usize = 0;

const PASS: usize = 0;
const FRAGMENT: usize = 1;
const EXPIRED: usize = 2;
const UNREACHABLE: usize = 3;
const PROHIBITED: usize = 4;
const TOO_LONG: usize = 5;
const OPTIONS: usize = 6;
const REFUSED: usize = 7;

/// Makes a datagram that was received one to be sent.
pub static FORWARD: BlockType = BlockType {
    spawns: &["redirect"],
    effects: MARKS.union(Effects::WRITES).union(Effects::MOVES_HEAD).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["redirects"],
    ..BlockType::new(
        "RxL3IPv4Forward",
        "Decides where another host's datagram goes, takes one from its time to live (RFC 1624), \
         completes a partial transport checksum unless the link that it leaves by does, and records \
         interface and next hop. Tells a sender who could reach the next hop itself (RFC 1812 \
         §5.2.7.2). What is to be reported stays as it came, with the cause recorded as its entry.",
        &[
            PortDoc { name: "out", doc: "the datagram, without its link header" },
            PortDoc { name: "fragment", doc: "the same, longer than the next link takes" },
            PortDoc { name: "expired", doc: "its time to live is spent" },
            PortDoc { name: "unreachable", doc: "there is no route" },
            PortDoc { name: "prohibited", doc: "a route forbids it" },
            PortDoc { name: "toolong", doc: "too long for the next link, not to be fragmented" },
            PortDoc { name: "options", doc: "options that are not forwarded (RFC 7126)" },
            PortDoc { name: "refused", doc: "an interface or a route does not let it through" },
        ],
        |build| {
            let limits = build.env::<IcmpLimits>(LIMITS)?;
            Ok(Box::new(Forward {
                state: network(build)?.reader(),
                limits,
                recent: RecentRedirects::new(build),
            }))
        },
    )
};

struct Forward {
    state: StateReader,
    limits: Arc<IcmpLimits>,
    recent: RecentRedirects,
}

impl Block for Forward {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = &**self.state.load();
        let mut masks = [0; 8];
        let mut last: Option<(Ipv4Addr, Option<&Hop<Ipv4Addr>>)> = None;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let Some(dst) = header(packet).map(|header| header.dst()) else {
                masks[REFUSED] |= 1 << task;
                continue;
            };
            // Neighbours in a burst often go the same way.
            let route = match last {
                Some((same, route)) if same == dst => route,
                _ => state.route4(dst),
            };
            last = Some((dst, route));
            if let Some(hop) = route
                && hop.iface.0 == packet.meta().iface
            {
                let with = (state, &*self.limits, &mut self.recent);
                let told = redirect4(cx, REDIRECT, with, packet, hop);
                cx.count(0, told.into());
            }
            masks[forward(state, packet, dst, route)] |= 1 << task;
        }
        (0..).zip(masks).for_each(|(port, mask)| ports.enable(port, mask));
    }
}

#[inline(always)]
fn forward(
    state: &NetState,
    packet: &mut Buffer,
    dst: Ipv4Addr,
    route: Option<&Hop<Ipv4Addr>>,
) -> usize {
    let meta = *packet.meta();
    let Some(header) = header(packet) else { return REFUSED };
    let (port, hop) = match ipv4::forward(state, IfaceId(meta.iface), route, header) {
        Verdict::Pass(hop) => (PASS, hop),
        Verdict::Fragment { hop, .. } => (FRAGMENT, hop),
        Verdict::Report(cause) => return record(packet, cause),
        Verdict::Refused => return REFUSED,
    };
    if meta.l4 - meta.l3 != HEADER_LEN as u16
        && !options_may_pass(&whole_header(packet)[HEADER_LEN..])
    {
        return OPTIONS;
    }
    let ttl = header.ttl() - 1;
    if !packet.set_bounds(meta.l3, meta.end) {
        return REFUSED;
    }
    let mut flags = Flags::FORWARDED.with(Flags::PROVOKED);
    if meta.flags.has(Flags::MAY_BE_PARTIAL) {
        // The link of a fragmented datagram would see only pieces.
        let leaves = port == PASS && state.interface(hop.iface).is_some_and(|i| i.tx_checksum);
        if settle(packet, meta.l4 - meta.l3, leaves) {
            flags = flags.with(Flags::PARTIAL_CHECKSUM);
        }
    }
    if let Some(header) = packet.data_mut().first_chunk_mut() {
        set_ttl(header, ttl);
    }
    let meta = packet.meta_mut();
    meta.iface = hop.iface.0;
    meta.flags = flags;
    meta.endpoints.next_hop = Endpoints::mapped(hop.neighbour(dst).to_bits());
    port
}

/// The link that it leaves by may not complete checksums, as the sender's link assumed: then a
/// partial checksum is completed here. A link that completes it gets it as it is; true if so.
#[inline(never)]
fn settle(packet: &mut Buffer, header_len: u16, leaves: bool) -> bool {
    let Some((header, rest)) = packet.data_mut().split_first_chunk_mut::<HEADER_LEN>() else {
        return false;
    };
    let Some(segment) = rest.get_mut(usize::from(header_len) - HEADER_LEN..) else { return false };
    let header = Ipv4Header::of(header);
    if leaves {
        return is_partial(header, segment);
    }
    complete_partial(header, segment);
    false
}

#[cold]
fn record(packet: &mut Buffer, cause: Cause) -> usize {
    packet.meta_mut().entry = cause.to_bits();
    match cause {
        Cause::TimeExceeded => EXPIRED,
        Cause::FragmentationNeeded { .. } => TOO_LONG,
        Cause::Prohibited => PROHIBITED,
        _ => UNREACHABLE,
    }
}
