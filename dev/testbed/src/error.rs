//! Errors while a network is set up.

use std::io;

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
