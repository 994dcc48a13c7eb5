//! Waking a worker that may sleep, from any thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};

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
