//! The faults of a file, with their places.

use std::fmt::{Display, Formatter, Result};

/// More problems than this are counted, not kept.
pub(crate) const MAX_KEPT: usize = 1000;
/// More are not shown.
const MAX_SHOWN: usize = 50;

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    /// In this line, counted from 1.
    Line(usize),
    /// In this entry of a JSON list, counted from 1.
    Entry(usize),
    /// In the file as a whole.
    File,
}

impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Position::Line(n) => write!(f, "line {n}"),
            Position::Entry(n) => write!(f, "entry {n}"),
            Position::File => f.write_str("the file"),
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place of the fault.
    pub place: Position,
    /// The fault, in one sentence.
    pub message: String,
    /// The remedy, if one is known.
    pub help: Option<String>,
}

impl Problem {
    /// A mistake at `place`.
    pub fn new(place: Position, message: impl Into<String>) -> Problem {
        Problem { place, message: message.into(), help: None }
    }

    /// The same problem with advice, if there is any.
    #[must_use]
    pub fn help(mut self, help: impl Into<Option<String>>) -> Problem {
        self.help = help.into();
        self
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.place, self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

/// All mistakes of a file, the first thousand of them in full. Displayed one per line.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    /// The first ones, in the order of the file.
    pub first: Vec<Problem>,
    /// The number of further problems.
    pub more: usize,
}

impl Problems {
    /// Adds one.
    pub fn add(&mut self, problem: Problem) {
        if self.first.len() < MAX_KEPT {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// The number of problems.
    pub fn count(&self) -> usize {
        self.first.len() + self.more
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, problem) in self.first.iter().take(MAX_SHOWN).enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        match self.count().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
