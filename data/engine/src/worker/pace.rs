//! How a worker waits, for others to change while it runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weever_packet::Nanos;

use super::Mode;

/// A worker's mode. It looks at it once per turn; one that sleeps has to be woken
/// ([`Waker`](super::Waker)) to take note.
#[derive(Debug)]
pub struct Pace(AtomicU64);

impl Pace {
    pub(super) fn new(mode: Mode) -> Pace {
        Pace(AtomicU64::new(mode.spins_for()))
    }

    /// From its next turn on, the worker waits like this.
    pub fn set(&self, mode: Mode) {
        self.0.store(mode.spins_for(), Relaxed);
    }

    /// How it waits.
    pub fn mode(&self) -> Mode {
        match self.spins_for() {
            Nanos::MAX => Mode::Busy,
            0 => Mode::Interrupt,
            spin => Mode::Adaptive { spin },
        }
    }

    #[inline]
    pub(super) fn spins_for(&self) -> Nanos {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_what_was_set() {
        let pace = Pace::new(Mode::Busy);
        assert_eq!(pace.mode(), Mode::Busy);
        for mode in [Mode::Interrupt, Mode::default(), Mode::Adaptive { spin: 7 }] {
            pace.set(mode);
            assert_eq!(pace.mode(), mode);
        }
    }
}
