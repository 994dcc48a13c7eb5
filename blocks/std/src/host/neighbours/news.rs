//! Neighbours that were resolved or given up, for workers that have not seen it yet.

use std::collections::VecDeque;

/// How many events are remembered; a reader that misses some has to look at everything.
pub(super) const NEWS: usize = 1024;

/// Keys of neighbours that were resolved or given up.
#[derive(Debug)]
pub(super) struct News {
    /// The latest last.
    latest: VecDeque<u64>,
    /// How many there ever were.
    count: u64,
}

impl News {
    pub(super) fn new() -> News {
        News { latest: VecDeque::with_capacity(NEWS), count: 0 }
    }

    pub(super) fn push(&mut self, key: u64) {
        if self.latest.len() == NEWS {
            self.latest.pop_front();
        }
        self.latest.push_back(key);
        self.count += 1;
    }

    /// How many there ever were: the position of a reader that has read all.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Calls `visit` for each that came after the first `seen`, or once without one when some of
    /// them are forgotten.
    pub(super) fn since(&self, seen: u64, mut visit: impl FnMut(Option<u64>)) {
        let missed = self.count - seen;
        match usize::try_from(missed).ok().and_then(|m| self.latest.len().checked_sub(m)) {
            Some(old) => self.latest.iter().skip(old).for_each(|key| visit(Some(*key))),
            None => visit(None),
        }
    }
}
