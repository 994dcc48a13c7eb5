//! How the next graph reaches a worker.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

/// Letters that a worker has not taken: it is stuck, or no thread has run it for long.
const MOST: usize = 256;

/// A place where one thread leaves letters, numbered in rising order, for one worker, and gets them
/// back when the worker has done what they say.
///
/// A letter is first *placed* and then *published*: so several workers can have theirs before any of
/// them acts. While nothing is published, looking costs the worker one load.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// The number of the latest letter that the worker is to see.
    published: AtomicU64,
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    letters: VecDeque<(u64, T)>,
    done: Vec<T>,
    adopted: u64,
    /// Whether a thread runs the worker. Who does not run takes the letters before it runs again.
    runs: bool,
    /// Whether the worker is gone for good.
    closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let inside = Inside {
            letters: VecDeque::new(),
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

    /// Whether there is room for one more letter.
    pub fn has_room(&self) -> bool {
        self.lock().letters.len() < MOST
    }

    /// Leaves a letter that the worker does not see before it is published, or asked for by number.
    pub fn place(&self, number: u64, letter: T) {
        let mut inside = self.lock();
        if !inside.closed {
            inside.letters.push_back((number, letter));
        }
    }

    /// Lets the worker see the letters up to `number`.
    pub fn publish(&self, number: u64) {
        self.published.store(number, Ordering::Release);
    }

    /// For the worker, which has done what letter `done` says: the number of the latest one that it
    /// is to see, if it has not.
    #[inline]
    pub fn news(&self, done: u64) -> Option<u64> {
        let published = self.published.load(Ordering::Acquire);
        (published > done).then_some(published)
    }

    /// For the worker: the next letter, if its number is `number` or lower.
    pub fn take(&self, number: u64) -> Option<(u64, T)> {
        let mut inside = self.lock();
        let is_due = inside.letters.front().is_some_and(|(n, _)| *n <= number);
        if is_due { inside.letters.pop_front() } else { None }
    }

    /// For the worker: it has done what letter `number` says, and gives it back.
    pub fn done(&self, number: u64, letter: T) {
        let mut inside = self.lock();
        inside.adopted = number;
        inside.done.push(letter);
        drop(inside);
        self.changed.notify_all();
    }

    /// For the worker: whether a thread runs it from now on.
    pub fn set_runs(&self, runs: bool) {
        self.lock().runs = runs;
        self.changed.notify_all();
    }

    /// For the worker: it takes no letters any more.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        inside.runs = false;
        inside.letters.clear();
        drop(inside);
        self.changed.notify_all();
    }

    /// The letters that came back.
    pub fn returned(&self) -> Vec<T> {
        std::mem::take(&mut self.lock().done)
    }

    /// The number of the letter that the worker did last.
    pub fn adopted(&self) -> u64 {
        self.lock().adopted
    }

    /// Whether the worker has done letter `number`, or does not run.
    pub fn is_settled(&self, number: u64) -> bool {
        let inside = self.lock();
        inside.adopted >= number || !inside.runs
    }

    /// Waits until the worker has done letter `number` or does not run; blocks up to `until`. Whether
    /// it came to that.
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
