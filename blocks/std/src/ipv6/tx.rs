//! Transmit: the route, then the header. The metadata have the packet's destination.

use std::net::{IpAddr, Ipv6Addr};

use weever_block::{BlockType, Buffer, MARKS, PortDoc, validator};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::ipv6::addr::multicast_mac;
use weever_net::ipv6::{HEADER_LEN, template};
use weever_net::pmtu::MIN_V6;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::WireError;
use weever_wire::ethernet::ethertype;

use crate::allocate::{IpVersion, allocate_header};
use crate::ipv4::tx::{LOCAL, NO_ROUTE, ROUTED, ROUTES};
use crate::kinds::{network_classifier, network_rewriter};

/// Finds the next hop.
pub static ROUTING: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new(
        "TxL3IPv6Routing",
        "Where does it go? Records the interface and the next hop, for groups its link address too, \
         and our address where none was chosen (RFC 6724). What goes to an address of a link goes where the packet came from.",
        ROUTES,
        |build| network_classifier::<3>(build, route),
    )
};

fn route(state: &NetState, packet: &mut Buffer) -> usize {
    let meta = packet.meta_mut();
    if !meta.flags.has(Flags::ENDPOINTS) {
        return NO_ROUTE;
    }
    let ends = &mut meta.endpoints;
    let remote = Ipv6Addr::from_octets(ends.remote);
    let leads = |kind| matches!(kind, Kind::Unicast | Kind::Multicast | Kind::Local);
    let hop = state.hop6(IfaceId(meta.iface), remote).filter(|hop| leads(hop.kind));
    let Some(hop) = hop.filter(|hop| state.interface(hop.iface).is_some()) else { return NO_ROUTE };
    meta.iface = hop.iface.0;
    ends.next_hop = hop.neighbour(remote).octets();
    if hop.kind == Kind::Multicast {
        ends.next_mac = multicast_mac(remote).0;
        meta.flags = meta.flags.with(Flags::NEXT_MAC);
    }
    let chosen = Ipv6Addr::from_octets(ends.local);
    // An answer to a packet sent to a group cannot be from the group.
    if chosen.is_unspecified() || chosen.is_multicast() {
        let source = match hop.kind {
            Kind::Local => Some(remote),
            _ => state.source6(hop.iface, remote),
        };
        let Some(source) = source else { return NO_ROUTE };
        ends.local = source.octets();
    }
    match hop.kind == Kind::Local || meta.flags.has(Flags::TO_SELF) {
        true => LOCAL,
        false => ROUTED,
    }
}

/// Finds the next hop; whether there is one, other than ourselves.
#[inline]
pub(crate) fn is_routed(state: &NetState, packet: &mut Buffer) -> bool {
    route(state, packet) == ROUTED
}

/// Makes room for the header.
pub static ALLOCATE_HEADER: BlockType = allocate_header::<V6>(
    "TxL3IPv6AllocateHeader",
    "Makes room for the IPv6 header, if the packet fits the path.",
);

pub(crate) struct V6;

impl IpVersion for V6 {
    const HEADER_LEN: usize = HEADER_LEN;
    const MIN: u32 = MIN_V6;
    const MAY_BE_CUT: bool = false;

    #[inline]
    fn link_mtu(state: &NetState, packet: &Buffer) -> u32 {
        state.mtu6(IfaceId(packet.meta().iface)).into()
    }

    #[inline]
    fn address(bytes: &[u8; 16]) -> IpAddr {
        Ipv6Addr::from_octets(*bytes).into()
    }
}

/// Writes the header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL3IPv6FillHeader",
        "Writes the IPv6 header from the metadata.",
        &[
            PortDoc { name: "out", doc: "written" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        |build| network_rewriter(build, |state, packet| fill(state, packet).is_ok()),
    )
};

pub(crate) fn fill(state: &NetState, packet: &mut Buffer) -> Result<(), WireError> {
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    let head = packet.head();
    let meta = packet.meta_mut();
    (meta.l3, meta.ethertype) = (head, ethertype::IPV6);
    let ends = &meta.endpoints;
    let (src, dst) = (Ipv6Addr::from_octets(ends.local), Ipv6Addr::from_octets(ends.remote));
    let mut repr = template(src, dst, ends.protocol, payload_len);
    (repr.traffic_class, repr.flow_label) = (ends.tos, ends.flow_label);
    repr.hop_limit = match ends.ttl {
        0 => {
            state.interface(IfaceId(meta.iface)).map_or(repr.hop_limit, |i| i.v6_settings.hop_limit)
        }
        said => said,
    };
    repr.emit(packet.data_mut())
}

/// Where packets that are passed on start.
pub static FORWARDED: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::validator(
        "TxL3IPv6Forwarded",
        "The start of packets that are passed on: the bytes around them are cut off.",
        |_| validator(forwarded),
    )
};

pub(crate) fn forwarded(packet: &mut Buffer) -> bool {
    let meta = packet.meta_mut();
    meta.ethertype = ethertype::IPV6;
    let (l3, end, routed) = (meta.l3, meta.end, meta.flags.has(Flags::ENDPOINTS));
    routed && packet.set_bounds(l3, end)
}
