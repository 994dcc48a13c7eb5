//! The packets that a socket wants, and the fields that decide it.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use weever_wire::ipv6::mapped;

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

/// The packets that a socket wants. A field that is `None` matches any value.
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

    /// Whether the packet came to a multicast group.
    #[inline]
    pub fn is_to_group(&self) -> bool {
        match Ipv6Addr::from(self.local_addr).to_ipv4_mapped() {
            Some(v4) => v4.is_multicast(),
            None => self.local_addr[0] == 0xff,
        }
    }
}

fn is_mapped(addr: &[u8; 16]) -> bool {
    Ipv6Addr::from(*addr).to_ipv4_mapped().is_some()
}

impl Binding {
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
