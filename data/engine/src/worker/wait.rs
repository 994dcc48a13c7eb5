//! How a worker waits when it has nothing to do.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use weever_packet::Nanos;

use super::queues::Attached;
use crate::mailbox::{Doorbell, Waker};

/// The interval at which queues without a descriptor, and stalled devices, are polled.
pub(super) const POLL_INTERVAL: Nanos = 100_000;

/// The eventfd that a worker sleeps on.
#[derive(Debug)]
pub(super) struct Bell {
    fd: Arc<OwnedFd>,
    doorbell: Arc<Doorbell>,
}

impl Bell {
    pub(super) fn new() -> std::io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let fd = Arc::new(fd);
        let doorbell = Arc::new(Doorbell::new(Waker::new(fd.clone())));
        Ok(Bell { fd, doorbell })
    }

    pub(super) fn waker(&self) -> Waker {
        Waker::new(self.fd.clone())
    }

    pub(super) fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// Sleeps until a packet arrives, the worker is woken, one of `also` is readable, or `timeout`
    /// nanoseconds have passed.
    pub(super) fn sleep<'f>(
        &self,
        queues: &[Option<Attached>],
        timeout: Nanos,
        also: impl Iterator<Item = BorrowedFd<'f>>,
    ) {
        let mut fds = vec![PollFd::new(&*self.fd, PollFlags::IN)];
        fds.extend(also.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let mut timeout = timeout;
        for attached in queues.iter().flatten() {
            match attached.queue.fd() {
                Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                None => timeout = timeout.min(POLL_INTERVAL),
            }
        }
        self.wait(&mut fds, timeout);
    }

    fn wait(&self, fds: &mut [PollFd<'_>], timeout: Nanos) {
        match poll(fds, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => {}
            // The kernel has no memory for poll. Sleeping blindly is better than a busy loop.
            Err(_) => std::thread::sleep(Duration::from_nanos(POLL_INTERVAL)),
        }
        let _nothing_there = rustix::io::read(self.fd.as_fd(), &mut [0; 8]);
    }
}

/// Whether each of these descriptors can be read, or never will be any more. Does not block.
pub(super) fn readable<'f>(fds: impl Iterator<Item = BorrowedFd<'f>>) -> Vec<bool> {
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    if poll(&mut fds, Some(&timespec(0))).is_err() {
        return Vec::new();
    }
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
}

fn timespec(ns: Nanos) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// How a worker waits when it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Polls continuously. For a dedicated core.
    Busy,
    /// Polls for a while, then sleeps until something happens.
    Adaptive {
        /// How long it polls, in nanoseconds.
        spin: Nanos,
    },
    /// Sleeps at once until something happens. For a shared core.
    Interrupt,
}

impl Default for Mode {
    /// Polls for 50 µs: about twice the cost of waking up.
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

/// A worker's wait mode, shared between threads. The worker reads it once per turn; one that sleeps
/// must be woken ([`Waker`](super::Waker)) to notice a change.
#[derive(Debug)]
pub struct Pace(AtomicU64);

impl Pace {
    pub(super) fn new(mode: Mode) -> Pace {
        Pace(AtomicU64::new(mode.spins_for()))
    }

    /// Changes the mode from the worker's next turn on.
    pub fn set(&self, mode: Mode) {
        self.0.store(mode.spins_for(), Relaxed);
    }

    /// The current mode.
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
