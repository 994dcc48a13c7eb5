//! The settings of a TAP interface, and the errors of making one.

use std::io;

use crate::netdev::InterfaceError;

/// How to make or join a TAP interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// The interface's name; `tap%d` takes the first free number. An existing interface of that
    /// name that is not open is joined.
    pub name: String,
    /// How many queues; at least one.
    pub queues: u16,
    /// The MAC address of our end. Without one it is made from the kernel's.
    pub mac: Option<[u8; 6]>,
    /// The interface's MTU; without one it stays as it is (1,500 for a new one).
    pub mtu: Option<u16>,
    /// Whether the interface stays when we are gone. `None`: as it is, which for a new one is no.
    pub persistent: Option<bool>,
    /// The user who may open it later without CAP_NET_ADMIN.
    pub owner: Option<u32>,
    /// Whether the kernel may leave segmentation to us.
    pub segmentation: bool,
    /// Whether it is brought up.
    pub up: bool,
}

impl TapConfig {
    /// One queue with every offload, up, gone with the process.
    pub fn new(name: impl Into<String>) -> TapConfig {
        TapConfig {
            name: name.into(),
            queues: 1,
            mac: None,
            mtu: None,
            persistent: None,
            owner: None,
            segmentation: true,
            up: true,
        }
    }
}

/// Why a TAP interface cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// No interface can have that name.
    #[error("`{name}` is no name for an interface: 1 to 15 characters, without slash or space")]
    Name {
        /// The name.
        name: String,
    },
    /// No queues, or more than the kernel has.
    #[error("{name}: {queues} queues; a TAP interface has 1 to 256")]
    Queues {
        /// The interface.
        name: String,
        /// How many were asked for.
        queues: u16,
    },
    /// There is no TAP driver.
    #[error("{name}: /dev/net/tun cannot be opened: {source}; load the module (`modprobe tun`)")]
    NoDriver {
        /// The interface.
        name: String,
        /// The system's word.
        source: io::Error,
    },
    /// The process may not do it.
    #[error(
        "{name}: {what}: not permitted; it needs CAP_NET_ADMIN (run as root), or an interface made for this user (`ip tuntap add {name} mode tap user USER`)"
    )]
    Permission {
        /// The interface.
        name: String,
        /// The attempted action.
        what: &'static str,
    },
    /// Another process has it open.
    #[error("{name}: in use by another process, perhaps another weever; choose another name")]
    Busy {
        /// The interface.
        name: String,
    },
    /// There is one of that name, and it is of another kind.
    #[error(
        "{name}: an interface of that name exists and is no TAP interface, or has another number of queues; choose another name, or remove it (`ip link delete {name}`)"
    )]
    OtherKind {
        /// The interface.
        name: String,
    },
    /// The interface cannot be looked at.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A system call failed.
    #[error("{name}: {what}: {source}")]
    Io {
        /// The interface.
        name: String,
        /// The call.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

impl TapError {
    /// Sorts a failed call by its culprit.
    pub(super) fn call(name: &str, what: &'static str, source: io::Error) -> TapError {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TapError::Permission { name, what },
            Some(libc::EBUSY) => TapError::Busy { name },
            Some(libc::EINVAL) if what == "TUNSETIFF" => TapError::OtherKind { name },
            _ => TapError::Io { name, what, source },
        }
    }
}
