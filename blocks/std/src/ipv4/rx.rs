//! Receive: one block per rule (RFC 791, RFC 1122 §3.2.1), and the choice between delivery and forwarding.

use std::net::Ipv4Addr;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, ParamDoc, PortDoc, Ports, bits, tasks_where,
    validator,
};
use weever_net::addr::Destination;
use weever_net::icmp::Cause;
use weever_net::iface::IfaceId;
use weever_net::ipv4::{self, OptionReject, check_options};
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::checksum;
use weever_wire::ipv4::{Ipv4Header, protocol};

use crate::kinds::{between, network_classifier};

/// The fixed header, or `None` when the packet is shorter.
#[inline(always)]
pub(super) fn header(packet: &Buffer) -> Option<Ipv4Header<'_>> {
    packet.array_at(packet.meta().l3).map(Ipv4Header::of)
}

/// The header with its options; only behind [`VALID_HEADER_LENGTH`].
#[inline(always)]
pub(super) fn whole_header(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l3, packet.meta().l4)
}

/// Is the header there? Records l4.
pub static VALID_HEADER_LENGTH: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv4ValidHeaderLength",
        "Is the header whole, and its length field possible? Records l4.",
        |_| validator(valid_header_length),
    )
};

#[inline]
fn valid_header_length(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let bytes = packet.at(l3);
    let Some(header) = Ipv4Header::first(bytes) else { return false };
    let whole = ipv4::header_len_ok(header, bytes.len());
    let l4 = l3 + header.header_len() as u16;
    packet.meta_mut().l4 = l4;
    whole
}

/// Is the total length possible? Records where the packet ends.
pub static VALID_LENGTH: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv4ValidLength",
        "Does the total length cover the header, and no more than there is? Records the end.",
        |_| validator(valid_length),
    )
};

#[inline]
fn valid_length(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let bytes = packet.at(l3);
    let Some(header) = Ipv4Header::first(bytes) else { return false };
    let (possible, total) = (ipv4::total_len_ok(header, bytes.len()), header.total_len());
    packet.meta_mut().end = l3.saturating_add(total as u16);
    possible
}

/// Is the time to live large enough?
pub static VALID_TTL: BlockType = BlockType {
    params: &[ParamDoc {
        name: "min",
        default: "0",
        doc: "smallest time to live that is taken; 255 for the security of RFC 5082",
    }],
    ..BlockType::validator(
        "RxL3IPv4ValidTTL",
        "Is the time to live at least the minimum? A host takes any (RFC 1122 §3.2.1.7).",
        |build| {
            let min: u8 = build.param("min")?;
            validator(move |p| header(p).is_some_and(|h| h.ttl() >= min))
        },
    )
};

/// Is the header's checksum right?
pub static VALID_CHECKSUM: BlockType =
    BlockType::validator("RxL3IPv4ValidChecksum", "Is the header's checksum right?", |_| {
        validator(|p| checksum_ok(p))
    });

#[inline]
fn checksum_ok(packet: &Buffer) -> bool {
    let meta = packet.meta();
    match packet.array_at::<20>(meta.l3) {
        // No options, the usual case: the header is summed without a loop.
        Some(header) if meta.l4.wrapping_sub(meta.l3) == 20 => {
            checksum::is_valid(checksum::sum_array(header))
        }
        _ => weever_wire::ipv4::checksum_ok(whole_header(packet)),
    }
}

/// Are the options harmless?
pub static VALID_OPTIONS: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new(
        "RxL3IPv4ValidOptions",
        "Are the options well formed, without a source route (RFC 7126 §4.3)? Records where one \
         is malformed, to be reported.",
        &[
            PortDoc { name: "true", doc: "they are, or there are none" },
            PortDoc { name: "route", doc: "a source route" },
            PortDoc { name: "problem", doc: "malformed" },
        ],
        |_| Ok(Box::new(ValidOptions)),
    )
};

struct ValidOptions;

impl Block for ValidOptions {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        // Next to no packet has any.
        let optionless = |p: &Buffer| p.meta().l4.wrapping_sub(p.meta().l3) == 20;
        let plain = tasks_where(burst, input, optionless);
        let mut masks = [plain, 0, 0];
        for task in bits(input & !plain) {
            masks[burst.get_mut(task).map_or(2, options)] |= 1 << task;
        }
        (0..).zip(masks).for_each(|(port, mask)| ports.enable(port, mask));
    }
}

#[cold]
fn options(packet: &mut Buffer) -> usize {
    match check_options(whole_header(packet)) {
        Ok(()) => 0,
        Err(OptionReject::Malformed { pointer }) => {
            packet.meta_mut().entry = Cause::ParameterProblem { pointer }.to_bits();
            2
        }
        Err(_) => 1,
    }
}

/// Can the source be a host elsewhere?
pub static VALID_SOURCE: BlockType = BlockType::new(
    "RxL3IPv4ValidSource",
    "Can the source be another host's address (RFC 1122 §3.2.1.3), and does it lead back to where \
     the datagram came from, if that is asked for (RFC 3704)?",
    &[
        PortDoc { name: "false", doc: "it cannot" },
        PortDoc { name: "true", doc: "it can" },
        PortDoc { name: "path", doc: "there is no way back to it, or another one" },
    ],
    |build| {
        network_classifier::<3>(build, |state, packet| {
            let Some(src) = header(packet).map(Ipv4Header::src) else { return 0 };
            source(state, IfaceId(packet.meta().iface), src)
        })
    },
);

/// The port of [`VALID_SOURCE`] by which sound ones leave.
pub(crate) const SOURCE_OK: usize = 1;

#[inline]
pub(crate) fn source(state: &NetState, iface: IfaceId, src: Ipv4Addr) -> usize {
    if state.check_source4(src).is_err() {
        return 0;
    }
    if state.reverse_path(iface, src) { SOURCE_OK } else { 2 }
}

/// The port of datagrams for us.
pub(crate) const LOCAL: usize = 0;
/// The port of datagrams that we forward.
pub(crate) const FORWARD: usize = 1;
const ONE_OF_MANY: usize = 2;
const GROUP: usize = 3;
const MARTIAN: usize = 4;
const OTHER: usize = 5;

/// Is it for us, or to be forwarded?
pub static DESTINATION: BlockType = BlockType::new(
    "RxL3IPv4Destination",
    "Is the destination one of our addresses, a broadcast address of the link or a group that was \
     joined, or does it go on?",
    &[
        PortDoc { name: "local", doc: "it is for us" },
        PortDoc { name: "forward", doc: "for another host, and forwarding is on" },
        PortDoc { name: "one", doc: "of one host, but in a link broadcast (RFC 1122 §3.3.6)" },
        PortDoc { name: "group", doc: "a group that was not joined, or not for this source" },
        PortDoc { name: "martian", doc: "an address that is not a host's (RFC 1812 §5.3.7)" },
        PortDoc { name: "other", doc: "for another host, and forwarding is off" },
    ],
    |build| {
        network_classifier::<6>(build, |state, packet| {
            let Some(header) = header(packet) else { return OTHER };
            destination(state, IfaceId(packet.meta().iface), packet.meta().flags, header)
        })
    },
);

/// A datagram for one host does not come in a link broadcast: RFC 1122 §3.3.6 has it discarded, or
/// one forged frame could have all hosts answer; RFC 1812 §5.3.4 has it not forwarded.
#[inline]
pub(crate) fn destination(
    state: &NetState,
    iface: IfaceId,
    flags: Flags,
    header: Ipv4Header<'_>,
) -> usize {
    let dst = header.dst();
    match state.destination4(iface, dst) {
        Destination::Local if flags.has(Flags::LINK_BROADCAST) => ONE_OF_MANY,
        Destination::Local | Destination::Broadcast => LOCAL,
        Destination::Multicast if is_wanted(state, iface, header) => LOCAL,
        Destination::Multicast => GROUP,
        Destination::Other if state.route4(dst).is_some_and(|h| h.kind == Kind::Martian) => MARTIAN,
        Destination::Other if !state.settings().forwarding => OTHER,
        Destination::Other if flags.has(Flags::LINK_BROADCAST) => ONE_OF_MANY,
        Destination::Other => FORWARD,
    }
}

/// Queries go to the group's own address, for any wanted sources.
#[inline]
fn is_wanted(state: &NetState, iface: IfaceId, header: Ipv4Header<'_>) -> bool {
    match header.protocol() {
        protocol::IGMP => state.is_member(iface, header.dst()),
        _ => state.accepts(iface, header.dst(), header.src()),
    }
}
