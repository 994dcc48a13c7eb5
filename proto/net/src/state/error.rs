//! Why a change makes no sense.

use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{MAX_INTERFACES, MIN_MTU};

/// Why a change to the configuration was refused; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// There is no such interface.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// The number or name is another interface's.
    #[error("there is already an interface {0}: give the new one another name")]
    InterfaceExists(String),
    /// The VLAN of the link, or its untagged traffic, belongs to another interface.
    #[error("interface {name}: that VLAN of the link is interface {by}: remove that one first")]
    MemberTaken {
        /// The new one.
        name: String,
        /// The interface that has it.
        by: String,
    },
    /// No VLAN has this number.
    #[error("interface {name}: there is no VLAN {vlan}: use 1 to 4094")]
    BadVlan {
        /// The interface.
        name: String,
        /// The number.
        vlan: u16,
    },
    /// Packets would not fit.
    #[error("interface {name}: an MTU of {mtu} is too small: use {MIN_MTU} or more")]
    MtuTooSmall {
        /// The interface.
        name: String,
        /// The MTU.
        mtu: u16,
    },
    /// The link address is a group or all zeros.
    #[error("interface {0}: its link address is not that of a station")]
    BadMac(String),
    /// There are as many interfaces as there can be.
    #[error("there are {MAX_INTERFACES} interfaces already: remove one first")]
    TooManyInterfaces,
    /// An address is on an interface already.
    #[error("address {addr} is on interface {by} already: remove it there first")]
    AddressTaken {
        /// The address.
        addr: Ipv4Addr,
        /// The interface that has it.
        by: String,
    },
    /// No host can have this address.
    #[error("address {addr} cannot be a host's: it is {why}")]
    UnfitAddress {
        /// The address.
        addr: Ipv4Addr,
        /// The reason.
        why: &'static str,
    },
    /// The interface does not have the address.
    #[error("interface {name} has no address {addr}")]
    NoAddress {
        /// The interface.
        name: String,
        /// The address.
        addr: Ipv4Addr,
    },
    /// An IPv6 address is on an interface already.
    #[error("address {addr} is on interface {by} already: remove it there first")]
    AddressTaken6 {
        /// The address.
        addr: Ipv6Addr,
        /// The interface that has it.
        by: String,
    },
    /// No host can have this IPv6 address.
    #[error("address {addr} cannot be a host's: it is {why}")]
    UnfitAddress6 {
        /// The address.
        addr: Ipv6Addr,
        /// The reason.
        why: &'static str,
    },
    /// The interface does not have the IPv6 address.
    #[error("interface {name} has no address {addr}")]
    NoAddress6 {
        /// The interface.
        name: String,
        /// The address.
        addr: Ipv6Addr,
    },
    /// RFC 1122 §3.3.1.1: a first-hop gateway is on a connected network.
    #[error("gateway {gateway} is on no connected subnet: add an address on its subnet first")]
    GatewayOffLink {
        /// The gateway.
        gateway: String,
    },
    /// A route to neighbours does not say by which interface.
    #[error("route to {to}: say by which interface its destinations are neighbours")]
    NoWay {
        /// The destinations.
        to: String,
    },
    /// There is one with this metric for exactly these destinations.
    #[error("there is already a route to {to} with metric {metric}: remove it first")]
    RouteExists {
        /// The destinations.
        to: String,
        /// The metric.
        metric: u32,
    },
    /// There is none for exactly these destinations.
    #[error("there is no such route to {to}")]
    RouteMissing {
        /// The destinations.
        to: String,
    },
    /// The address is no group of a link or wider.
    #[error("{group} is no {family} group that can be joined: {rule}")]
    NoGroup {
        /// The address.
        group: IpAddr,
        /// The name of its family.
        family: &'static str,
        /// Which groups can be joined.
        rule: &'static str,
    },
}
