//! Datagrams between an application's channel and the stack's buffers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use weever_app_ring::{Fragment as Asked, PacketFlags, PacketInfo, StackEnd, Transmit};
use weever_net::demux::Binding;
use weever_packet::{Buffer, Endpoints, Flags, Fragment, NO_IFACE, Pool, PoolCache};
use weever_wire::ipv6::{mapped, unmapped};

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
    if !transmit.info.flags.contains(PacketFlags::NO_LOOP) {
        meta.flags = meta.flags.with(Flags::TO_SELF);
    }
    meta.entry = transmit.socket;
    // The socket's interface, or the one that was chosen; they count from 1 in packet info.
    let chosen =
        u16::try_from(transmit.info.interface).ok().and_then(|number| number.checked_sub(1));
    meta.iface = socket.binding.interface.or(chosen).unwrap_or(NO_IFACE);
    Ok(buffer)
}

/// Both ends of a datagram to send: those in its packet info, or the socket's. Nothing when there
/// is no destination, or the socket may not send from there.
fn endpoints(socket: &Socket, info: &PacketInfo) -> Option<Endpoints> {
    let given = |end: SocketAddr| (!end.ip().is_unspecified()).then_some(end);
    let remote =
        given(info.remote).or(socket.binding.peer()).filter(|remote| remote.port() != 0)?;
    let local_port = socket.binding.local_port?;
    let unspecified = match remote.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // A socket that is bound to an address sends from that one; another may choose, and the graph
    // checks that the address is ours.
    let local = socket
        .binding
        .local_addr
        .filter(|local| !local.is_multicast())
        .or(given(info.local).map(|local| local.ip()))
        .unwrap_or(unspecified);
    if local.is_ipv4() != remote.is_ipv4() {
        return None;
    }
    let set = |flag, value: u8| if info.flags.contains(flag) { value } else { 0 };
    Some(Endpoints {
        local: mapped(local),
        remote: mapped(remote.ip()),
        local_port,
        remote_port: remote.port(),
        protocol: UDP,
        ttl: set(PacketFlags::HOPS, info.hops),
        tos: set(PacketFlags::TRAFFIC_CLASS, info.traffic_class),
        fragment: match info.fragment {
            Asked::Want => Fragment::Want,
            Asked::Allow => Fragment::Allow,
            Asked::Never => Fragment::Never,
            Asked::Probe => Fragment::Probe,
        },
        flow_label: info.flow_label,
        ..Endpoints::default()
    })
}

/// The payload of a packet for an application: from `l4` in its metadata to `end`.
pub(crate) fn payload(packet: &Buffer) -> &[u8] {
    let meta = packet.meta();
    let bytes = packet.at(meta.l4);
    bytes.get(..usize::from(meta.end.saturating_sub(meta.l4))).unwrap_or(bytes)
}

/// The packet info that the application gets with a packet.
pub(crate) fn info_of(packet: &Buffer) -> PacketInfo {
    let meta = packet.meta();
    let ends = &meta.endpoints;
    let end = |addr, port| SocketAddr::new(unmapped(addr), port);
    let group = meta.flags.has(Flags::LINK_BROADCAST);
    PacketInfo {
        remote: end(ends.remote, ends.remote_port),
        local: end(ends.local, ends.local_port),
        interface: if meta.iface == NO_IFACE { 0 } else { u32::from(meta.iface) + 1 },
        hops: ends.ttl,
        traffic_class: ends.tos,
        flags: if group { PacketFlags::GROUP } else { PacketFlags::default() },
        fragment: Asked::default(),
        flow_label: ends.flow_label,
        timestamp: meta.arrived,
    }
}
