//! Errors of calls into the kernel.

use std::{fmt, io};

use crate::asm::{AsmError, Origin, Program};

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

/// How many instructions are shown before and after the culprit.
const CONTEXT: usize = 4;
/// How many of the log's last lines are shown.
const TAIL: usize = 8;

/// Why the kernel rejected a program.
#[derive(Debug)]
pub struct Rejection {
    name: String,
    source: io::Error,
    slot: Option<usize>,
    origin: Option<Origin>,
    excerpt: String,
    log: String,
}

impl Rejection {
    pub(super) fn new(name: &str, program: &Program, log: String, source: io::Error) -> Self {
        let slot = culprit(&log).filter(|slot| *slot < program.slots().len());
        Rejection {
            name: name.to_owned(),
            source,
            slot,
            origin: slot.and_then(|slot| program.origin(slot)),
            excerpt: slot.map(|slot| program.excerpt(slot, CONTEXT)).unwrap_or_default(),
            log,
        }
    }

    /// The slot of the instruction the verifier stopped at, if the log names one.
    pub fn slot(&self) -> Option<usize> {
        self.slot
    }

    /// Where that instruction came from.
    pub fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// The verifier's whole log.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The verifier's last words: the log from the culprit on, without its statistics.
    pub fn verdict(&self) -> String {
        let lines: Vec<&str> = self.log.lines().filter(|line| !is_statistics(line)).collect();
        let from_culprit = lines.iter().rposition(|line| instruction_number(line).is_some());
        let start = from_culprit.unwrap_or(0).max(lines.len().saturating_sub(TAIL));
        lines[start..].join("\n")
    }
}

/// The number of the last instruction the verifier lists, or names in prose.
fn culprit(log: &str) -> Option<usize> {
    let words = || log.lines().rev().filter(|line| !is_statistics(line));
    words().find_map(instruction_number).or_else(|| words().find_map(named_in_prose))
}

/// `17: (61) r1 = …` is instruction 17; `from 9 to 13:` is not one.
fn instruction_number(line: &str) -> Option<usize> {
    let (number, rest) = line.split_once(": (")?;
    rest.as_bytes().get(2).filter(|b| **b == b')')?;
    number.trim().parse().ok()
}

/// `unreachable insn 3`, `jump out of range from insn 2 to 40`, `invalid bpf_ld_imm64 insn`.
fn named_in_prose(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("insn ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn is_statistics(line: &str) -> bool {
    line.starts_with("processed ") || line.starts_with("verification time ")
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel rejects XDP program `{}` ({})", self.name, self.source)?;
        if let (Some(slot), Some(origin)) = (self.slot, self.origin) {
            write!(f, " at instruction {slot} ({origin})")?;
        }
        write!(f, "\n{}verifier: {}", self.excerpt, self.verdict())
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

    #[test]
    fn the_last_listed_instruction_is_the_culprit() {
        let log = "0: R1=ctx() R10=fp0\n0: (61) r2 = *(u32 *)(r1 +0)\nfrom 0 to 2: R1=ctx()\n\
                   12: (71) r0 = *(u8 *)(r2 +0)\ninvalid access to packet, off=0 size=1\n\
                   processed 2 insns (limit 1000000)\n";
        assert_eq!(culprit(log), Some(12));
    }

    #[test]
    fn prose_names_the_culprit_when_nothing_is_listed() {
        let statistics = "processed 0 insns (limit 1000000) max_states_per_insn 0";
        assert_eq!(culprit(&format!("unreachable insn 3\n{statistics}\n")), Some(3));
        assert_eq!(culprit(statistics), None);
        assert_eq!(culprit("jump out of range from insn 2 to 40\n"), Some(2));
        assert_eq!(culprit("the log is empty"), None);
        assert_eq!(culprit(""), None);
    }
}
