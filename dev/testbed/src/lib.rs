//! Disposable networks for tests, the demo and benchmarks.
//!
//! A [`Namespace`] is a network namespace without a name: nothing under `/run/netns`, no external
//! command, only a file descriptor of this process. When the process ends, however it ends, the
//! kernel takes the namespace, its links and its addresses away, so there is nothing to clean up
//! and nothing that two tests could fight over. [`Veth`] joins two namespaces with a cable of any
//! number of queues, and [`Fixture`] is the pair that most tests want.
//!
//! ```
//! use weever_testbed::{Fixture, Namespace, require_net_admin};
//! # fn main() -> Result<(), weever_testbed::Error> {
//! require_net_admin!(Ok(()));
//! let net = Fixture::pair(4)?;
//! net.assign_addresses()?;
//! let socket = net.right.run(|| std::net::UdpSocket::bind((Fixture::RIGHT, 7000)));
//! assert!(socket.is_ok(), "a socket stays in the namespace in which it was opened");
//! assert_eq!(net.veth.left.info()?.rx_queues, 4);
//! # Ok(())
//! # }
//! ```
//!
//! All calls block for as long as the kernel needs to answer (microseconds), except where said.
#![forbid(unsafe_code)]

mod cpu;
mod error;
mod ethtool;
mod fixture;
mod link;
mod namespace;
mod netlink;
mod privilege;
mod requests;
mod veth;

pub use cpu::{allowed_cores, pin_to};
pub use error::Error;
pub use fixture::Fixture;
pub use link::{LinkCounters, LinkInfo};
pub use namespace::Namespace;
pub use privilege::{SKIPPED, privileged};
pub use veth::{Veth, VethEnd};

/// An Ethernet hardware address.
pub type Mac = [u8; 6];
