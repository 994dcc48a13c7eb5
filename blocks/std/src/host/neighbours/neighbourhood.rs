//! The neighbours of a host as its workers share them: state machines behind a lock, and copies that
//! are read without it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use weever_block::Nanos;
use weever_net::random::Key;

use super::super::{Network, Resolver};
use super::family::Family;
use super::family::NeighbourKey;
use super::links::Links;
use super::links::News;
use super::snapshot::{Reader, Snapshot};

/// The neighbours of one host on all its interfaces, shared by its workers. Changes in the host's
/// network is followed by their next user, the workers' timers at the latest.
#[derive(Debug)]
pub struct Neighbourhood<F: Family> {
    pub(super) secret: Key,
    pub(super) host: Arc<Network>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) inner: Mutex<Inner<F>>,
    pub(super) published: Arc<ArcSwap<Snapshot<F::Key>>>,
    /// The blocks at which packets wait for a neighbour, over all workers.
    pub(super) waiting: Arc<AtomicUsize>,
    /// Copies of guarded values, read without the lock.
    pub(super) news: AtomicU64,
    pub(super) wake: AtomicU64,
    pub(super) followed: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Inner<F: Family> {
    pub(super) family: F,
    pub(super) links: Links<F::Machine>,
    /// That of the links when they were published.
    pub(super) generation: u64,
    /// The generation of the host's network that the links are made for.
    pub(super) followed: u64,
    pub(super) news: News,
}

impl<F: Family> Neighbourhood<F> {
    /// The key that packets wait for a neighbour by.
    #[inline]
    pub(crate) fn wait_key(&self, of: F::Key) -> u64 {
        of.wait_key(self.secret)
    }

    /// The latest snapshot, to be read once per burst.
    pub(crate) fn reader(&self) -> Reader<F::Key> {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// The number of blocks at which packets wait for a neighbour, of all workers.
    pub(crate) fn waiting(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting)
    }

    /// Notes that packets begin to wait at a block, or that none waits there any more. A worker sees what its own
    /// blocks have noted; of others' it need not know.
    pub(crate) fn note_waiting(&self, waits: bool) {
        match waits {
            true => self.waiting.fetch_add(1, Ordering::Relaxed),
            false => self.waiting.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether something is due, `seen` is not the latest news, or the host's network has changed.
    /// Does not lock.
    pub(crate) fn is_due(&self, seen: u64, now: Nanos) -> bool {
        self.news.load(Ordering::Acquire) != seen
            || self.wake.load(Ordering::Acquire) <= now
            || self.followed.load(Ordering::Acquire) != self.host.generation()
    }

    /// As [`lock`](Self::lock), for workers; `None` while somebody else has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Inner<F>>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<F>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Family> Inner<F> {
    #[cold]
    pub(super) fn follow(&mut self, host: &Network, now: Nanos) {
        let state = host.state();
        let (news, secret) = (&mut self.news, self.family.secret());
        let given_up = |iface, ip| news.push(F::Key::new(iface, ip).wait_key(secret));
        self.family.follow(&mut self.links, &state, now, given_up);
        self.followed = state.generation();
    }
}
