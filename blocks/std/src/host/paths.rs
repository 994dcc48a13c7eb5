//! Path MTUs: one writer at a time, readers that do not lock.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use weever_block::Nanos;
use weever_net::pmtu::{Entry, PathMtuConfig, PathMtus, RecentSends, TooBig, View};

use super::Secret;

/// A reader's handle: loaded once per burst.
pub(crate) type PathReader = arc_swap::Cache<Arc<ArcSwap<View>>, Arc<View>>;

/// The path MTUs of a host. Blocks find it in their [`Env`](weever_block::Env).
#[derive(Debug)]
pub struct Paths {
    table: Mutex<PathMtus>,
    published: Arc<ArcSwap<View>>,
    recent: RecentSends,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths::new(PathMtuConfig::default(), Secret::default())
    }
}

impl Paths {
    /// Nothing known.
    pub fn new(config: PathMtuConfig, secret: Secret) -> Paths {
        let recent = RecentSends::new(secret.key("recent sends"));
        let published = Arc::new(ArcSwap::from_pointee(View::default()));
        Paths { table: Mutex::new(PathMtus::new(config)), published, recent }
    }

    pub(crate) fn reader(&self) -> PathReader {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// The large packets that were sent recently.
    pub(crate) fn recent(&self) -> &RecentSends {
        &self.recent
    }

    /// Learns the path MTU from an ICMP error about a packet that was sent recently; `None`: it says nothing new, or it is
    /// forged. Does not wait: while another worker learns, a timer forgets old entries or the control thread reads, the error
    /// is as good as lost on its way, and the next large packet causes another.
    pub fn learn(&self, said: TooBig, link_mtu: u32, now: Nanos) -> Option<u32> {
        if !self.recent.sent(&said.packet, now) {
            return None;
        }
        self.change(self.try_lock()?, |table| table.learn(said, link_mtu, &self.recent, now)).ok()
    }

    /// Forgets the entries that are too old at `now`; at the next call, if somebody else has the table now.
    pub fn poll(&self, now: Nanos) {
        if let Some(table) = self.try_lock() {
            self.change(table, |table| table.poll(now));
        }
    }

    /// Forgets one destination, or all. Locks: not for workers.
    pub fn forget(&self, dst: Option<IpAddr>) {
        self.change(self.lock(), |table| table.forget(dst));
    }

    /// The entries, by destination. Locks: not for workers.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries()
    }

    /// Changes the table and publishes it.
    fn change<T>(
        &self,
        mut table: MutexGuard<'_, PathMtus>,
        change: impl FnOnce(&mut PathMtus) -> T,
    ) -> T {
        let before = table.generation();
        let result = change(&mut table);
        if table.generation() != before {
            self.published.store(Arc::new(table.view()));
        }
        result
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PathMtus> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`lock`](Self::lock), for workers; `None` while somebody else has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, PathMtus>> {
        match self.table.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(table)) => Some(table.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
