//! Which fields a binding gives, and whether a packet has the same in them.

use weever_wire::ipv6::mapped;

use super::binding::{Binding, Family, FlowKey};

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
