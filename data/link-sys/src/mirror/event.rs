//! The mirror's events, as plain data.

use std::net::IpAddr;

/// An object is new, changed or gone. A gone one is told as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An interface is there or has changed.
    Link(LinkState),
    /// An interface is gone.
    LinkGone(LinkState),
    /// An interface has an address.
    Address(Address),
    /// It has it no more.
    AddressGone(Address),
    /// There is a route.
    Route(Route),
    /// There is no such route any more.
    RouteGone(Route),
    /// A neighbour is known, or being looked for.
    Neighbour(Neighbour),
    /// A neighbour is forgotten.
    NeighbourGone(Neighbour),
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its index.
    pub interface: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address; zero if it has none.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is up as far as its administrator is concerned.
    pub up: bool,
    /// Whether it is up and has a carrier.
    pub running: bool,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's index.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of its network's prefix.
    pub prefix: u8,
    /// Whether it may be used: not while it is checked for duplicates, nor when it is one.
    pub usable: bool,
}

/// A route of the main table by one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface's index.
    pub interface: u32,
    /// The network's address.
    pub network: IpAddr,
    /// The length of its prefix.
    pub prefix: u8,
    /// The router; `None`: the network's hosts are neighbours.
    pub gateway: Option<IpAddr>,
    /// The address that packets are sent from unless they say otherwise.
    pub source: Option<IpAddr>,
    /// Of two routes to the same network the one with the smaller number is taken.
    pub metric: u32,
    /// The path's MTU, if the route says so.
    pub mtu: Option<u32>,
}

/// The identity of a route: two that differ in it may stand side by side, and of two that do not,
/// the later one takes the earlier one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    network: IpAddr,
    prefix: u8,
    metric: u32,
    gateway: Option<IpAddr>,
    interface: u32,
}

impl Route {
    /// The route's identity.
    pub fn key(&self) -> RouteKey {
        let Route { network, prefix, metric, gateway, interface, .. } = *self;
        RouteKey { network, prefix, metric, gateway, interface }
    }
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface's index.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address; `None` while it is looked for, and when that has failed.
    pub mac: Option<[u8; 6]>,
    /// Whether looking for it has failed.
    pub failed: bool,
    /// Whether an administrator has set it.
    pub permanent: bool,
}

impl Event {
    /// The index of the interface it is about.
    pub fn interface(&self) -> u32 {
        match self {
            Event::Link(link) | Event::LinkGone(link) => link.interface,
            Event::Address(address) | Event::AddressGone(address) => address.interface,
            Event::Route(route) | Event::RouteGone(route) => route.interface,
            Event::Neighbour(neighbour) | Event::NeighbourGone(neighbour) => neighbour.interface,
        }
    }
}
