//! Errors of calls into the kernel.

use std::fmt;
use std::io;

use super::rejection::Rejection;
use crate::asm::AsmError;

/// Where in the receive path a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the kernel's stack, after it; any interface can, at about half the speed.
    Generic,
}

impl AttachMode {
    /// `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE`.
    pub(super) fn flags(self) -> u32 {
        match self {
            AttachMode::Native => 1 << 2,
            AttachMode::Generic => 1 << 1,
        }
    }
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        })
    }
}

/// An error of the `bpf(2)` layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The program could not be assembled: our mistake.
    #[error("cannot assemble the program: {0}")]
    Assemble(#[from] AsmError),
    /// The kernel does not let this process do it.
    #[error("{action}: not permitted; it needs CAP_BPF and CAP_NET_ADMIN (run as root)")]
    Denied {
        /// The attempted action.
        action: String,
    },
    /// The kernel was built without `bpf(2)`, or is too old for the command.
    #[error(
        "{action}: this kernel cannot ({source}); Linux 5.18 or newer with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS is needed"
    )]
    Unsupported {
        /// The attempted action.
        action: String,
        /// The kernel's word.
        source: io::Error,
    },
    /// The verifier rejected the program.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// The program could not be attached to the interface.
    #[error("cannot attach XDP program to interface {ifindex} in {mode} mode: {source}{hint}")]
    Attach {
        /// The interface.
        ifindex: u32,
        /// The mode tried last.
        mode: AttachMode,
        /// The kernel's word.
        source: io::Error,
        /// The remedy.
        hint: &'static str,
    },
    /// A key or value has another size than the map was made for.
    #[error("map `{map}`: {what} of {got} bytes given, {expected} needed")]
    Size {
        /// The map's name.
        map: String,
        /// "key" or "value".
        what: &'static str,
        /// The map's size.
        expected: usize,
        /// The size given.
        got: usize,
    },
    /// A setting that makes no sense.
    #[error("{what}")]
    Setting {
        /// Which one, and why.
        what: String,
    },
    /// Any other failure of the system call.
    #[error("{action}: {source}")]
    Call {
        /// The attempted action.
        action: String,
        /// The kernel's word.
        source: io::Error,
    },
}

impl BpfError {
    /// Sorts a failed call by its cause: missing rights, a missing feature, or anything else.
    pub(super) fn call(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM) => BpfError::Denied { action },
            Some(libc::ENOSYS) => BpfError::Unsupported { action, source },
            _ => BpfError::Call { action, source },
        }
    }

    /// Whether the reason is a missing permission.
    pub fn is_denied(&self) -> bool {
        match self {
            BpfError::Denied { .. } => true,
            BpfError::Attach { source, .. } => source.raw_os_error() == Some(libc::EPERM),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_told_from_other_failures() {
        let failed = |code| BpfError::call("create map `m`", io::Error::from_raw_os_error(code));
        let denied = failed(libc::EPERM);
        assert!(denied.is_denied());
        assert!(denied.to_string().contains("CAP_BPF and CAP_NET_ADMIN"), "{denied}");
        assert!(matches!(failed(libc::ENOSYS), BpfError::Unsupported { .. }));
        let other = failed(libc::E2BIG);
        assert!(!other.is_denied());
        assert!(other.to_string().starts_with("create map `m`: "), "{other}");
    }
}
