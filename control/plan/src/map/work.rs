//! Counts the work of a search, so that it can be bounded without a clock.

use std::cell::Cell;

/// Steps of computation since the last start. A step is about an intersection of two conjunctions:
/// some 100 ns.
#[derive(Debug, Default)]
pub(crate) struct Work {
    steps: Cell<u64>,
}

impl Work {
    pub(crate) fn start(&self) {
        self.steps.set(0);
    }

    pub(crate) fn spend(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }
}
