//! The order in which packets leave again that several threads received from one ring.

use std::ops::Range;

use crossbeam_utils::CachePadded;

use crate::parts::{AtomicU64, Ordering};

/// The order of departure of what several threads claim from one ring.
///
/// Each claim is a batch: a range of the ring's positions, which never repeat. Batches are processed side by side, and leave in
/// the order of their positions: a thread asks [`may_leave`](Self::may_leave) until it says yes, sends, and
/// calls [`left`](Self::left). Nobody is blocked: a thread that may not send yet does other things meanwhile. If nothing leaves
/// for as long as its patience lasts, it sends without those before it, whose order is then given up and counted. So a
/// thread that is stopped with a batch in hand delays the others once, and by nothing later, since it has one batch.
///
/// A thread has one batch in hand, of whichever ring: with two, threads could wait for each other.
pub struct Departures {
    /// What is below has left, or nobody waits for it any more.
    next: CachePadded<AtomicU64>,
    given_up: AtomicU64,
}

/// The place of a batch that a thread has claimed and not sent yet.
#[derive(Debug)]
#[must_use = "others wait until it has left"]
pub struct Ticket {
    positions: Range<u64>,
    /// For which position it waits, and since when.
    waits: Option<(u64, u64)>,
}

impl Ticket {
    /// Of these positions of the ring, as they were claimed.
    pub fn new(positions: Range<u64>) -> Ticket {
        Ticket { positions, waits: None }
    }

    /// When its thread loses its patience, if it was refused when it asked last and nothing leaves until then.
    pub fn leaves_by(&self, patience: u64) -> Option<u64> {
        self.waits.map(|(_, since)| since.saturating_add(patience))
    }
}

impl Departures {
    /// From this position of the ring on.
    pub fn new(position: u64) -> Departures {
        Departures { next: CachePadded::new(AtomicU64::new(position)), given_up: AtomicU64::new(0) }
    }

    /// Whether all before the batch has left; or nothing has for as long as `patience` says, in units of `now`, while it
    /// was asked for again and again.
    #[inline]
    pub fn may_leave(&self, ticket: &mut Ticket, now: u64, patience: u64) -> bool {
        let start = ticket.positions.start;
        let next = self.next.load(Ordering::Acquire);
        if next >= start {
            ticket.waits = None;
            return true;
        }
        let waits = ticket.waits.filter(|(position, _)| *position == next);
        let (_, since) = *ticket.waits.insert(waits.unwrap_or((next, now)));
        if now.saturating_sub(since) < patience {
            return false;
        }
        ticket.waits = None;
        self.pass(start);
        true
    }

    /// The batch has been sent: the next one may leave.
    #[inline]
    pub fn left(&self, ticket: Ticket) {
        let Range { start, end } = ticket.positions;
        self.pass(start);
        self.raise(end);
    }

    /// What is claimed from now on waits for nothing that was claimed before this position of the ring.
    pub fn restart(&self, position: u64) {
        self.raise(position);
    }

    /// How often a batch left although not all before it had.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Waits no longer for what is before `start`.
    #[inline]
    fn pass(&self, start: u64) {
        if self.raise(start) {
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Says whether it was below.
    #[inline]
    fn raise(&self, position: u64) -> bool {
        let mut next = self.next.load(Ordering::Acquire);
        while next < position {
            let raised = self.next.compare_exchange_weak(
                next,
                position,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match raised {
                Ok(_) => return true,
                Err(now) => next = now,
            }
        }
        false
    }
}
