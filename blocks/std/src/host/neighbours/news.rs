//! What happened to neighbours that packets wait for, for workers that have not looked yet.

use std::collections::VecDeque;

/// How many neighbours are remembered; who looks too rarely has to look at everything.
pub(super) const NEWS: usize = 1024;

/// Keys of neighbours that were resolved or given up.
#[derive(Debug)]
pub(super) struct News {
    /// The latest last.
    latest: VecDeque<u64>,
    /// How many there ever were.
    told: u64,
}

impl News {
    pub(super) fn new() -> News {
        News { latest: VecDeque::with_capacity(NEWS), told: 0 }
    }

    pub(super) fn tell(&mut self, key: u64) {
        if self.latest.len() == NEWS {
            self.latest.pop_front();
        }
        self.latest.push_back(key);
        self.told += 1;
    }

    /// How many there ever were: what a reader has seen, once it has read all.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Calls `visit` for each that came after the first `seen`, or once without one when some of
    /// them are forgotten.
    pub(super) fn since(&self, seen: u64, mut visit: impl FnMut(Option<u64>)) {
        let missed = self.told - seen;
        match usize::try_from(missed).ok().and_then(|m| self.latest.len().checked_sub(m)) {
            Some(old) => self.latest.iter().skip(old).for_each(|key| visit(Some(*key))),
            None => visit(None),
        }
    }
}
