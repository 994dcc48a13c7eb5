//! The network that most tests want.

use std::net::Ipv4Addr;

use crate::{Error, Namespace, Veth};

/// Two namespaces joined by a veth pair, `left0` to `right0`, both ends up and without addresses:
/// one end is for the stack, which brings its own address, and the other for the kernel.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// The first namespace, with `left0`.
    pub left: Namespace,
    /// The second namespace, with `right0`.
    pub right: Namespace,
    /// The cable.
    pub veth: Veth,
}

impl Fixture {
    /// The address meant for the left end.
    pub const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// The address meant for the right end.
    pub const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
    /// The length of their network's prefix.
    pub const PREFIX: u8 = 24;

    /// Builds the pair with that many queues at each end.
    ///
    /// # Errors
    /// As [`Namespace::new`] and [`Veth::create`].
    pub fn pair(queues: u32) -> Result<Self, Error> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        let veth = Veth::create(&left, "left0", &right, "right0", queues)?;
        Ok(Self { left, right, veth })
    }

    /// Gives [`Fixture::LEFT`] and [`Fixture::RIGHT`] to the kernel's ends.
    ///
    /// # Errors
    /// [`Error::Request`] if it was done before.
    pub fn assign_addresses(&self) -> Result<(), Error> {
        self.veth.left.add_address(Self::LEFT, Self::PREFIX)?;
        self.veth.right.add_address(Self::RIGHT, Self::PREFIX)
    }
}
