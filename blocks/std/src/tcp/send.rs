//! Transmit: a segment that the engine wants sent becomes a packet.

use weever_block::{Buffer, Cx, Priority};
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_tcp::Transmit;
use weever_wire::ipv4::protocol;

use super::rx::octets;
use crate::headers::{WORTH_LEAVING, link_completes};

/// The values of an IP header that do not follow from a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip {
    /// The interface, if that is needed to tell a link-local peer.
    pub(super) iface: u16,
    /// The DSCP, in the upper six bits.
    pub(super) class: u8,
    /// The hop limit; 0: the default.
    pub(super) hops: u8,
}

impl Ip {
    /// The default values, on an interface.
    pub(super) fn by(iface: u16) -> Ip {
        Ip { iface, class: 0, hops: 0 }
    }
}

/// Who sums a segment up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summed {
    /// This host, while the payload is written.
    Here,
    /// The link by which it leaves.
    ByLink,
}

impl Summed {
    /// By whom a segment of a connection is summed up. Of a short payload the sum costs less than the question.
    pub(super) fn of(transmit: &Transmit, ip: Ip, state: &NetState) -> Summed {
        let payload = transmit.payload.end - transmit.payload.start;
        let by_link = payload >= WORTH_LEAVING as u64
            && link_completes(state, transmit.tuple.remote, IfaceId(ip.iface), transmit.len());
        if by_link { Summed::ByLink } else { Summed::Here }
    }
}

/// Starts a task at the routing of the segment's family, with header, payload and checksum in `packet`,
/// which is empty. `fill` writes the payload and sums it, unless the link does. False, with the packet freed, if
/// the segment does not fit it.
pub(super) fn send(
    cx: &mut Cx<'_>,
    mut packet: Buffer,
    transmit: &Transmit,
    (ip, summed): (Ip, Summed),
    fill: impl FnOnce(std::ops::Range<u64>, &mut [u8]) -> u16,
) -> bool {
    let (head, len) = (packet.head(), transmit.len());
    let fits = usize::from(u16::MAX - head) >= len && packet.set_bounds(head, head + len as u16);
    let written = fits
        && match summed {
            Summed::Here => transmit.emit(packet.data_mut(), fill).is_ok(),
            Summed::ByLink => transmit.emit_partial(packet.data_mut(), fill).is_ok(),
        };
    if !written {
        cx.free(packet);
        return false;
    }
    let tuple = &transmit.tuple;
    let meta = packet.meta_mut();
    meta.flags = Flags::ENDPOINTS;
    if summed == Summed::ByLink {
        meta.flags = meta.flags.with(Flags::PARTIAL_CHECKSUM);
    }
    if transmit.connection.is_none() {
        // Strangers decide how many there are.
        meta.flags = meta.flags.with(Flags::PROVOKED);
    }
    meta.iface = ip.iface;
    meta.endpoints = Endpoints {
        local: octets(tuple.local),
        remote: octets(tuple.remote),
        local_port: tuple.local_port,
        remote_port: tuple.remote_port,
        protocol: protocol::TCP,
        tos: ip.class | transmit.ecn as u8,
        ttl: ip.hops,
        ..Endpoints::default()
    };
    let edge = usize::from(tuple.local.is_ipv6());
    cx.spawn_new(edge, Some(packet), 0, Priority::High);
    true
}
