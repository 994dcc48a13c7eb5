//! Waking a receiver that went to sleep, and only such a one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd that is written only while its owner waits.
#[derive(Debug)]
pub(super) struct Doorbell {
    fd: OwnedFd,
    armed: AtomicBool,
}

impl Doorbell {
    pub(super) fn new() -> std::io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell { fd, armed: AtomicBool::new(false) })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The owner is about to wait; it looks at its ring once more after this. Either it sees the
    /// sent packets, or the sender sees it armed: a SeqCst fence stands between the write and the
    /// look on both sides.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake. A ring that comes too late only costs it a vain look.
    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
        let _nothing_there = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Something was sent, or will never be again.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            self.write();
        }
    }

    /// Makes the descriptor readable at once.
    pub(super) fn write(&self) {
        let written = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "a counter that is read by ones does not overflow");
    }
}

/// Rings when dropped. Declared behind the producer, whose end the receiver is to notice.
#[derive(Debug)]
pub(super) struct RingsWhenGone(pub(super) Arc<Doorbell>);

impl Drop for RingsWhenGone {
    fn drop(&mut self) {
        self.0.ring();
    }
}
