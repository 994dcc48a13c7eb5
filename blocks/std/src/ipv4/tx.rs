//! Transmit: the route, then the header. The metadata have the packet's destination.

use std::net::{IpAddr, Ipv4Addr};

use weever_block::{Block, BlockType, Buffer, Build, BuildError, MARKS, ParamDoc, PortDoc};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::ipv4::multicast_mac;
use weever_net::ipv4::{HEADER_LEN, template};
use weever_net::pmtu::MIN_V4;
use weever_net::route::{Hop, Kind};
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags, Meta};
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::FLAG_DF;
use weever_wire::{MacAddr, WireError};

use crate::allocate::{IpVersion, allocate_header};
use crate::kinds::{interface, network_classifier, network_rewriter};

/// Finds the next hop.
pub static ROUTING: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new(
        "TxL3IPv4Routing",
        "Where does it go? Records the interface and the next hop, for groups and broadcasts its \
         link address too, and our address where none was chosen.",
        ROUTES,
        |build| network_classifier::<3>(build, route),
    )
};

/// The ports of a routing block.
pub(crate) const ROUTES: &[PortDoc] = &[
    PortDoc { name: "false", doc: "no route" },
    PortDoc { name: "true", doc: "to a neighbour, a group or all stations" },
    PortDoc { name: "local", doc: "to an address of ours, or the copy of a packet to many" },
];
pub(crate) const NO_ROUTE: usize = 0;
pub(crate) const ROUTED: usize = 1;
pub(crate) const LOCAL: usize = 2;

#[inline(always)]
fn route(state: &NetState, packet: &mut Buffer) -> usize {
    let meta = packet.meta_mut();
    let remote = Ipv4Addr::from_bits(Endpoints::v4(&meta.endpoints.remote));
    let Some(hop) = state.route4(remote) else { return NO_ROUTE };
    if !meta.flags.has(Flags::ENDPOINTS) {
        return NO_ROUTE;
    }
    let port = match hop.kind {
        Kind::Unicast => ROUTED,
        Kind::Local => LOCAL,
        Kind::Broadcast | Kind::Multicast => {
            return match to_many(state, meta, hop, remote) {
                false => NO_ROUTE,
                true if meta.flags.has(Flags::TO_SELF) => LOCAL,
                true => ROUTED,
            };
        }
        _ => return NO_ROUTE,
    };
    meta.iface = hop.iface.0;
    let ends = &mut meta.endpoints;
    ends.next_hop = Endpoints::mapped(hop.neighbour(remote).to_bits());
    if Endpoints::v4(&ends.local) == 0 {
        ends.local = match port {
            LOCAL => ends.remote,
            _ => Endpoints::mapped(hop.source.to_bits()),
        };
    }
    port
}

/// Finds the next hop; whether there is one, other than ourselves.
#[inline]
pub(crate) fn is_routed(state: &NetState, packet: &mut Buffer) -> bool {
    route(state, packet) == ROUTED
}

/// The sender may have chosen an interface for packets to all stations or to a group of a link.
#[cold]
fn to_many(state: &NetState, meta: &mut Meta, hop: &Hop<Ipv4Addr>, remote: Ipv4Addr) -> bool {
    let chosen = IfaceId(meta.iface);
    let elsewhere = hop.kind == Kind::Broadcast && !remote.is_broadcast();
    let id = if chosen == IfaceId::NONE || elsewhere { hop.iface } else { chosen };
    if !state.interface(id).is_some_and(|iface| iface.up) {
        return false;
    }
    let ends = &mut meta.endpoints;
    let mac = if remote.is_multicast() { multicast_mac(remote) } else { MacAddr::BROADCAST };
    (ends.next_hop, ends.next_mac) = (ends.remote, mac.0);
    if Endpoints::v4(&ends.local) == 0 {
        let own = state.source4(id, remote).unwrap_or(Ipv4Addr::UNSPECIFIED);
        ends.local = Endpoints::mapped(own.to_bits());
    }
    // RFC 1112 §6.1: "the default should be 1" for a group.
    if ends.ttl == 0 && remote.is_multicast() {
        ends.ttl = 1;
    }
    meta.iface = id.0;
    meta.flags = meta.flags.with(Flags::NEXT_MAC);
    true
}

/// Makes room for the header.
pub static ALLOCATE_HEADER: BlockType = allocate_header::<V4>(
    "TxL3IPv4AllocateHeader",
    "Makes room for the IPv4 header, if the datagram fits the link.",
);

pub(crate) struct V4;

impl IpVersion for V4 {
    const HEADER_LEN: usize = HEADER_LEN;
    const MIN: u32 = MIN_V4;
    const MAY_BE_CUT: bool = true;

    #[inline]
    fn link_mtu(state: &NetState, packet: &Buffer) -> u32 {
        interface(state, packet).map_or(0, |iface| u32::from(iface.mtu))
    }

    #[inline]
    fn address(bytes: &[u8; 16]) -> IpAddr {
        Ipv4Addr::from_bits(Endpoints::v4(bytes)).into()
    }
}

/// Writes the header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES),
    params: &[ParamDoc {
        name: "df",
        default: "yes",
        doc: "whether it must not be fragmented; `no`: it is fragmented here",
    }],
    ..BlockType::new(
        "TxL3IPv4FillHeader",
        "Writes the IPv4 header from the metadata: whole, not to be fragmented unless `df` is no.",
        &[
            PortDoc { name: "out", doc: "written" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        fill_header,
    )
};

fn fill_header(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let df: String = build.param("df")?;
    match df.as_str() {
        "yes" => network_rewriter(build, |state, p| {
            fill(p, FLAG_DF, state.settings().default_ttl).is_ok()
        }),
        "no" => {
            network_rewriter(build, |state, p| fill(p, 0, state.settings().default_ttl).is_ok())
        }
        other => Err(build.bad_param("df", other, "use yes or no")),
    }
}

#[inline]
pub(crate) fn fill(packet: &mut Buffer, flags_frag: u16, default_ttl: u8) -> Result<(), WireError> {
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    let head = packet.head();
    let meta = packet.meta_mut();
    (meta.l3, meta.ethertype) = (head, ethertype::IPV4);
    let ends = &meta.endpoints;
    let src = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let dst = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let mut repr = template(src, dst, ends.protocol, payload_len);
    (repr.tos, repr.flags_frag) = (ends.tos, flags_frag);
    repr.ttl = if ends.ttl != 0 { ends.ttl } else { default_ttl };
    repr.emit(packet.data_mut())
}
