//! When to ask for routers: RFC 4861 §6.3.7 with the backing off of RFC 7559 §2, so that a host which
//! came before its router does not wait for ever.

use crate::SECOND;
use crate::neighbour::NEVER;
use crate::random::Random;

/// RFC 7559 §2.1, IRT: to the second solicitation.
const FIRST: u64 = 4 * SECOND;
/// RFC 7559 §2.1, MRT: between two solicitations at most.
const MOST: u64 = 3600 * SECOND;

/// Router solicitations to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solicit {
    pub(super) next: u64,
    interval: u64,
}

impl Solicit {
    /// None are wanted.
    pub(super) const NEVER: Solicit = Solicit { next: NEVER, interval: 0 };

    /// From `at` on.
    pub(super) const fn from(at: u64) -> Self {
        Self { next: at, interval: 0 }
    }

    /// A router has advertised itself.
    pub(super) fn stop(&mut self) {
        *self = Self::NEVER;
    }

    /// One was sent: the next comes after twice the time, a tenth more or less.
    pub(super) fn sent(&mut self, now: u64, random: &mut Random) {
        let doubled = if self.interval == 0 { FIRST } else { (2 * self.interval).min(MOST) };
        self.interval = doubled - doubled / 10 + random.up_to(doubled / 5);
        self.next = now.saturating_add(self.interval);
    }
}
