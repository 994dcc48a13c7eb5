//! Turn after turn, and when to sleep in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};
use weever_packet::Nanos;

use super::stats::PUBLISH_EVERY;
use super::wait::LOOK_EVERY;
use super::{Lost, Worker};
use crate::mailbox::Mailbox;
use crate::schedule::Update;

/// A device that goes away does not always say so to who waits for it.
const LONGEST_SLEEP: Nanos = 1_000_000_000;

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Looks again at once, always. For a core of its own.
    Busy,
    /// Looks again for so many nanoseconds, then sleeps until something comes.
    Adaptive {
        /// How long it looks.
        spin: Nanos,
    },
    /// Sleeps until something comes. For a core that others need.
    Interrupt,
}

impl Default for Mode {
    /// Looks for 50 µs: about twice what waking up costs.
    fn default() -> Mode {
        Mode::Adaptive { spin: 50_000 }
    }
}

impl Mode {
    pub(super) fn spins_for(self) -> Nanos {
        match self {
            Mode::Busy => Nanos::MAX,
            Mode::Adaptive { spin } => spin,
            Mode::Interrupt => 0,
        }
    }
}

/// The system's monotonic clock in nanoseconds: the time base of every worker.
pub fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as Nanos * 1_000_000_000 + now.tv_nsec as Nanos
}

impl Worker {
    /// Turns until `stop` is set; blocks the calling thread. Set `stop`, then use the
    /// [`Waker`](super::Waker). `lost` hears of each queue that fails.
    pub fn run(&mut self, stop: &AtomicBool, mode: Mode, lost: impl FnMut(Lost)) {
        self.pace.set(mode);
        self.run_at_pace(stop, lost);
    }

    /// The same in the mode that [`pace`](Worker::pace) says, as it changes.
    pub fn run_at_pace(&mut self, stop: &AtomicBool, mut lost: impl FnMut(Lost)) {
        let _running = self.mailbox.clone().map(Running::new);
        let mut now = monotonic();
        let mut busy_at = now;
        let mut published = Published { at: now, stale: true };
        while !stop.load(Ordering::Relaxed) {
            let mut turn = self.turn(now);
            let idle = turn.is_idle() && self.engine.idle() && !self.engine.has_parcels();
            published.stale |= !idle;
            turn.lost.drain(..).for_each(&mut lost);
            now = monotonic();
            // That a timer has run says nothing about what comes next.
            if turn.moved() || !self.engine.idle() || self.engine.has_parcels() {
                busy_at = now;
            } else if now.saturating_sub(busy_at) >= self.pace.spins_for() {
                self.sleep(now, published.next());
                now = monotonic();
            } else {
                std::hint::spin_loop();
            }
            self.publish(now, &mut published);
        }
        self.stats.publish(&self.queues);
    }

    /// When [`turn`](Self::turn) has to be called at the latest for the sake of delayed tasks and of
    /// links that have to do with time. For whoever turns the worker by a clock of its own.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let due = self.queues.iter().flatten().filter_map(|a| a.queue.next_deadline()).min();
        [self.engine.next_deadline(), due].into_iter().flatten().min()
    }

    fn sleep(&mut self, now: Nanos, publish_at: Option<Nanos>) {
        let until = [self.next_deadline(), publish_at].into_iter().flatten().min();
        let timeout = until.map_or(LONGEST_SLEEP, |u| u.saturating_sub(now).min(LONGEST_SLEEP));
        self.bell.door().lie_down();
        if self.engine.has_parcels() {
            self.bell.door().get_up();
            return;
        }
        self.stats.count_sleep();
        if self.has_backlog() {
            // The device takes or sends nothing (it may be down) and does not say when it will. Its
            // receive side may be readable all the while, so waiting for that would be spinning.
            self.bell.sleep_deaf(timeout.min(LOOK_EVERY));
        } else {
            self.bell.sleep(&self.queues, timeout);
        }
        self.bell.door().get_up();
    }

    fn publish(&mut self, now: Nanos, published: &mut Published) {
        if published.next().is_some_and(|at| now >= at) {
            self.stats.publish(&self.queues);
            *published = Published { at: now, stale: false };
        }
    }
}

/// Says that a thread runs the worker, until it ends, however it ends.
struct Running(Arc<Mailbox<Update>>);

impl Running {
    fn new(mailbox: Arc<Mailbox<Update>>) -> Running {
        mailbox.set_runs(true);
        Running(mailbox)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set_runs(false);
    }
}

/// When the queues' counters were last copied for other threads.
struct Published {
    at: Nanos,
    /// Whether something has happened since.
    stale: bool,
}

impl Published {
    fn next(&self) -> Option<Nanos> {
        self.stale.then_some(self.at.saturating_add(PUBLISH_EVERY))
    }
}
