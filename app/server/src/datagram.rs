//! Datagrams between an application's channel and the stack's buffers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weever_app_ring::{Fragment as Asked, PackedInfo, PacketFlags, StackEnd, Transmit};
use weever_net::demux::Binding;
use weever_packet::{Buffer, Endpoints, Flags, Fragment, NO_IFACE, Pool, PoolCache};
use weever_wire::ipv6::mapped;

use crate::stats::SocketStats;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// A socket as a worker knows it.
pub(crate) struct Socket {
    pub(crate) queue: u32,
    pub(crate) binding: Binding,
    pub(crate) stats: Arc<SocketStats>,
}

/// Copies a datagram out of a channel, with its endpoints, or gives the buffer back when it cannot
/// be sent.
pub(crate) fn fill(
    ordinary: Buffer,
    large: Option<&Pool>,
    pool: &mut PoolCache,
    end: &StackEnd,
    socket: &Socket,
    transmit: &Transmit,
) -> Result<Buffer, Buffer> {
    let Some(endpoints) = endpoints(socket, &transmit.info) else { return Err(ordinary) };
    let mut buffer = ordinary;
    if transmit.len > pool.room() {
        let Some(longer) = large.and_then(Pool::alloc) else { return Err(buffer) };
        pool.free(buffer);
        buffer = longer;
    }
    buffer.clear();
    let start = buffer.head();
    let Some(last) = u16::try_from(transmit.len).ok().and_then(|len| start.checked_add(len)) else {
        return Err(buffer);
    };
    if !buffer.set_bounds(start, last) {
        return Err(buffer);
    }
    end.copy_payload(buffer.data_mut());
    let meta = buffer.meta_mut();
    meta.endpoints = endpoints;
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    // A datagram to a group comes back to members here, unless its sender forbids it.
    if !transmit.info.flags().contains(PacketFlags::NO_LOOP) {
        meta.flags = meta.flags.with(Flags::TO_SELF);
    }
    meta.entry = transmit.socket;
    // The socket's interface, or the one that was chosen; they count from 1 in packet info.
    let chosen =
        u16::try_from(transmit.info.interface()).ok().and_then(|number| number.checked_sub(1));
    meta.iface = socket.binding.interface.or(chosen).unwrap_or(NO_IFACE);
    Ok(buffer)
}

/// Both ends of a datagram to send: those in its packet info, or the socket's. Nothing when there
/// is no destination, or the socket may not send from there.
#[inline]
fn endpoints(socket: &Socket, info: &PackedInfo) -> Option<Endpoints> {
    let (given, port) = info.remote();
    let (remote, remote_port) = if is_unspecified(given) {
        let peer = socket.binding.peer()?;
        (mapped(peer.ip()), peer.port())
    } else {
        (given, port)
    };
    if remote_port == 0 {
        return None;
    }
    let local_port = socket.binding.local_port?;
    // A socket that is bound to an address sends from that one; another may choose, and the graph
    // checks that the address is ours.
    let bound = socket.binding.local_addr.filter(|local| !local.is_multicast());
    let local = match bound {
        Some(local) => mapped(local),
        None => Some(info.local().0).filter(|local| !is_unspecified(*local)).unwrap_or(
            if is_ipv4(remote) { mapped(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) } else { [0; 16] },
        ),
    };
    if is_ipv4(local) != is_ipv4(remote) {
        return None;
    }
    let set = |flag, value: u8| if info.flags().contains(flag) { value } else { 0 };
    Some(Endpoints {
        local,
        remote,
        local_port,
        remote_port,
        protocol: UDP,
        ttl: set(PacketFlags::HOPS, info.hops()),
        tos: set(PacketFlags::TRAFFIC_CLASS, info.traffic_class()),
        fragment: match info.fragment() {
            Asked::Want => Fragment::Want,
            Asked::Allow => Fragment::Allow,
            Asked::Never => Fragment::Never,
            Asked::Probe => Fragment::Probe,
        },
        flow_label: info.flow_label(),
        ..Endpoints::default()
    })
}

/// In front of an IPv4 address in sixteen bytes (RFC 4291 §2.5.5.2), which are compared as one number.
const MAPPED: u128 = 0xffff;

#[inline]
fn is_ipv4(address: [u8; 16]) -> bool {
    u128::from_be_bytes(address) >> 32 == MAPPED
}

/// Of either family.
#[inline]
fn is_unspecified(address: [u8; 16]) -> bool {
    let number = u128::from_be_bytes(address);
    number == 0 || number == MAPPED << 32
}

/// The payload of a packet for an application: from `l4` in its metadata to `end`.
pub(crate) fn payload(packet: &Buffer) -> &[u8] {
    let meta = packet.meta();
    let bytes = packet.at(meta.l4);
    bytes.get(..usize::from(meta.end.saturating_sub(meta.l4))).unwrap_or(bytes)
}

/// The packet info that the application gets with a packet.
#[inline]
pub(crate) fn info_of(packet: &Buffer) -> PackedInfo {
    let meta = packet.meta();
    let ends = &meta.endpoints;
    let is_group = meta.flags.has(Flags::LINK_BROADCAST);
    let flags = if is_group { PacketFlags::GROUP } else { PacketFlags::default() };
    PackedInfo::received(
        (ends.remote, ends.remote_port),
        (ends.local, ends.local_port),
        (ends.ttl, ends.tos, flags, ends.flow_label),
        (if meta.iface == NO_IFACE { 0 } else { u32::from(meta.iface) + 1 }, meta.arrived),
    )
}
