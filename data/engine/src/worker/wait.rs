//! Sleeping until there is something to do.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use weever_packet::Nanos;

use super::Attached;

/// A queue without a descriptor is looked at this often; so is a device that takes nothing.
pub(super) const LOOK_EVERY: Nanos = 100_000;

/// The worker's end of its wakers.
#[derive(Debug)]
pub(super) struct Bell {
    fd: Arc<OwnedFd>,
    door: Arc<Doorbell>,
}

/// Wakes one worker; clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the worker's sleep, or its next one if it is awake. Does not block.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then the worker is awake anyway.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// What others may know of a worker's sleep: enough to wake it when it sleeps, and only then.
#[derive(Debug)]
pub(crate) struct Doorbell {
    sleeps: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    /// For others, after they have left something for the worker.
    #[inline]
    pub(crate) fn ring(&self) {
        // Pairs with the fence in `lie_down`: either this sees that it sleeps, or it sees what was
        // left.
        fence(SeqCst);
        if self.sleeps.load(Relaxed) {
            self.waker.wake();
        }
    }

    /// For the worker, before it looks for the last time.
    pub(super) fn lie_down(&self) {
        self.sleeps.store(true, Relaxed);
        fence(SeqCst);
    }

    pub(super) fn get_up(&self) {
        self.sleeps.store(false, Relaxed);
    }
}

impl Bell {
    pub(super) fn new() -> std::io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let fd = Arc::new(fd);
        let door = Doorbell { sleeps: AtomicBool::new(false), waker: Waker(fd.clone()) };
        Ok(Bell { fd, door: Arc::new(door) })
    }

    pub(super) fn waker(&self) -> Waker {
        Waker(self.fd.clone())
    }

    pub(super) fn door(&self) -> &Arc<Doorbell> {
        &self.door
    }

    /// Sleeps until a packet arrives, somebody wakes the worker, or `timeout` nanoseconds have
    /// passed.
    pub(super) fn sleep(&self, queues: &[Option<Attached>], timeout: Nanos) {
        let mut fds = vec![PollFd::new(&*self.fd, PollFlags::IN)];
        let mut timeout = timeout;
        for attached in queues.iter().flatten() {
            match attached.queue.fd() {
                Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                None => timeout = timeout.min(LOOK_EVERY),
            }
        }
        self.wait(&mut fds, timeout);
    }

    /// Sleeps until somebody wakes the worker or the time is over; packets may wait meanwhile.
    pub(super) fn sleep_deaf(&self, timeout: Nanos) {
        self.wait(&mut [PollFd::new(&*self.fd, PollFlags::IN)], timeout);
    }

    fn wait(&self, fds: &mut [PollFd<'_>], timeout: Nanos) {
        match poll(fds, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => {}
            // No memory for the wait. Sleeping blindly is better than spinning unasked.
            Err(_) => std::thread::sleep(Duration::from_nanos(LOOK_EVERY)),
        }
        let _nothing_there = rustix::io::read(self.fd.as_fd(), &mut [0; 8]);
    }
}

fn timespec(ns: Nanos) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
