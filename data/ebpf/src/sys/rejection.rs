//! A verifier's rejection, put beside the instruction it is about and where that came from.

use std::fmt;
use std::io;

use crate::asm::{Origin, Program};

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
