//! Counters of a socket at one worker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Written by one worker, read by the control side.
#[derive(Debug, Default)]
pub struct SocketStats {
    delivered: AtomicU64,
    ring_full: AtomicU64,
    no_frame: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    errors: AtomicU64,
}

/// A copy of the counters, or a sum of several workers'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounts {
    /// Datagrams given to the application.
    pub delivered: u64,
    /// Dropped, because the application did not empty its receive ring.
    pub ring_full: u64,
    /// Dropped, because the application had lent no frame.
    pub no_frame: u64,
    /// Datagrams taken from the application.
    pub sent: u64,
    /// Datagrams that could not be sent: without a destination, or longer than any frame.
    pub refused: u64,
    /// Errors that the application was told of.
    pub errors: u64,
}

impl SocketStats {
    pub(crate) fn count_delivered(&self) {
        add(&self.delivered);
    }
    pub(crate) fn count_ring_full(&self) {
        add(&self.ring_full);
    }
    pub(crate) fn count_no_frame(&self) {
        add(&self.no_frame);
    }
    pub(crate) fn count_sent(&self) {
        add(&self.sent);
    }
    pub(crate) fn count_refused(&self) {
        add(&self.refused);
    }
    pub(crate) fn count_error(&self) {
        add(&self.errors);
    }

    /// The counters as they are now.
    pub fn counts(&self) -> SocketCounts {
        SocketCounts {
            delivered: self.delivered.load(Relaxed),
            ring_full: self.ring_full.load(Relaxed),
            no_frame: self.no_frame.load(Relaxed),
            sent: self.sent.load(Relaxed),
            refused: self.refused.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }
}

/// One writer, so no read-modify-write instruction is needed.
fn add(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl std::ops::AddAssign for SocketCounts {
    fn add_assign(&mut self, other: SocketCounts) {
        let SocketCounts { delivered, ring_full, no_frame, sent, refused, errors } = other;
        self.delivered += delivered;
        self.ring_full += ring_full;
        self.no_frame += no_frame;
        self.sent += sent;
        self.refused += refused;
        self.errors += errors;
    }
}
