//! The readers' copy: the neighbours whose link address is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use weever_wire::MacAddr;

use super::family::NeighbourKey;

/// A reader's handle to the latest snapshot, to be loaded once per burst.
pub(crate) type Reader<K> = arc_swap::Cache<Arc<ArcSwap<Snapshot<K>>>, Arc<Snapshot<K>>>;

/// The neighbours whose link address is known, at one moment. Never larger than the caches.
#[derive(Debug)]
pub(crate) struct Snapshot<K> {
    /// Ascending: a search has no worst case that a peer could construct.
    known: Box<[Known<K>]>,
}

#[derive(Debug)]
struct Known<K> {
    at: K,
    mac: MacAddr,
    /// Told to the cache at the next poll, which then keeps the entry fresh.
    used: AtomicBool,
}

impl<K> Default for Snapshot<K> {
    fn default() -> Self {
        Snapshot { known: Box::default() }
    }
}

impl<K: NeighbourKey> Snapshot<K> {
    /// Of neighbours in ascending order.
    pub(super) fn of(known: impl Iterator<Item = (K, MacAddr)>) -> Snapshot<K> {
        let unused = |(at, mac)| Known { at, mac, used: AtomicBool::new(false) };
        Snapshot { known: known.map(unused).collect() }
    }

    /// The link address of a neighbour, and a note that it was used.
    #[inline]
    pub(crate) fn find(&self, at: K) -> Option<MacAddr> {
        let found = self.known.binary_search_by_key(&at, |known| known.at).ok()?;
        let known = &self.known[found];
        // Reading first keeps the line shared among the workers that send to this neighbour.
        if !known.used.load(Ordering::Relaxed) {
            known.used.store(true, Ordering::Relaxed);
        }
        Some(known.mac)
    }

    /// Those that were used since the last call.
    pub(super) fn take_used(&self) -> impl Iterator<Item = K> {
        let used = |known: &&Known<K>| known.used.swap(false, Ordering::Relaxed);
        self.known.iter().filter(used).map(|known| known.at)
    }

    /// Takes over the notes of use from the snapshot that this one replaces.
    pub(super) fn inherit(&self, old: &Snapshot<K>) {
        for known in old.known.iter().filter(|known| known.used.load(Ordering::Relaxed)) {
            self.find(known.at);
        }
    }
}
