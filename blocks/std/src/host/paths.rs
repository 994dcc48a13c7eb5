//! Path MTUs: one writer at a time, readers that do not lock.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use weever_block::Nanos;
use weever_net::pmtu::{Entry, PathMtuConfig, PathMtus, RecentSends, TooBig, TooBigReject, View};

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

    /// Learns from an ICMP error. Locks, and publishes the changes, if the error is about a packet
    /// that was sent recently; a forged one does not get so far.
    pub fn learn(&self, said: TooBig, link_mtu: u32, now: Nanos) -> Result<u32, TooBigReject> {
        if !self.recent.sent(&said.packet, now) {
            return Err(TooBigReject::NeverSent);
        }
        self.with(|table| table.learn(said, link_mtu, &self.recent, now))
    }

    /// Forgets the entries that are too old at `now`.
    pub fn poll(&self, now: Nanos) {
        self.with(|table| table.poll(now));
    }

    /// Forgets one destination, or all.
    pub fn forget(&self, dst: Option<IpAddr>) {
        self.with(|table| table.forget(dst));
    }

    /// The entries, by destination.
    pub fn entries(&self) -> Vec<Entry> {
        self.with(|table| table.entries())
    }

    fn with<T>(&self, change: impl FnOnce(&mut PathMtus) -> T) -> T {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let before = table.generation();
        let result = change(&mut table);
        if table.generation() != before {
            self.published.store(Arc::new(table.view()));
        }
        result
    }
}
