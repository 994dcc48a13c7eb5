//! The capabilities of a NIC, as data (design/0000 §4.5): the meaning of Unicorn's `table`, `rss`, `feature`
//! and `queues`.
//!
//! A config node of a PRG carries a [`TableModel`], an [`RssModel`] or a [`FeatureModel`] in its
//! [`ConfigSpec`](crate::ConfigSpec), and the node at which packets leave for the host carries
//! [`Queues`]. Configuration functions and oracles are derived from these; nothing is written for one
//! NIC. Both models have an [`as_linux`](TableModel::as_linux) view: `ethtool` often exposes less than
//! the silicon can do.

mod check;
mod feature;
mod flow_type;
mod form;
mod rss;
mod table;
#[cfg(test)]
mod tests;

pub use check::{Part, Problem};
pub use feature::{FeatureModel, Work};
pub use flow_type::FlowType;
pub use form::{Form, Forms, FormsByType, KnownForms};
pub use rss::{RssFields, RssHash, RssModel, RssType};
pub use table::{
    Actions, Capacity, Cost, CostScope, Ethtool, Exposure, Failure, FieldMatch, Granularity,
    Location, MaskScope, TableModel, TableOrder, Without,
};

/// A range of queues, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueRange {
    /// The first.
    pub lo: u32,
    /// The last.
    pub hi: u32,
}

impl QueueRange {
    /// Whether `queue` is in the range.
    pub fn contains(self, queue: u32) -> bool {
        self.lo <= queue && queue <= self.hi
    }

    /// Whether every queue of `other` is in the range.
    pub fn covers(self, other: QueueRange) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    /// The queues that both have, if any.
    pub fn and(self, other: QueueRange) -> Option<QueueRange> {
        let both = QueueRange { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) };
        (both.lo <= both.hi).then_some(both)
    }

    /// The number of queues.
    pub fn count(self) -> u32 {
        self.hi.saturating_sub(self.lo).saturating_add(1)
    }
}

impl std::fmt::Display for QueueRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} .. {}", self.lo, self.hi)
    }
}

/// One node that represents all receive queues of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queues {
    /// The queues of the silicon.
    pub all: QueueRange,
    /// The queues that Linux uses, if they are fewer.
    pub linux: Option<QueueRange>,
}
