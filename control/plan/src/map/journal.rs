//! The effects of a change of the flow map, recorded for a policy.

use super::Placement;

/// Flows and queues that a change concerned, with how they were before the first change.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    epoch: u64,
    /// Flows, by number, with their former placement.
    pub(crate) flows: Vec<(u32, Placement)>,
    /// Whether a rule was inserted that catches packets of others than the flow it is for, even
    /// if they arrive at the same queue as before.
    pub(crate) caught_others: bool,
    /// Queues, with whether `other` reached them.
    pub(crate) other: Vec<(u32, bool)>,
}

impl Journal {
    /// Starts over.
    pub(crate) fn clear(&mut self) {
        self.epoch += 1;
        self.flows.clear();
        self.other.clear();
        self.caught_others = false;
    }

    /// Distinguishes flows that were noted from others.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn note(&mut self, flow: u32, before: Placement) {
        self.flows.push((flow, before));
    }

    pub(super) fn note_other(&mut self, queue: u32, before: bool) {
        if !self.other.iter().any(|(q, _)| *q == queue) {
            self.other.push((queue, before));
        }
    }
}
