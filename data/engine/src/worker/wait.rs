//! Sleeping until there is something to do.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use weever_packet::Nanos;

use super::Attached;

/// A queue without a descriptor is looked at this often; so is a device that takes nothing.
pub(super) const LOOK_EVERY: Nanos = 100_000;

/// The worker's end of its wakers.
#[derive(Debug)]
pub(super) struct Bell(Arc<OwnedFd>);

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

impl Bell {
    pub(super) fn new() -> std::io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell(Arc::new(fd)))
    }

    pub(super) fn waker(&self) -> Waker {
        Waker(self.0.clone())
    }

    /// Sleeps until a packet arrives, somebody wakes the worker, or `timeout` nanoseconds have
    /// passed.
    pub(super) fn sleep(&self, queues: &[Option<Attached>], timeout: Nanos) {
        let mut fds = vec![PollFd::new(&*self.0, PollFlags::IN)];
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
        self.wait(&mut [PollFd::new(&*self.0, PollFlags::IN)], timeout);
    }

    fn wait(&self, fds: &mut [PollFd<'_>], timeout: Nanos) {
        match poll(fds, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => {}
            // No memory for the wait. Sleeping blindly is better than spinning unasked.
            Err(_) => std::thread::sleep(Duration::from_nanos(LOOK_EVERY)),
        }
        let _nothing_there = rustix::io::read(self.0.as_fd(), &mut [0; 8]);
    }
}

fn timespec(ns: Nanos) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
