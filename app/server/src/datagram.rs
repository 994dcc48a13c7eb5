//! Datagrams between an application's channel and the stack's buffers.

use std::sync::Arc;

use weever_app_ring::{
    About, ChannelError, Delivery, Fragment as Asked, INFO_SIZE, PackedAddr, PackedInfo,
    PacketFlags, StackEnd, Transmit,
};
use weever_net::demux::Binding;
use weever_packet::{Buffer, Flags, Fragment, Meta, NO_IFACE, Pool, PoolCache};

use crate::channels::Channel;
use crate::stats::SocketStats;

/// IP protocol numbers.
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A socket as a worker knows it.
pub(crate) struct Socket {
    pub(crate) queue: u32,
    pub(crate) binding: Binding,
    pub(crate) stats: Arc<SocketStats>,
}

/// Takes the datagram that a channel returned last, with its endpoints, or gives the buffer back when it cannot be
/// sent.
#[inline]
pub(crate) fn take(
    ordinary: Buffer,
    large: Option<&Pool>,
    pool: &mut PoolCache,
    channel: &mut Channel,
    socket: &Socket,
    transmit: &Transmit,
) -> Result<Result<Buffer, Buffer>, ChannelError> {
    let Some(ends) = ends(socket, &transmit.info) else { return Ok(Err(ordinary)) };
    let taken = match swap(ordinary, pool, channel)? {
        Ok(buffer) => Ok(buffer),
        Err(ordinary) => copy(ordinary, large, pool, &channel.end, transmit.len),
    };
    Ok(taken.map(|mut buffer| {
        address(buffer.meta_mut(), &ends, socket, transmit);
        buffer
    }))
}

/// The datagram in the frame in which it was written, for which the application gets that of `ordinary`; that comes back
/// when the frame is not one of packets.
#[inline]
fn swap(
    ordinary: Buffer,
    pool: &mut PoolCache,
    channel: &mut Channel,
) -> Result<Result<Buffer, Buffer>, ChannelError> {
    let Some(exchange) = &mut channel.exchange else { return Ok(Err(ordinary)) };
    let Some((frame, offset, len)) = channel.end.in_place() else { return Ok(Err(ordinary)) };
    // The worker's other packets may be in frames of another pool.
    let other = if exchange.has(pool, &ordinary) { None } else { exchange.alloc(pool) };
    let (given, unused) = match other {
        Some(other) => (other, Some(ordinary)),
        None => (ordinary, None),
    };
    match exchange.swap(pool, given, frame) {
        Ok((mut buffer, given)) => {
            unused.into_iter().for_each(|unused| pool.free(unused));
            buffer.received(offset, len);
            channel.end.complete_with(given)?;
            Ok(Ok(buffer))
        }
        Err(given) => Ok(Err(unused.map_or(given, |unused| unused))),
    }
}

/// A copy of the datagram.
fn copy(
    ordinary: Buffer,
    large: Option<&Pool>,
    pool: &mut PoolCache,
    end: &StackEnd,
    len: usize,
) -> Result<Buffer, Buffer> {
    let mut buffer = ordinary;
    if len > pool.room() {
        let Some(longer) = large.and_then(Pool::alloc) else { return Err(buffer) };
        pool.free(buffer);
        buffer = longer;
    }
    buffer.clear();
    // The longest ones leave less room in front: it is enough for the headers of IP and UDP, and they go in pieces.
    let start = buffer.head().min(u16::MAX.saturating_sub(u16::try_from(len).unwrap_or(u16::MAX)));
    let Some(last) = u16::try_from(len).ok().and_then(|len| start.checked_add(len)) else {
        return Err(buffer);
    };
    if !buffer.set_bounds(start, last) {
        return Err(buffer);
    }
    end.copy_payload(buffer.data_mut());
    Ok(buffer)
}

/// Notes in a datagram's metadata where it is to go, and how.
#[inline]
fn address(meta: &mut Meta, ends: &Ends, socket: &Socket, transmit: &Transmit) {
    let info = &transmit.info;
    let set = |flag, value: u8| if info.flags().contains(flag) { value } else { 0 };
    // Field by field: a value that is made beforehand is copied several times on its way here.
    let to = &mut meta.endpoints;
    (to.local, to.remote) = (ends.local.octets(), ends.remote.octets());
    (to.local_port, to.remote_port, to.protocol) = (ends.local_port, ends.remote_port, UDP);
    (to.next_hop, to.next_mac) = ([0; 16], [0; 6]);
    to.ttl = set(PacketFlags::HOPS, info.hops());
    to.tos = set(PacketFlags::TRAFFIC_CLASS, info.traffic_class());
    to.fragment = match info.fragment() {
        Asked::Want => Fragment::Want,
        Asked::Allow => Fragment::Allow,
        Asked::Never => Fragment::Never,
        Asked::Probe => Fragment::Probe,
    };
    to.flow_label = info.flow_label();
    // A datagram to a group comes back to members here, unless its sender forbids it.
    let no_loop = info.flags().contains(PacketFlags::NO_LOOP);
    let to_self = if no_loop { Flags::NONE } else { Flags::TO_SELF };
    meta.flags = meta.flags.with(Flags::ENDPOINTS).with(to_self);
    meta.entry = transmit.socket;
    // The socket's interface, or the one that was chosen; they count from 1 in packet info.
    let chosen = u16::try_from(info.interface()).ok().and_then(|number| number.checked_sub(1));
    meta.iface = socket.binding.interface.or(chosen).unwrap_or(NO_IFACE);
}

/// Hands a datagram to its application, in the frame in which it lies if that can be given away, else in a copy.
#[inline]
pub(crate) fn deliver(
    packet: Buffer,
    pool: &mut PoolCache,
    channel: &mut Channel,
) -> Result<Delivery, ChannelError> {
    let (socket, info) = (packet.meta().entry, info_of(&packet));
    let (offset, len) = (packet.meta().l4, payload(&packet).len() as u16);
    if let Some(exchange) = &mut channel.exchange
        && offset >= INFO_SIZE
        && exchange.has(pool, &packet)
    {
        let empty = match channel.end.take_empty()? {
            Ok(empty) => empty,
            Err(refused) => {
                pool.free(packet);
                return Ok(refused);
            }
        };
        return match exchange.swap(pool, packet, empty) {
            Ok((empty, given)) => {
                pool.free(empty);
                channel.end.swap(socket, info, (given, offset, len))?;
                Ok(Delivery::Delivered)
            }
            // The channel's table and the pool's disagree, which nothing but an error of ours explains.
            Err(packet) => {
                debug_assert!(false, "an empty frame that the application did not have");
                pool.free(packet);
                Ok(Delivery::NoFrame)
            }
        };
    }
    let delivered = channel.end.deliver(socket, info, payload(&packet));
    pool.free(packet);
    delivered
}

/// Both ends of a datagram to send.
struct Ends {
    local: PackedAddr,
    remote: PackedAddr,
    local_port: u16,
    remote_port: u16,
}

/// Those in its packet info, or the socket's. Nothing when there is no destination, or the socket may not send from
/// there.
#[inline]
fn ends(socket: &Socket, info: &PackedInfo) -> Option<Ends> {
    let (mut remote, mut remote_port) = info.remote();
    if remote.is_unspecified() {
        let peer = socket.binding.peer()?;
        (remote, remote_port) = (peer.ip().into(), peer.port());
    }
    if remote_port == 0 {
        return None;
    }
    let local_port = socket.binding.local_port?;
    // A socket that is bound to an address sends from that one; another may choose, and the graph
    // checks that the address is ours.
    let local = match socket.binding.local_addr {
        Some(bound) if !bound.is_multicast() => bound.into(),
        _ => match info.local().0 {
            chosen if !chosen.is_unspecified() => chosen,
            _ => PackedAddr::unspecified(remote.is_ipv4()),
        },
    };
    let is_one_family = local.is_ipv4() == remote.is_ipv4();
    is_one_family.then_some(Ends { local, remote, local_port, remote_port })
}

/// The payload of a packet for an application: from `l4` in its metadata to `end`.
fn payload(packet: &Buffer) -> &[u8] {
    let meta = packet.meta();
    let bytes = packet.at(meta.l4);
    bytes.get(..usize::from(meta.end.saturating_sub(meta.l4))).unwrap_or(bytes)
}

/// What the application gets with an error.
pub(crate) fn about(packet: &Buffer) -> About<'_> {
    let ends = &packet.meta().endpoints;
    let is_message = matches!(ends.protocol, ICMP | ICMPV6);
    let (sender, message) =
        if is_message { (ends.next_hop, payload(packet)) } else { ([0; 16], [].as_slice()) };
    About { info: info_of(packet), sender: PackedAddr::of(sender), message }
}

/// The packet info that the application gets with a packet.
#[inline]
pub(crate) fn info_of(packet: &Buffer) -> PackedInfo {
    let meta = packet.meta();
    let ends = &meta.endpoints;
    let is_group = meta.flags.has(Flags::LINK_BROADCAST);
    let flags = if is_group { PacketFlags::GROUP } else { PacketFlags::default() };
    PackedInfo::received(
        (PackedAddr::of(ends.remote), ends.remote_port),
        (PackedAddr::of(ends.local), ends.local_port),
        (ends.ttl, ends.tos, flags, ends.flow_label),
        (if meta.iface == NO_IFACE { 0 } else { u32::from(meta.iface) + 1 }, meta.arrived),
    )
}
