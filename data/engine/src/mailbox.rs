//! The queue by which graph updates reach a worker.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// The most items that may wait. A worker that leaves more is stuck, or no thread has run it for
/// long.
const MAX_QUEUED: usize = 256;

/// A queue of items, numbered in rising order, from one thread to one worker, which returns each
/// item when it has carried it out.
///
/// An item is first *placed* and then *published*, so that several workers can have theirs before
/// any of them acts. While nothing is published, a check costs the worker one load.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// The number of the latest published item.
    published: AtomicU64,
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    queued: VecDeque<(u64, T)>,
    done: Vec<T>,
    adopted: u64,
    /// Whether a thread runs the worker. A worker that starts running takes pending items first.
    runs: bool,
    /// Whether the worker has been dropped.
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let inside = Inside {
            queued: VecDeque::new(),
            done: Vec::new(),
            adopted: 0,
            runs: false,
            closed: false,
        };
        Mailbox {
            published: AtomicU64::new(0),
            inside: Mutex::new(inside),
            changed: Condvar::new(),
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
        let mut inside = self.lock();
        inside.adopted = number;
        inside.done.push(item);
        drop(inside);
        self.changed.notify_all();
    }

    /// Called by the worker: says whether a thread runs it from now on.
    pub fn set_runs(&self, runs: bool) {
        self.lock().runs = runs;
        self.changed.notify_all();
    }

    /// Called by the worker when it is dropped: pending and later items are discarded.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        inside.runs = false;
        inside.queued.clear();
        drop(inside);
        self.changed.notify_all();
    }

    /// Takes the items that the worker has returned.
    pub fn returned(&self) -> Vec<T> {
        std::mem::take(&mut self.lock().done)
    }

    /// The number of the item that the worker completed last.
    pub fn adopted(&self) -> u64 {
        self.lock().adopted
    }

    /// Whether the worker has completed item `number`, or no thread runs it.
    pub fn is_settled(&self, number: u64) -> bool {
        let inside = self.lock();
        inside.adopted >= number || !inside.runs
    }

    /// Blocks until the worker has completed item `number` or no thread runs it, at most until
    /// `until`. Returns false on timeout.
    pub fn wait(&self, number: u64, until: Instant) -> bool {
        let mut inside = self.lock();
        while inside.adopted < number && inside.runs {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.changed.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
