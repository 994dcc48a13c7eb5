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

mod ethtool;
mod link;
mod namespace;
mod netlink;
mod process;
mod veth;

use std::io;

pub use link::{LinkCounters, LinkInfo};
pub use namespace::Namespace;
pub use process::{BPF_FILES, SKIPPED, allowed_cores, own_bpf_files, pin_to, privileged};
pub use veth::{Fixture, Veth, VethEnd};

/// An Ethernet hardware address.
pub type Mac = [u8; 6];

/// A failure to build or to read a part of the testbed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a new network namespace.
    #[error(
        "cannot create a network namespace: {0}; run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    CreateNamespace(#[source] io::Error),
    /// A netlink request was refused.
    #[error("cannot {action}: {source}")]
    Request {
        /// The request, with the names of the objects.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel answered without the object that was asked for.
    #[error("the kernel's answer to `{action}` holds no link")]
    Unanswered {
        /// The request.
        action: String,
    },
    /// A link has no carrier although both ends were set up.
    #[error("link {name} has no carrier {milliseconds} ms after it was set up")]
    NoCarrier {
        /// The link's name.
        name: String,
        /// How long it was waited for.
        milliseconds: u128,
    },
    /// A value under `/proc/sys` could not be written.
    #[error("cannot write {value:?} to the setting {path}: {source}")]
    Sysctl {
        /// Path below `/proc/sys` or `/sys`.
        path: String,
        /// The refused value.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
}
