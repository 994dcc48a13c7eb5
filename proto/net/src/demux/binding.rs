//! Bindings: the packets that a socket wants, the fields that decide it, and the comparison of a packet
//! with them.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

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

impl Binding {
    /// The peer, if both its address and its port are given.
    pub fn peer(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.remote_addr?, self.remote_port?))
    }
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

/// The fields that a binding gives, one bit each. The order of the numbers is the order in which
/// shapes are tried: a peer says more than an address of ours, that more than an interface, and so
/// on; one family says more than both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shape(pub(super) u8);

const FAMILY: u8 = 1;
const LOCAL_PORT: u8 = 1 << 1;
const INTERFACE: u8 = 1 << 2;
const LOCAL_ADDR: u8 = 1 << 3;
const REMOTE_PORT: u8 = 1 << 4;
const REMOTE_ADDR: u8 = 1 << 5;

/// How many shapes there are.
pub(super) const SHAPES: usize = 1 << 6;

/// The key of bindings of a shape: the fields they give, zero where they give none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    local_addr: u128,
    remote_addr: u128,
    /// Ports, interface, family and shape.
    rest: u64,
}

impl Shape {
    pub(super) fn of(binding: &Binding) -> Shape {
        let bit = |given: bool, bit: u8| if given { bit } else { 0 };
        Shape(
            bit(binding.family() != Family::Both, FAMILY)
                | bit(binding.local_port.is_some(), LOCAL_PORT)
                | bit(binding.interface.is_some(), INTERFACE)
                | bit(binding.local_addr.is_some(), LOCAL_ADDR)
                | bit(binding.remote_port.is_some(), REMOTE_PORT)
                | bit(binding.remote_addr.is_some(), REMOTE_ADDR),
        )
    }

    /// Whether bindings of this shape give an address of ours, or a group's.
    pub(super) fn gives_local_addr(self) -> bool {
        self.has(LOCAL_ADDR)
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// The key of `packet` under this shape, for bindings of `family`.
    #[inline]
    pub(super) fn key(self, packet: &FlowKey, family: Family) -> Key {
        let field = |bit, value: u64, shift: u32| if self.has(bit) { value << shift } else { 0 };
        let family = match family {
            _ if !self.has(FAMILY) => 0,
            Family::V4 => 1,
            _ => 2,
        };
        let addr = |bit, addr: [u8; 16]| if self.has(bit) { u128::from_ne_bytes(addr) } else { 0 };
        Key {
            local_addr: addr(LOCAL_ADDR, packet.local_addr),
            remote_addr: addr(REMOTE_ADDR, packet.remote_addr),
            rest: field(LOCAL_PORT, packet.local_port.into(), 0)
                | field(REMOTE_PORT, packet.remote_port.into(), 16)
                | field(INTERFACE, packet.interface.into(), 32)
                | family << 48
                | u64::from(self.0) << 56,
        }
    }

    /// The key of a binding of this shape.
    pub(super) fn key_of(self, binding: &Binding) -> Key {
        let packet = FlowKey {
            local_addr: binding.local_addr.map(mapped).unwrap_or_default(),
            remote_addr: binding.remote_addr.map(mapped).unwrap_or_default(),
            local_port: binding.local_port.unwrap_or_default(),
            remote_port: binding.remote_port.unwrap_or_default(),
            interface: binding.interface.unwrap_or_default(),
        };
        self.key(&packet, binding.family())
    }
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
        // A group is heard by those only that name it.
        let group = packet.is_to_group() && !shape.gives_local_addr();
        families && !group && shape.key(packet, self.family()) == shape.key_of(self)
    }
}
