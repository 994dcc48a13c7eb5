//! Receive: header, length, checksum (RFC 768, RFC 1122 §4.1.3).

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, Ports, tasks_marked, validator,
};
use weever_net::udp::{Checksum, Partial, judge};
use weever_packet::Flags;
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::ipv6::Ipv6Header;
use weever_wire::udp::{HEADER_LEN, UdpHeader};

use crate::headers::is_v6;
use crate::kinds::between;

#[inline(always)]
fn header(packet: &Buffer) -> Option<UdpHeader<'_>> {
    let meta = packet.meta();
    let header = packet.array_at(meta.l4)?;
    (usize::from(meta.end.saturating_sub(meta.l4)) >= HEADER_LEN).then(|| UdpHeader::of(header))
}

/// Is the header whole?
pub static VALID_HEADER_LENGTH: BlockType =
    BlockType::validator("RxL4UDPValidHeaderLength", "Is the UDP header whole?", |_| {
        validator(|p| header(p).is_some())
    });

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
