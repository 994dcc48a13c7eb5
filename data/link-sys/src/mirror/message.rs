//! From rtnetlink's messages to facts, and requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::event::{Address, Event, LinkState, Neighbour, Route};

/// The fact in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Is(Event),
    Gone(Event),
}

impl Fact {
    pub(super) fn event(&self) -> &Event {
        match self {
            Fact::Is(event) | Fact::Gone(event) => event,
        }
    }
}

/// `None` for messages of no interest.
pub(super) fn fact(message: &RouteNetlinkMessage) -> Option<Fact> {
    use RouteNetlinkMessage as M;
    Some(match message {
        M::NewLink(message) => Fact::Is(Event::Link(link(message))),
        M::DelLink(message) => Fact::Gone(Event::LinkGone(link(message))),
        M::NewAddress(message) => Fact::Is(Event::Address(address(message)?)),
        M::DelAddress(message) => Fact::Gone(Event::AddressGone(address(message)?)),
        M::NewRoute(message) => Fact::Is(Event::Route(route(message)?)),
        M::DelRoute(message) => Fact::Gone(Event::RouteGone(route(message)?)),
        M::NewNeighbour(message) => Fact::Is(Event::Neighbour(neighbour(message)?)),
        M::DelNeighbour(message) => Fact::Gone(Event::NeighbourGone(neighbour(message)?)),
        _ => return None,
    })
}

fn link(message: &LinkMessage) -> LinkState {
    let flags = message.header.flags;
    let mut link = LinkState {
        interface: message.header.index,
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::Running),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) => {
                link.mac = bytes.as_slice().try_into().unwrap_or_default();
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    link
}

fn address(message: &AddressMessage) -> Option<Address> {
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    let (mut local, mut peer) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => peer = Some(*ip),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let tentative = flags.contains(AddressFlags::Tentative);
    let optimistic = flags.contains(AddressFlags::Optimistic);
    let failed = flags.contains(AddressFlags::Dadfailed);
    Some(Address {
        interface: message.header.index,
        // On a point-to-point link the other one is the peer's.
        address: local.or(peer)?,
        prefix: message.header.prefix_len,
        usable: !failed && (!tentative || optimistic),
    })
}

/// Unicast routes of the main table; of several next hops the first.
fn route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    let mut table = u32::from(header.table);
    let network = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (prefix, mut interface) = (header.destination_prefix_length, None);
    let (gateway, source, metric, mtu) = (None, None, 0, None);
    let mut route = Route { interface: 0, network, prefix, gateway, source, metric, mtu };
    let hops = message.attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => hops.first(),
        _ => None,
    });
    for hop in hops {
        interface = Some(hop.interface_index);
        hop.attributes.iter().for_each(|attribute| read(&mut route, attribute));
    }
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Oif(index) => interface = Some(*index),
            other => read(&mut route, other),
        }
    }
    route.interface = interface?;
    let main = table == u32::from(RouteHeader::RT_TABLE_MAIN);
    (main && header.kind == RouteType::Unicast).then_some(route)
}

fn read(route: &mut Route, attribute: &RouteAttribute) {
    match attribute {
        RouteAttribute::Destination(to) => route.network = ip(to).unwrap_or(route.network),
        RouteAttribute::Gateway(by) => route.gateway = ip(by),
        RouteAttribute::PrefSource(from) => route.source = ip(from),
        RouteAttribute::Priority(metric) => route.metric = *metric,
        RouteAttribute::Metrics(metrics) => {
            route.mtu = metrics.iter().find_map(|metric| match metric {
                RouteMetric::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
        }
        _ => {}
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

fn neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::V4(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::V6(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let state = message.header.state;
    let known = !matches!(state, NeighbourState::Incomplete | NeighbourState::Failed);
    // The kernel computes where multicast goes, and so does the stack.
    let address = address.filter(|address| !address.is_multicast())?;
    Some(Neighbour {
        interface: message.header.ifindex,
        address,
        mac: mac.filter(|_| known),
        failed: state == NeighbourState::Failed,
        permanent: state == NeighbourState::Permanent,
    })
}

/// Requests whose answers are everything there is.
pub(super) fn dumps() -> Vec<RouteNetlinkMessage> {
    let family = |family| {
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        RouteNetlinkMessage::GetRoute(route)
    };
    vec![
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        family(AddressFamily::Inet),
        family(AddressFamily::Inet6),
        RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
    ]
}

pub(super) const RESOLVE_FLAGS: u16 = NLM_F_CREATE | NLM_F_REPLACE;

/// As if a packet for the neighbour had come.
pub(super) fn resolve(interface: u32, address: IpAddr) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = interface;
    message.header.state = NeighbourState::None;
    message.header.flags = NeighbourFlags::Use;
    let (family, destination) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    message.header.family = family;
    message.attributes.push(NeighbourAttribute::Destination(destination));
    RouteNetlinkMessage::NewNeighbour(message)
}
