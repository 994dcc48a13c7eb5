//! Receive: one block per rule (RFC 8200 §3, §4, RFC 4291).

use std::net::Ipv6Addr;

use weever_block::{BlockType, Buffer, MARKS, PortDoc, READS, classifier, validator};
use weever_net::addr::Destination;
use weever_net::iface::IfaceId;
use weever_net::ipv6::addr::is_link_local;
use weever_net::ipv6::{self, Chain, Martian6, may_hide_source};
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::icmpv6::kind;
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::{Ipv6Header, next_header};

use super::{header, whole};
use crate::kinds::{network_classifier, network_validator};

/// Is the header there?
pub static VALID_HEADER_LENGTH: BlockType =
    BlockType::validator("RxL3IPv6ValidHeaderLength", "Is the fixed header whole?", |_| {
        validator(|p| header(p).is_some())
    });

/// Is it version 6?
pub static VALID_VERSION: BlockType =
    BlockType::validator("RxL3IPv6ValidVersion", "Is the version field 6?", |_| {
        validator(|p| header(p).is_some_and(ipv6::version_ok))
    });

/// Is the payload length possible? Records where the packet ends.
pub static VALID_LENGTH: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv6ValidLength",
        "Is the payload that the header announces there? Records the end.",
        |_| validator(valid_length),
    )
};

#[inline]
fn valid_length(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let available = packet.at(l3).len();
    let Some(header) = header(packet) else { return false };
    let (possible, len) = (ipv6::payload_len_ok(header, available), header.payload_len());
    packet.meta_mut().end = l3.saturating_add((ipv6::HEADER_LEN + len) as u16);
    possible
}

/// Can the source be another node?
pub static VALID_SOURCE: BlockType = BlockType::validator(
    "RxL3IPv6ValidSource",
    "Can the source be another node's address, or one that is still looking for its own?",
    |build| network_validator(build, |state, p| header(p).is_some_and(|h| source_ok(state, p, h))),
);

#[inline]
fn source_ok(state: &NetState, packet: &Buffer, header: Ipv6Header<'_>) -> bool {
    match state.check_source6(IfaceId(packet.meta().iface), header.src()) {
        Err(Martian6::Unspecified) => may_hide_source(header),
        verdict => verdict.is_ok(),
    }
}

/// Is it for us?
pub static DESTINATION: BlockType = BlockType::new(
    "RxL3IPv6Destination",
    "Is it for us, or to be forwarded? A packet for one of our addresses does not \
     come in a frame for a group of stations.",
    &[
        PortDoc { name: "local", doc: "for us, or for a group that we joined for this source" },
        PortDoc { name: "forward", doc: "for another host, and we are a router" },
        PortDoc { name: "one", doc: "for one host, but in a frame for a group of stations" },
        PortDoc { name: "group", doc: "a group that was not joined, or not for this source" },
        PortDoc { name: "martian", doc: "an address that is not a host's" },
        PortDoc { name: "other", doc: "for another host, and we are none that forwards" },
    ],
    |build| network_classifier::<6>(build, |state, p| destination(state, p)),
);

const LOCAL: usize = 0;
const FORWARD: usize = 1;
const ONE_OF_MANY: usize = 2;
const GROUP: usize = 3;
const MARTIAN: usize = 4;
const OTHER: usize = 5;

#[inline]
fn destination(state: &NetState, packet: &Buffer) -> usize {
    let Some(header) = header(packet) else { return OTHER };
    let meta = packet.meta();
    let (iface, to_many) = (IfaceId(meta.iface), meta.flags.has(Flags::LINK_BROADCAST));
    let dst = header.dst();
    match state.destination6(iface, dst) {
        Destination::Local if to_many => ONE_OF_MANY,
        Destination::Local => LOCAL,
        Destination::Multicast if to_many && is_wanted(state, iface, packet, header) => LOCAL,
        _ if dst.is_multicast() => GROUP,
        _ => beyond(state, iface, dst, to_many),
    }
}

/// The port of a packet for another host. A link-local destination is the router's to judge.
#[inline]
fn beyond(state: &NetState, iface: IfaceId, dst: Ipv6Addr, to_many: bool) -> usize {
    let is_router = || state.interface(iface).is_some_and(|own| own.forwarding);
    let is_martian = || state.route6(dst).is_some_and(|hop| hop.kind == Kind::Martian);
    if !is_link_local(dst) && is_martian() {
        MARTIAN
    } else if !(state.settings().forwarding && is_router()) {
        OTHER
    } else if to_many {
        ONE_OF_MANY
    } else {
        FORWARD
    }
}

/// Queries go to the group's own address, for any wanted sources.
#[inline]
fn is_wanted(state: &NetState, iface: IfaceId, packet: &Buffer, header: Ipv6Header<'_>) -> bool {
    state.accepts6(iface, header.dst(), header.src()) || is_mld(packet)
}

/// Whether it is a message of multicast listener discovery, behind any extension headers.
#[cold]
fn is_mld(packet: &Buffer) -> bool {
    let packet = whole(packet);
    let Ok(chain) = Chain::walk(packet) else { return false };
    let message = packet.get(chain.offset..).unwrap_or_default();
    let kinds = [kind::MLD_QUERY, kind::MLDV1_REPORT, kind::MLDV1_DONE, kind::MLDV2_REPORT];
    chain.protocol == next_header::ICMPV6 && message.first().is_some_and(|k| kinds.contains(k))
}

/// Can the extension headers be followed? Records l4.
pub static VALID_EXTENSIONS: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv6ValidExtensions",
        "Can the chain of extension headers be followed to its end (RFC 8200 §4)? Records l4, where \
         what they precede begins.",
        |_| validator(valid_extensions),
    )
};

#[inline]
fn valid_extensions(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let Ok(chain) = Chain::walk(whole(packet)) else { return false };
    packet.meta_mut().l4 = l3 + chain.offset as u16;
    true
}

/// Which protocol is behind the headers?
pub static CLASSIFY: BlockType = BlockType {
    effects: READS,
    ..BlockType::new(
        "RxL3IPv6Classify",
        "Which protocol do the extension headers lead to?",
        &[
            PortDoc { name: "udp", doc: "UDP" },
            PortDoc { name: "icmp", doc: "ICMPv6" },
            PortDoc { name: "fragment", doc: "a fragment of a longer packet" },
            PortDoc { name: "none", doc: "no next header (RFC 8200 §4.7)" },
            PortDoc { name: "tcp", doc: "TCP" },
            PortDoc { name: "unknown", doc: "any other" },
        ],
        |_| classifier::<6>(|p| protocol_of(p)),
    )
};

#[inline]
fn protocol_of(packet: &Buffer) -> usize {
    match Chain::walk(whole(packet)).map(|chain| chain.protocol) {
        Ok(protocol::UDP) => 0,
        Ok(next_header::ICMPV6) => 1,
        Ok(next_header::FRAGMENT) => 2,
        Ok(next_header::NONE) => 3,
        Ok(protocol::TCP) => 4,
        _ => 5,
    }
}

/// Which IP is it?
pub static FAMILY: BlockType = BlockType::new(
    "IpFamily",
    "Which version of IP is a received packet?",
    &[PortDoc { name: "ipv4", doc: "IPv4, or none" }, PortDoc { name: "ipv6", doc: "IPv6" }],
    |_| classifier::<2>(|p| usize::from(crate::headers::is_v6(p))),
);
