//! Which socket a packet is for, among a million of them.
//!
//! A [`Binding`] says which packets a socket wants: any subset of local and remote address and port,
//! the interface and the family may be left open (Dragonet thesis, appendix A: 0 is a wildcard). The
//! subset that is given is the binding's *shape*. A [`SocketTable`] keeps one hash table for all
//! bindings and a list of the shapes in use; a packet is looked up once for each shape, the most
//! specific first, so the cost depends on the number of shapes (seldom more than four) and not on
//! the number of sockets. Inserting and removing touch one entry; the hash tables grow one shard at
//! a time, so that a worker which owns the table is never busy with it for long.
//!
//! Several sockets may have the same binding. [`Sharing`] says how they divide its packets. What
//! comes to a group or a broadcast address goes to every socket that wants it
//! ([`SocketTable::for_each`]).
//!
//! Hashes are keyed by a secret, for a peer chooses addresses and ports.
//!
//! Two sides use this module: each worker has a [`SocketTable`] of its own, which it alone touches; the
//! control side has one [`Bindings`], which decides who may bind what and finds ephemeral ports.

mod bindings;
mod shape;
mod table;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

pub use bindings::{BindError, Bindings, Holder, PortRange};
pub use table::{SocketTable, TableFull};

use shape::Shape;

/// A socket as its table knows it: a number that the control side gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketRef {
    /// The socket's number.
    pub id: u32,
    /// The worker that receives for it when a group is divided by worker.
    pub worker: u16,
}

/// How sockets with the same binding divide its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody else may have the binding.
    #[default]
    Exclusive,
    /// The latest gets what comes to one address, all get what comes to a group (`SO_REUSEADDR`
    /// for UDP).
    Latest,
    /// By a hash of the flow: one flow stays with one socket (`SO_REUSEPORT`).
    ByFlow,
    /// To a socket of the worker that received the packet, by flow where there is none or several
    /// (`SO_REUSEPORT` with `SO_INCOMING_CPU`).
    ByWorker,
}

/// Which of the two families a binding wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4 and IPv6: an IPv6 socket that is not v6-only.
    #[default]
    Both,
    /// IPv4 only.
    V4,
    /// IPv6 only (`IPV6_V6ONLY`).
    V6,
}

/// Which packets a socket wants. What is `None` may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The family, where no address decides it.
    pub family: Family,
    /// Our address.
    pub local_addr: Option<IpAddr>,
    /// Our port.
    pub local_port: Option<u16>,
    /// The peer's address.
    pub remote_addr: Option<IpAddr>,
    /// The peer's port.
    pub remote_port: Option<u16>,
    /// The interface that the packet came by.
    pub interface: Option<u16>,
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |f: &mut fmt::Formatter<'_>, addr: Option<IpAddr>, port: Option<u16>| {
            match addr {
                Some(IpAddr::V6(v6)) => write!(f, "[{v6}]")?,
                Some(v4) => write!(f, "{v4}")?,
                None => f.write_str("*")?,
            }
            match port {
                Some(port) => write!(f, ":{port}"),
                None => f.write_str(":*"),
            }
        };
        end(f, self.local_addr, self.local_port)?;
        if self.remote_addr.is_some() || self.remote_port.is_some() {
            f.write_str(" from ")?;
            end(f, self.remote_addr, self.remote_port)?;
        }
        match self.family {
            Family::V4 => f.write_str(" (IPv4)")?,
            Family::V6 => f.write_str(" (IPv6)")?,
            Family::Both => {}
        }
        match self.interface {
            Some(interface) => write!(f, " on interface {interface}"),
            None => Ok(()),
        }
    }
}

/// A packet's addresses and ports, as its receiver sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Our address; an IPv4 one in mapped form.
    pub local_addr: [u8; 16],
    /// The peer's address; an IPv4 one in mapped form.
    pub remote_addr: [u8; 16],
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// The interface that the packet came by.
    pub interface: u16,
}

impl FlowKey {
    /// The key of a packet between these ends.
    pub fn new(local: (IpAddr, u16), remote: (IpAddr, u16), interface: u16) -> FlowKey {
        FlowKey {
            local_addr: mapped(local.0),
            remote_addr: mapped(remote.0),
            local_port: local.1,
            remote_port: remote.1,
            interface,
        }
    }

    /// Whether the packet is an IPv4 one.
    #[inline]
    pub fn is_v4(&self) -> bool {
        is_mapped(&self.local_addr)
    }
}

fn mapped(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn is_mapped(addr: &[u8; 16]) -> bool {
    Ipv6Addr::from(*addr).to_ipv4_mapped().is_some()
}

impl Binding {
    /// Whether a packet is one that the binding wants: the meaning that the table's lookup has.
    pub fn wants(&self, packet: &FlowKey) -> bool {
        let shape = Shape::of(self);
        let families = match self.family() {
            Family::Both => true,
            Family::V4 => packet.is_v4(),
            Family::V6 => !packet.is_v4(),
        };
        families && shape.key(packet, self.family()) == shape.key_of(self)
    }

    /// The family that addresses imply, or else the one that was asked for.
    pub(crate) fn family(&self) -> Family {
        match self.local_addr.or(self.remote_addr).map(mapped) {
            Some(addr) if is_mapped(&addr) => Family::V4,
            Some(_) => Family::V6,
            None => self.family,
        }
    }

    /// Whether some packet is wanted by both bindings.
    pub fn overlaps(&self, other: &Binding) -> bool {
        fn meet<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        let families = matches!(
            (self.family(), other.family()),
            (Family::Both, _)
                | (_, Family::Both)
                | (Family::V4, Family::V4)
                | (Family::V6, Family::V6)
        );
        families
            && meet(self.local_addr.map(mapped), other.local_addr.map(mapped))
            && meet(self.remote_addr.map(mapped), other.remote_addr.map(mapped))
            && meet(self.local_port, other.local_port)
            && meet(self.remote_port, other.remote_port)
            && meet(self.interface, other.interface)
    }
}
