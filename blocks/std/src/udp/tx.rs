//! Transmit: from a received datagram or a payload with endpoints to a UDP datagram.

use std::net::Ipv4Addr;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, PortDoc, Ports, classifier, rewriter,
    tasks_marked, tasks_where,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags, NO_IFACE};
use weever_wire::WireError;
use weever_wire::ipv4::protocol;
use weever_wire::udp::{HEADER_LEN, UdpHeader, UdpRepr};

use crate::headers::{self, WORTH_LEAVING, address_reply, hop_limit, is_v6, push};
use crate::host::StateReader;
use crate::kinds::network;

/// Turns a received datagram into its answer.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD).union(Effects::WRITES),
    ..BlockType::new(
        "TxL4UDPInitiateResponse",
        "Sends a received datagram back as it is, with its ports exchanged: its checksum stays right. One that came \
         without a checksum is cut down to its payload.",
        &[
            PortDoc { name: "ipv4", doc: "the datagram, between IPv4 addresses" },
            PortDoc { name: "ipv6", doc: "the datagram, between IPv6 addresses" },
            PortDoc { name: "unsummed", doc: "the payload alone, to be summed" },
            PortDoc { name: "drop", doc: "not a received UDP datagram" },
        ],
        |_| classifier::<4>(respond),
    )
};

const IPV4: usize = 0;
const IPV6: usize = 1;
const UNSUMMED: usize = 2;
const DROP: usize = 3;

/// The longest that a response lives.
const TTL: u8 = 64;

#[inline]
fn respond(packet: &mut Buffer) -> usize {
    let v6 = is_v6(packet);
    if turn_back(packet, v6) {
        return if v6 { IPV6 } else { IPV4 };
    }
    if respond_unsummed(packet) { UNSUMMED } else { DROP }
}

/// Sends a datagram of this family back if it has a checksum. Sums do not depend on the order of words, so that of the
/// answer is the question's: both ends have only changed places, and a payload that was damaged on its way stays so
/// for everybody. False, and nothing changed: it has none, or only a partial one.
#[inline]
pub(crate) fn turn_back(packet: &mut Buffer, v6: bool) -> bool {
    let meta = packet.meta();
    let (l4, end) = (meta.l4, meta.end);
    if v6 != is_v6(packet) || meta.flags.has(Flags::PARTIAL_CHECKSUM) {
        return false;
    }
    let Some(header) = packet.array_at(l4).map(UdpHeader::of) else { return false };
    let is_whole = end.checked_sub(l4) == Some(header.length());
    let (local, remote) = (header.dst_port(), header.src_port());
    if header.checksum() == 0 || !is_whole || !address_answer(packet, local, remote) {
        return false;
    }
    let Some(ports) = packet.at_mut(l4).first_chunk_mut::<4>() else { return false };
    *ports = u32::from_ne_bytes(*ports).rotate_left(16).to_ne_bytes();
    packet.set_bounds(l4, end)
}

/// Cuts a datagram down to its payload and addresses it to its sender.
#[inline]
pub(crate) fn respond_unsummed(packet: &mut Buffer) -> bool {
    let (l4, end) = (packet.meta().l4, packet.meta().end);
    let Some(header) = packet.array_at(l4).map(UdpHeader::of) else { return false };
    let (local, remote) = (header.dst_port(), header.src_port());
    address_answer(packet, local, remote) && packet.set_bounds(l4 + HEADER_LEN as u16, end)
}

/// A response has a lower time to live than its request, so that two services which a forged
/// datagram sets on each other do not go on for ever.
#[inline]
fn address_answer(packet: &mut Buffer, local: u16, remote: u16) -> bool {
    let Some(lives) = hop_limit(packet) else { return false };
    if !address_reply(packet, protocol::UDP) {
        return false;
    }
    let ends = &mut packet.meta_mut().endpoints;
    (ends.local_port, ends.remote_port) = (local, remote);
    ends.ttl = lives.saturating_sub(1).clamp(1, TTL);
    true
}

/// Makes room for the header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL4UDPAllocateHeader",
        "Makes room for the UDP header.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |_| rewriter(make_room),
    )
};

#[inline]
pub(crate) fn make_room(packet: &mut Buffer) -> bool {
    push(packet, HEADER_LEN as u16)
}

/// Writes the header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES),
    counters: &["left_to_link"],
    ..BlockType::new(
        "TxL4UDPFillHeader",
        "Writes the UDP header from the metadata, with its checksum over the payload, or a partial \
         one where the link will complete it.",
        &[
            PortDoc { name: "ipv4", doc: "written, between IPv4 addresses" },
            PortDoc { name: "ipv6", doc: "written, between IPv6 addresses" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        |build| Ok(Box::new(FillHeader { state: network(build)?.reader() })),
    )
};

struct FillHeader {
    state: StateReader,
}

impl Block for FillHeader {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let some_links_complete = state.config().interfaces().iter().any(|iface| iface.tx_checksum);
        let (mut left, mut six) = (0, 0);
        let done = tasks_marked(burst, input, |packet| {
            if !packet.meta().endpoints.is_v4() {
                six += 1;
                return fill6(packet).is_ok();
            }
            if some_links_complete && link_completes(state, packet, packet.len()) {
                left += 1;
                return fill_partial(packet).is_ok();
            }
            fill(packet).is_ok()
        });
        cx.count(0, left);
        // Nearly every burst is of one family.
        let v6 = match six {
            0 => 0,
            _ => tasks_where(burst, done, |packet| !packet.meta().endpoints.is_v4()),
        };
        ports.enable(0, done & !v6);
        ports.enable(1, v6);
        ports.enable(2, input & !done);
    }
}

/// Writes the header between IPv6 addresses, always with its checksum.
pub(crate) fn fill6(packet: &mut Buffer) -> Result<(), WireError> {
    let ends = packet.meta().endpoints;
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&ends.local);
    addresses[16..].copy_from_slice(&ends.remote);
    let (src_port, dst_port) = (ends.local_port, ends.remote_port);
    let repr = UdpRepr { src_port, dst_port, payload_len };
    repr.emit_with_checksum_v6(packet.data_mut(), &addresses)
}

/// Whether the header is one between IPv4 addresses that is written here, with its checksum; `more` octets are
/// still missing in front of the payload.
#[inline]
pub(crate) fn may_fill4(state: &NetState, packet: &Buffer, more: usize) -> bool {
    let len = packet.len() + more;
    packet.meta().endpoints.is_v4() && !link_completes(state, packet, len)
}

/// Writes the header between IPv4 addresses, with its checksum.
#[inline]
pub(crate) fn fill4(packet: &mut Buffer) -> bool {
    fill(packet).is_ok()
}

/// Whether the link that the datagram will leave by completes its checksum.
#[inline]
fn link_completes(state: &NetState, packet: &Buffer, len: usize) -> bool {
    let remote = Ipv4Addr::from_bits(Endpoints::v4(&packet.meta().endpoints.remote));
    len >= HEADER_LEN + WORTH_LEAVING
        && headers::link_completes(state, remote.into(), IfaceId(NO_IFACE), len)
}

#[inline(always)]
fn fill(packet: &mut Buffer) -> Result<(), WireError> {
    let (repr, src, dst) = header_of(packet);
    repr.emit_with_checksum(packet.data_mut(), src, dst)
}

fn fill_partial(packet: &mut Buffer) -> Result<(), WireError> {
    let (repr, src, dst) = header_of(packet);
    let flags = &mut packet.meta_mut().flags;
    *flags = flags.with(Flags::PARTIAL_CHECKSUM);
    repr.emit_partial(packet.data_mut(), src, dst)
}

#[inline]
fn header_of(packet: &Buffer) -> (UdpRepr, Ipv4Addr, Ipv4Addr) {
    let ends = &packet.meta().endpoints;
    let (src_port, dst_port) = (ends.local_port, ends.remote_port);
    let src = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let dst = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    (UdpRepr { src_port, dst_port, payload_len }, src, dst)
}
