//! A stack, a peer, and what lies between them.

use std::net::Ipv6Addr;

use weever_daemon::Stack;
use weever_testbed::Fixture;

use crate::peer::Peer;

/// Where weever's UDP echo service listens.
pub(crate) const PORT: u16 = 7;

/// weever's link-local address. One that is made of the MAC address would be the kernel's just as
/// well, which has its own traffic on the device.
pub(crate) const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x77, 2);

/// Everything that a demonstration needs. Dropping it leaves nothing behind.
pub(crate) struct Stage {
    pub(crate) stack: Stack,
    pub(crate) peer: Box<dyn Peer>,
    /// What was set up, in words.
    pub(crate) setup: Vec<String>,
    /// Dropped last.
    pub(crate) _network: Option<Fixture>,
}
