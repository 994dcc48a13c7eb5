//! An assembled program: the encoding, and for each slot where it came from.

use std::fmt::{self, Write as _};
use std::panic::Location;

use super::insn::{Insn, Raw};

/// Where an instruction came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The purpose of this part of the program.
    pub note: &'static str,
    /// The line that emitted the instruction.
    pub location: &'static Location<'static>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = (self.location.file(), self.location.line());
        match self.note {
            "" => write!(f, "{file}:{line}"),
            note => write!(f, "{note}, {file}:{line}"),
        }
    }
}

/// A program ready to be loaded. Displays itself as a listing with notes.
#[derive(Debug, Clone)]
pub struct Program {
    slots: Vec<Raw>,
    origins: Vec<Origin>,
}

impl Program {
    pub(super) fn with_capacity(slots: usize) -> Self {
        Program { slots: Vec::with_capacity(slots), origins: Vec::with_capacity(slots) }
    }

    pub(super) fn push(&mut self, insn: Insn, origin: Origin) {
        let (first, second) = insn.encode();
        for slot in [Some(first), second].into_iter().flatten() {
            self.slots.push(slot);
            self.origins.push(origin);
        }
    }

    /// The encoded slots.
    pub fn slots(&self) -> &[Raw] {
        &self.slots
    }

    /// The encoding as bytes in the machine's order.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.slots.iter().flat_map(|slot| slot.to_bytes()).collect()
    }

    /// Where a slot came from; `None` beyond the end.
    pub fn origin(&self, slot: usize) -> Option<Origin> {
        self.origins.get(slot).copied()
    }

    /// The instructions with the number of their first slot.
    pub fn instructions(&self) -> impl Iterator<Item = (usize, Insn)> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            let insn = Insn::decode(self.slots.get(at..)?).ok()?;
            next += insn.slots();
            Some((at, insn))
        })
    }

    /// The instructions around a slot, the one that holds it marked, up to `context` on each side.
    pub fn excerpt(&self, slot: usize, context: usize) -> String {
        let all: Vec<_> = self.instructions().collect();
        let focus = all.iter().rposition(|(at, _)| *at <= slot).unwrap_or(0);
        let shown = focus.saturating_sub(context)..(focus + context + 1).min(all.len());
        let mut text = String::new();
        for i in shown {
            let mark = if i == focus { '>' } else { ' ' };
            self.list_one(&mut text, mark, all[i]);
        }
        text
    }

    fn list_one(&self, text: &mut String, mark: char, (at, insn): (usize, Insn)) {
        let note = self.origins[at].note;
        let line = self.origins[at].location.line();
        let insn = insn.to_string();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark} {at:4}  {insn:<44} ; {note} (line {line})");
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.instructions().for_each(|insn| self.list_one(&mut text, ' ', insn));
        f.write_str(&text)
    }
}
