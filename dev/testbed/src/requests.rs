//! Netlink messages for addresses, routes and neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::Mac;

pub(crate) fn address(index: u32, address: Ipv4Addr, prefix: u8) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    let ip = IpAddr::V4(address);
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    RouteNetlinkMessage::NewAddress(message)
}

pub(crate) fn address6(
    index: u32,
    address: Ipv6Addr,
    prefix: u8,
    asked: bool,
) -> RouteNetlinkMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.index = index;
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    let ip = IpAddr::V6(address);
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    if !asked {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    RouteNetlinkMessage::NewAddress(message)
}

pub(crate) fn route(network: IpAddr, prefix: u8, gateway: IpAddr) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family =
        if network.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.destination_prefix_length = prefix;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Destination(route_address(network)),
        RouteAttribute::Gateway(route_address(gateway)),
    ];
    RouteNetlinkMessage::NewRoute(message)
}

fn route_address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}

pub(crate) fn neighbour(index: u32, address: IpAddr, mac: Mac) -> RouteNetlinkMessage {
    let (family, address) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(address),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    RouteNetlinkMessage::NewNeighbour(message)
}
