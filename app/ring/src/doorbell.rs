//! Whether a side sleeps, so that the other makes a system call only when it has to.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU32, Ordering, fence};

/// A flag in shared memory that the sleeper arms and the waker takes.
///
/// The sleeper: [`arm`](Self::arm), look at the ring again, sleep on the descriptor only if it is
/// still empty, then [`disarm`](Self::disarm). The waker: publish, then write to the descriptor if
/// [`take`](Self::take) says so. A hostile peer can only cause wake-ups that are not needed, or
/// sleep through its own traffic.
#[derive(Clone, Copy)]
pub struct Doorbell<'m>(&'m CachePadded<AtomicU32>);

impl<'m> Doorbell<'m> {
    /// A doorbell over a word of shared memory.
    pub fn new(word: &'m CachePadded<AtomicU32>) -> Doorbell<'m> {
        Doorbell(word)
    }

    /// Announces that this side is about to sleep. Look at the ring again after it.
    pub fn arm(&self) {
        self.0.store(1, Ordering::Relaxed);
        // Pairs with the fence in `take`: either the waker sees the flag, or the sleeper, which looks
        // at the ring after this, sees the entries that the waker published before its fence.
        fence(Ordering::SeqCst);
    }

    /// This side is awake again.
    pub fn disarm(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// After publishing: whether the other side sleeps and has to be woken, by this caller and
    /// nobody else.
    #[inline]
    pub fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}
