//! Redirects: while a packet is forwarded, its sender learns of a better first hop.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_block::{Buffer, Build, Cx, Nanos, Priority};
use weever_net::icmp::{INTERNETWORK_CONTROL, MAX_ERROR_LEN};
use weever_net::icmp::{budget, may_report};
use weever_net::icmp6;
use weever_net::iface::IfaceId;
use weever_net::ipv4::may_forward;
use weever_net::random::{Key, keyed_hash};
use weever_net::redirect::{advice4, advice6, emit4, emit6};
use weever_net::route::Hop;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags, Meta};
use weever_wire::icmpv4::kind;
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::ipv6::{Ipv6Header, next_header};

use crate::host::Secret;
use crate::icmp::IcmpLimits;
use crate::icmp6::Icmp6Limits;
use crate::kinds::between;

/// Bytes of the longest IPv6 packet that every link takes, without its header.
const MOST6: usize = 1240;
/// RFC 4861 §4.5.
const HOP_LIMIT: u8 = 255;

/// Time between two redirects about the same source and destination. The host's own limit would not
/// do: a sender that ignores redirects would use it up alone.
const INTERVAL: Nanos = weever_net::SECOND;
/// Pairs of source and destination that are remembered.
const PAIRS: usize = 256;

/// The pairs of source and destination for which one worker sent a redirect lately: a table of
/// hashes, each with the time at which the next redirect is due.
#[derive(Debug)]
pub(crate) struct RecentRedirects {
    key: Key,
    next_due: Box<[(u64, Nanos)]>,
}

impl RecentRedirects {
    /// No redirect was sent. Which pairs share a place in the table depends on the host's secret.
    pub(crate) fn new(build: &Build<'_>) -> RecentRedirects {
        let key = build.env.get_or_default::<Secret>().key("recent redirects");
        RecentRedirects { key, next_due: vec![(0, 0); PAIRS].into() }
    }

    /// Whether a redirect for this pair is due at `now`; if so, the next one is due an interval
    /// later. A pair that replaces another in the table makes that one due early.
    fn take(&mut self, pair: &[u64], now: Nanos) -> bool {
        let hash = keyed_hash(self.key, pair);
        let slot = &mut self.next_due[hash as usize % PAIRS];
        let is_due = slot.0 != hash || now >= slot.1;
        if is_due {
            *slot = (hash, now.saturating_add(INTERVAL));
        }
        is_due
    }
}

fn words((src, dst): (Ipv6Addr, Ipv6Addr)) -> [u64; 4] {
    let [src, dst] = [src.to_bits(), dst.to_bits()];
    [(src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64]
}

/// Spawns the redirect about a datagram that is about to be forwarded, if one is due; whether it was.
/// The datagram is still as it came.
#[cold]
pub(crate) fn redirect4(
    cx: &mut Cx<'_>,
    edge: usize,
    (state, limits, recent): (&NetState, &IcmpLimits, &mut RecentRedirects),
    packet: &Buffer,
    hop: &Hop<Ipv4Addr>,
) -> bool {
    let meta = packet.meta();
    let datagram = between(packet, meta.l3, meta.end);
    let Some(header) = Ipv4Header::first(datagram).filter(|ip| may_forward(*ip)) else {
        return false;
    };
    let Some(advice) = advice4(state, IfaceId(meta.iface), hop, header) else { return false };
    let pair = u64::from(header.src().to_bits()) << 32 | u64::from(header.dst().to_bits());
    let to_many = meta.flags.has(Flags::LINK_BROADCAST);
    if !recent.take(&[pair], cx.now)
        || may_report(datagram, to_many, state).is_err()
        || !limits.take(state.settings().icmp, budget(kind::REDIRECT), header.src(), cx.now)
    {
        return false;
    }
    let endpoints = Endpoints {
        local: Endpoints::mapped(advice.from.to_bits()),
        remote: Endpoints::mapped(header.src().to_bits()),
        protocol: protocol::ICMP,
        tos: INTERNETWORK_CONTROL,
        ..Endpoints::default()
    };
    spawn(cx, edge, (meta, endpoints), MAX_ERROR_LEN, |out| emit4(advice, datagram, out))
}

/// The same of an IPv6 packet.
#[cold]
pub(crate) fn redirect6(
    cx: &mut Cx<'_>,
    edge: usize,
    (state, limits, recent): (&NetState, &Icmp6Limits, &mut RecentRedirects),
    packet: &Buffer,
    hop: &Hop<Ipv6Addr>,
) -> bool {
    let meta = packet.meta();
    let whole = between(packet, meta.l3, meta.end);
    let Some(header) = Ipv6Header::first(whole) else { return false };
    let ends = (header.src(), header.dst());
    let Some(advice) = advice6(state, IfaceId(meta.iface), hop, ends) else { return false };
    let to_many = meta.flags.has(Flags::LINK_BROADCAST);
    if !recent.take(&words(ends), cx.now)
        || icmp6::may_report(icmp6::Cause::NoRoute, whole, to_many).is_err()
        || !limits.grant_redirect(ends.0, cx.now)
    {
        return false;
    }
    let endpoints = Endpoints {
        local: advice.from.octets(),
        remote: ends.0.octets(),
        next_hop: ends.0.octets(),
        protocol: next_header::ICMPV6,
        ttl: HOP_LIMIT,
        ..Endpoints::default()
    };
    spawn(cx, edge, (meta, endpoints), MOST6, |out| emit6(advice, ends, whole, out))
}

/// Spawns a message of at most `most` bytes along the edge. Without a buffer there is none: the next
/// packet is another occasion.
fn spawn(
    cx: &mut Cx<'_>,
    edge: usize,
    (of, endpoints): (&Meta, Endpoints),
    most: usize,
    emit: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> bool {
    let Some(mut buffer) = cx.alloc() else { return false };
    let start = buffer.head();
    let room = most.min(buffer.tailroom());
    let len = match buffer.set_bounds(start, start + room as u16) {
        true => emit(buffer.data_mut()),
        false => None,
    };
    let Some(len) = len else {
        cx.free(buffer);
        return false;
    };
    buffer.truncate(len);
    let meta = buffer.meta_mut();
    (meta.iface, meta.queue) = (of.iface, of.queue);
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    meta.endpoints = endpoints;
    cx.spawn_new(edge, Some(buffer), 0, Priority::High);
    true
}
