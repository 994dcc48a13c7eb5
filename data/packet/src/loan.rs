//! Whether a frame is lent to an outside borrower, and to which.

use std::sync::atomic::AtomicU64 as Count;

use crate::sync::{AtomicU32, Ordering};

/// Bits of a loan that count how often the frame was lent.
const GENERATION_BITS: u32 = 20;
const GENERATION: u32 = (1 << GENERATION_BITS) - 1;
/// The most borrowers of a pool: the rest of 32 bits, less 0 for none.
pub(crate) const MOST_BORROWERS: usize = (1 << (u32::BITS - GENERATION_BITS)) - 1;

/// Which borrower has a frame (0: none), and how often it was lent, modulo 2^20.
pub(crate) struct Loan(AtomicU32);

impl Loan {
    pub(crate) fn new() -> Loan {
        Loan(AtomicU32::new(0))
    }

    /// The caller owns the frame, which is not lent. Returns its generation.
    #[inline]
    pub(crate) fn start(&self, borrower: u32) -> u32 {
        let generation = (self.0.load(Ordering::Relaxed) + 1) & GENERATION;
        // Publishes the frame's bookkeeping to the thread that takes it back.
        self.0.store(borrower << GENERATION_BITS | generation, Ordering::Release);
        generation
    }

    /// Ends the loan to a borrower; false: it is another's, or of another time, or none.
    #[inline]
    pub(crate) fn end(&self, borrower: u32, takers: Takers, generation: Option<u32>) -> bool {
        let seen = self.0.load(Ordering::Acquire);
        let is_same = generation.is_none_or(|wanted| seen & GENERATION == wanted & GENERATION);
        if seen >> GENERATION_BITS != borrower || !is_same {
            return false;
        }
        if takers == Takers::One {
            self.0.store(seen & GENERATION, Ordering::Relaxed);
            return true;
        }
        let (ok, fail) = (Ordering::Acquire, Ordering::Relaxed);
        self.0.compare_exchange(seen, seen & GENERATION, ok, fail).is_ok()
    }

    pub(crate) fn borrower(&self) -> u32 {
        self.0.load(Ordering::Relaxed) >> GENERATION_BITS
    }
}

/// How many threads take a borrower's frames back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// One at a time: it costs no atomic read-modify-write.
    One,
    /// Several at once, say the workers on one device queue.
    Several,
}

/// Lives as long as the borrower.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) rejected: Count,
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn of_two_returns_at_once_one_is_believed() {
        loom::model(|| {
            let loan = Arc::new(Loan::new());
            loan.start(3);
            let other = {
                let loan = loan.clone();
                thread::spawn(move || loan.end(3, Takers::Several, None))
            };
            let mine = loan.end(3, Takers::Several, None);
            assert_ne!(mine, other.join().unwrap());
        });
    }
}
