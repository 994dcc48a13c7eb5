#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;
mod tx;

pub use tx::{ALLOCATE_HEADER, FILL_HEADER, INITIATE_RESPONSE};
pub(crate) use tx::{fill4, fill6, make_room, may_fill4, respond_unsummed, turn_back};

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, ParamDoc, PortDoc, Ports,
    READS, bits, number_of, tasks_marked, tasks_where, validator,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::limit::SharedLimit;
use weever_net::state::{NetState, Rate};
use weever_net::udp::{Checksum, Partial, judge};
use weever_packet::Flags;
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::ipv6::Ipv6Header;
pub(crate) use weever_wire::udp::HEADER_LEN;
use weever_wire::udp::UdpHeader;

use crate::headers::{hop_limit, is_v6};
use crate::host::StateReader;
use crate::kinds::{between, network};

#[inline(always)]
fn header(packet: &Buffer) -> Option<UdpHeader<'_>> {
    let meta = packet.meta();
    let header = packet.array_at(meta.l4)?;
    (usize::from(meta.end.saturating_sub(meta.l4)) >= HEADER_LEN).then(|| UdpHeader::of(header))
}

/// Is the length possible? Records the end.
pub static VALID_LENGTH: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL4UDPValidLength",
        "Does the length cover the header, and no more than the datagram? Records the end.",
        |_| validator(valid_length),
    )
};

#[inline]
pub(crate) fn valid_length(packet: &mut Buffer) -> bool {
    let Some(length) = header(packet).map(UdpHeader::length) else { return false };
    let meta = packet.meta_mut();
    let possible = length as usize >= HEADER_LEN && length <= meta.end.saturating_sub(meta.l4);
    if possible {
        meta.end = meta.l4 + length;
    }
    possible
}

/// Is the checksum right, absent or partial?
pub static VALID_CHECKSUM: BlockType = BlockType {
    effects: MARKS,
    counters: &["absent", "partial"],
    ..BlockType::validator(
        "RxL4UDPValidChecksum",
        "Is the checksum right, absent (zero), or partial where the link allows that?",
        |_| Ok(Box::new(ValidChecksum)),
    )
};

struct ValidChecksum;

impl Block for ValidChecksum {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (mut absent, mut partial) = (0, 0);
        let right = tasks_marked(burst, input, |packet| {
            let found = verify(packet);
            absent += u64::from(found == Checksum::Absent);
            partial += u64::from(found == Checksum::Partial);
            found != Checksum::Wrong
        });
        cx.count(0, absent);
        cx.count(1, partial);
        ports.decide(input, right);
    }
}

#[inline(always)]
fn pseudo(packet: &Buffer, v6: bool, l3: u16, length: u16) -> Option<Pseudo> {
    if v6 {
        let ip = packet.array_at(l3).map(Ipv6Header::of)?;
        return Some(Pseudo::v6(&ip.addresses(), protocol::UDP, length.into()));
    }
    let ip = packet.array_at(l3).map(Ipv4Header::of)?;
    Some(Pseudo::v4(&ip.addresses(), protocol::UDP, length))
}

#[inline(always)]
pub(crate) fn verify(packet: &mut Buffer) -> Checksum {
    let meta = packet.meta();
    let (l3, flags) = (meta.l3, meta.flags);
    let datagram = between(packet, meta.l4, meta.end);
    let Some(header) = UdpHeader::first(datagram) else { return Checksum::Wrong };
    let (length, field) = (header.length(), header.checksum());
    let v6 = is_v6(packet);
    // RFC 8200 §8.1: over IPv6 "the default behavior is that UDP checksums are not optional".
    if v6 && field == 0 {
        return Checksum::Wrong;
    }
    let Some(pseudo) = pseudo(packet, v6, l3, length) else { return Checksum::Wrong };
    // With a false length there is nothing to sum; the length is reported instead.
    let Some(datagram) = datagram.get(..length.into()) else { return Checksum::Valid };
    if flags.has(Flags::CHECKSUM_VERIFIED) && field != 0 {
        return Checksum::Valid;
    }
    let partial = match flags.has(Flags::MAY_BE_PARTIAL) {
        true => Partial::Accepted,
        false => Partial::Refused,
    };
    let found = judge(datagram, field, pseudo, partial);
    if found == Checksum::Partial {
        packet.meta_mut().flags = flags.with(Flags::PARTIAL_CHECKSUM);
    }
    found
}

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
        cx.count(0, number_of(answered).into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
