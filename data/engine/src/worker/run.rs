//! The loop of a worker's thread, and when it sleeps.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weever_packet::Nanos;

use super::Worker;
use super::queues::Lost;
use super::stats::PUBLISH_EVERY;
use super::wait::{Mode, POLL_INTERVAL, monotonic};
use crate::mailbox::Mailbox;
use crate::schedule::Update;

/// The longest sleep: a removed device does not always wake the threads that poll it.
const MAX_SLEEP: Nanos = 1_000_000_000;

/// How often a worker that polls looks at its queues between two turns in vain: for well below a microsecond. What does not
/// wake it, such as a timer, waits for the turn.
pub(super) const LOOKS: u32 = 128;

impl Worker {
    /// Runs turns until `stop` is set; blocks the calling thread. To stop it, set `stop` and then
    /// use the [`Waker`](super::Waker). `lost` is called for each queue that fails.
    pub fn run(&mut self, stop: &AtomicBool, mode: Mode, lost: impl FnMut(Lost)) {
        self.pace.set(mode);
        self.run_at_pace(stop, lost);
    }

    /// The same with the wait mode of [`pace`](Worker::pace), which may change at any time.
    pub fn run_at_pace(&mut self, stop: &AtomicBool, mut lost: impl FnMut(Lost)) {
        let _running = self.mailbox.clone().map(Running::new);
        let mut now = monotonic();
        let mut busy_at = now;
        let mut published = Published { at: now, stale: true };
        while !stop.load(Ordering::Relaxed) {
            let mut turn = self.turn(now);
            let idle = turn.is_idle() && self.engine.idle() && !self.engine.has_messages();
            published.stale |= !idle;
            turn.lost.drain(..).for_each(&mut lost);
            now = monotonic();
            // A timer that ran does not suggest that packets will follow soon.
            let is_busy = turn.moved() || !self.engine.idle() || self.engine.has_messages();
            if is_busy || self.engine.is_moving_flows() {
                busy_at = now;
            } else if now.saturating_sub(busy_at) >= self.pace.spins_for() {
                self.sleep(now, published.next());
                now = monotonic();
            } else {
                self.look_out();
            }
            self.publish(now, &mut published);
        }
        self.stats.publish(&self.queues);
    }

    /// The latest time to call [`turn`](Self::turn), for delayed tasks and for links that depend on
    /// time. For callers with a clock of their own.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let due = self.queues.iter().flatten().filter_map(|a| a.queue.next_deadline()).min();
        [self.engine.next_deadline(), due].into_iter().flatten().min()
    }

    /// Spins until a queue or another worker may have something, but not for long: a turn does much more than to receive.
    pub(super) fn look_out(&self) {
        let is_quiet = || self.queues.iter().flatten().all(|attached| attached.queue.is_quiet());
        let _one_has = (0..LOOKS).find(|_| self.engine.has_messages() || !is_quiet());
    }

    fn sleep(&mut self, now: Nanos, publish_at: Option<Nanos>) {
        let timeout = publish_at.map_or(MAX_SLEEP, |at| at.saturating_sub(now));
        self.sleep_until(now, timeout, None);
    }

    /// For a caller that [turns](Self::turn) the worker by itself and finds it idle: sleeps until a
    /// queue has something, a timer is due, the worker is [woken](super::Waker), `also` is readable,
    /// or `timeout` nanoseconds have passed. It may return early.
    pub fn rest(&mut self, now: Nanos, timeout: Nanos, also: BorrowedFd<'_>) {
        self.stats.publish(&self.queues);
        self.sleep_until(now, timeout, Some(also));
    }

    fn sleep_until(&mut self, now: Nanos, timeout: Nanos, also: Option<BorrowedFd<'_>>) {
        let due = self.next_deadline().map_or(MAX_SLEEP, |at| at.saturating_sub(now));
        let mut timeout = timeout.min(due).min(MAX_SLEEP);
        if self.engine.lacks_buffers() || self.engine.is_moving_flows() {
            // Another thread may free buffers without waking this one. Flows that move need a turn
            // soon.
            timeout = timeout.min(POLL_INTERVAL);
        }
        self.bell.doorbell().prepare_to_sleep();
        if self.engine.has_messages() {
            self.bell.doorbell().end_sleep();
            return;
        }
        self.stats.count_sleep();
        if self.has_backlog() {
            // The device makes no progress (it may be down) and gives no notice when it will. Its
            // receive side may be readable all along, so polling it would be a busy loop.
            self.bell.sleep(&[], timeout.min(POLL_INTERVAL), also.into_iter());
        } else {
            self.sleep_on_queues(timeout, also);
        }
        self.bell.doorbell().end_sleep();
    }

    /// Sleeps until a queue has something, unless one has it by now.
    fn sleep_on_queues(&mut self, timeout: Nanos, also: Option<BorrowedFd<'_>>) {
        let mut may_sleep = true;
        for attached in self.queues.iter_mut().flatten() {
            may_sleep &= attached.queue.prepare_to_sleep();
        }
        if may_sleep {
            let also = also.into_iter().chain(self.engine.descriptors());
            self.bell.sleep(&self.queues, timeout, also);
        }
        self.queues.iter_mut().flatten().for_each(|attached| attached.queue.end_sleep());
    }

    fn publish(&mut self, now: Nanos, published: &mut Published) {
        if published.next().is_some_and(|at| now >= at) {
            self.stats.publish(&self.queues);
            *published = Published { at: now, stale: false };
        }
    }
}

/// Marks the worker as running for the guard's lifetime.
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
    /// Whether something has changed since.
    stale: bool,
}

impl Published {
    fn next(&self) -> Option<Nanos> {
        self.stale.then_some(self.at.saturating_add(PUBLISH_EVERY))
    }
}
