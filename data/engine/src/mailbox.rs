//! How other threads reach a worker: the mailbox by which graph updates arrive, and the doorbell that
//! wakes it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

/// The most items that may wait. A worker that leaves more is stuck, or no thread has run it for
/// long.
const MAX_QUEUED: usize = 256;

/// How often [`Mailbox::wait`] looks. A turn takes microseconds, and the work for a change milliseconds.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A queue of items, numbered in rising order, from one thread to one worker, which returns each
/// item when it has carried it out.
///
/// An item is first *placed* and then *published*, so that several workers can have theirs before
/// any of them acts. While nothing is published, a check costs the worker one load. It wakes nobody
/// when it has carried an item out: that system call would cost it as much as a small change.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// The number of the latest published item.
    published: AtomicU64,
    /// The number of the item that the worker has completed last.
    adopted: AtomicU64,
    /// Whether a thread runs the worker. A worker that starts running takes pending items first.
    runs: AtomicBool,
    inside: Mutex<Inside<T>>,
}

#[derive(Debug)]
struct Inside<T> {
    queued: VecDeque<(u64, T)>,
    done: Vec<T>,
    /// Whether the worker has been dropped.
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let inside = Inside { queued: VecDeque::new(), done: Vec::new(), closed: false };
        Mailbox {
            published: AtomicU64::new(0),
            adopted: AtomicU64::new(0),
            runs: AtomicBool::new(false),
            inside: Mutex::new(inside),
        }
    }
}

impl<T> Mailbox<T> {
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the queue takes one more item.
    pub fn has_room(&self) -> bool {
        self.lock().queued.len() < MAX_QUEUED
    }

    /// Adds an item that the worker does not see until it is published, or taken by its number.
    pub fn place(&self, number: u64, item: T) {
        let mut inside = self.lock();
        if !inside.closed {
            inside.queued.push_back((number, item));
            // The worker that returns it, and perhaps one that it has taken before, allocates nothing.
            let returning = inside.queued.len() + 1;
            inside.done.reserve(returning);
        }
    }

    /// Publishes the items up to `number`.
    pub fn publish(&self, number: u64) {
        self.published.store(number, Ordering::Release);
    }

    /// Called by the worker, whose last completed item is `done`: the number of the latest
    /// published item, if it is newer.
    #[inline]
    pub fn pending(&self, done: u64) -> Option<u64> {
        let published = self.published.load(Ordering::Acquire);
        (published > done).then_some(published)
    }

    /// Called by the worker: takes the next item if its number is at most `number`.
    pub fn take(&self, number: u64) -> Option<(u64, T)> {
        let mut inside = self.lock();
        let is_due = inside.queued.front().is_some_and(|(n, _)| *n <= number);
        if is_due { inside.queued.pop_front() } else { None }
    }

    /// Called by the worker: item `number` is done; returns it to the other side.
    pub fn done(&self, number: u64, item: T) {
        self.lock().done.push(item);
        self.adopted.store(number, Ordering::Release);
    }

    /// Called by the worker: says whether a thread runs it from now on.
    pub fn set_runs(&self, runs: bool) {
        self.runs.store(runs, Ordering::Release);
    }

    /// Whether a thread runs the worker.
    pub fn runs(&self) -> bool {
        self.runs.load(Ordering::Acquire)
    }

    /// Called by the worker when it is dropped: pending and later items are discarded.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        inside.queued.clear();
        drop(inside);
        self.set_runs(false);
    }

    /// Takes the items that the worker has returned.
    pub fn returned(&self) -> Vec<T> {
        // The room stays for those that are still to come.
        self.lock().done.drain(..).collect()
    }

    /// The number of the item that the worker completed last.
    pub fn adopted(&self) -> u64 {
        self.adopted.load(Ordering::Acquire)
    }

    /// Whether the worker has completed item `number`, or no thread runs it.
    pub fn is_settled(&self, number: u64) -> bool {
        self.adopted() >= number || !self.runs()
    }

    /// Blocks until the worker has completed item `number` or no thread runs it, at most until
    /// `until`. Returns false on timeout.
    pub fn wait(&self, number: u64, until: Instant) -> bool {
        while !self.is_settled(number) {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        true
    }
}

/// Wakes one worker; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker that writes to `event`, the eventfd that the worker polls.
    pub(crate) fn new(event: Arc<OwnedFd>) -> Waker {
        Waker(event)
    }

    /// Ends the worker's sleep, or the next one if it is awake. Does not block.
    pub fn wake(&self) {
        // The write fails only when the counter is full; then the worker will wake anyway.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// A flag that says whether a worker sleeps, with its waker: other threads wake it only when
/// necessary.
#[derive(Debug)]
pub(crate) struct Doorbell {
    sleeps: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    pub(crate) fn new(waker: Waker) -> Doorbell {
        Doorbell { sleeps: AtomicBool::new(false), waker }
    }

    /// Called by other threads after they have queued something for the worker.
    #[inline]
    pub(crate) fn ring(&self) {
        // Pairs with the fence in `prepare_to_sleep`: either this thread sees that the worker
        // sleeps, or the worker sees the queued messages.
        fence(SeqCst);
        if self.sleeps.load(Relaxed) {
            self.waker.wake();
        }
    }

    /// Called by the worker before its last look at its queues.
    pub(crate) fn prepare_to_sleep(&self) {
        self.sleeps.store(true, Relaxed);
        fence(SeqCst);
    }

    pub(crate) fn end_sleep(&self) {
        self.sleeps.store(false, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// An allocation in a large heap may take longer than all the rest of a change.
    #[test]
    fn a_worker_that_returns_an_item_allocates_nothing() {
        let mailbox = Mailbox::default();
        let room = || mailbox.lock().done.capacity();
        for round in 0..3 {
            let numbers = 4 * round + 1..4 * round + 5;
            numbers.clone().for_each(|number| mailbox.place(number, [0u8; 400]));
            mailbox.publish(numbers.end);
            let (first, item) = mailbox.take(numbers.end).expect("it is published");
            // The other side empties it while one is on its way, and places another.
            assert_eq!(mailbox.returned().len(), 0);
            mailbox.place(numbers.end, [1; 400]);
            let before = room();
            mailbox.done(first, item);
            while let Some((number, item)) = mailbox.take(numbers.end) {
                mailbox.done(number, item);
            }
            assert_eq!((room(), mailbox.adopted()), (before, numbers.end));
            assert_eq!(mailbox.returned().len(), 5);
        }
    }
}
