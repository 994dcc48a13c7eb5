//! The host's network: one writer at a time, readers that do not lock (design/0000 §4.4).
//!
//! Workers ask for changes. Laying out the tables of routes takes long where there are many, and a worker has packets to
//! serve: where a host has a thread for it, that makes the changes.
//!
//! ```text
//!  worker ── try_changes ──► Changes ──► Desk ──► Clerk (a thread) ──► Network
//!                               └──────────── without a clerk ────────────┘
//! ```

use std::convert::Infallible;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use weever_net::state::{NetConfig, NetState};

/// A reader's handle to the latest state: loaded once per burst, never per packet.
pub type StateReader = arc_swap::Cache<Arc<ArcSwap<NetState>>, Arc<NetState>>;

/// The network of one host, shared by its workers. Blocks find it in their
/// [`Env`](weever_block::Env); changes by [`update`](Network::update) hold from their next burst
/// on.
#[derive(Debug)]
pub struct Network {
    published: Arc<ArcSwap<NetState>>,
    /// A copy of the published state's, for a glance that touches nothing else.
    generation: AtomicU64,
    writer: Mutex<()>,
    /// Where workers leave their changes, if a thread makes these.
    desk: Desk,
}

impl Network {
    /// A host with this network.
    pub fn new(config: NetConfig) -> Network {
        let published = Arc::new(ArcSwap::from_pointee(NetState::new(config, 1)));
        let (generation, writer) = (AtomicU64::new(1), Mutex::new(()));
        Network { published, generation, writer, desk: Desk::default() }
    }

    /// The network as it is now.
    pub fn state(&self) -> Arc<NetState> {
        self.published.load_full()
    }

    /// A number that grows with every change. Does not lock.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The latest state, to be loaded once per burst.
    pub fn reader(&self) -> StateReader {
        arc_swap::Cache::new(Arc::clone(&self.published))
    }

    /// Publishes the network as changed by `change`, as a whole; nothing if it fails. Waits for
    /// another writer to finish, and allocates: not for workers. `change` must not call this.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn update<T, E>(
        &self,
        change: impl FnOnce(&mut NetConfig) -> Result<T, E>,
    ) -> Result<T, E> {
        self.writer().update(change)
    }

    /// Waits until nobody else changes the network.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Writer { network: self, _turn: turn }
    }

    /// `None` while somebody else changes the network.
    fn try_writer(&self) -> Option<Writer<'_>> {
        Some(Writer { network: self, _turn: try_lock(&self.writer)? })
    }
}

/// Does not wait; `None` while somebody else has it.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(inner) => Some(inner),
        Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The right to change a host's network, which one thread has at a time.
pub(crate) struct Writer<'a> {
    network: &'a Network,
    _turn: MutexGuard<'a, ()>,
}

impl Writer<'_> {
    /// As [`Network::update`], but does not wait.
    pub(crate) fn update<T, E>(
        &mut self,
        change: impl FnOnce(&mut NetConfig) -> Result<T, E>,
    ) -> Result<T, E> {
        let old = self.network.published.load();
        let mut config = old.config().clone();
        let done = change(&mut config)?;
        if config != *old.config() {
            let next = old.next(config);
            let generation = next.generation();
            self.network.published.store(Arc::new(next));
            self.network.generation.store(generation, Ordering::Release);
        }
        Ok(done)
    }

    /// The same with a change that cannot fail.
    pub(crate) fn apply<T>(&mut self, change: impl FnOnce(&mut NetConfig) -> T) -> T {
        let Ok(done) = self.update(|net| Ok::<T, Infallible>(change(net)));
        done
    }
}

type Change = Box<dyn FnOnce(&mut NetConfig) + Send>;

/// What workers have asked for.
#[derive(Default)]
struct Desk {
    asked: Mutex<Asked>,
    bell: Condvar,
}

#[derive(Default)]
struct Asked {
    /// In the order of asking.
    changes: Vec<Change>,
    /// Whether there is a clerk.
    is_attended: bool,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's changes of the network: made by a clerk soon, or, without one, at once.
pub(crate) struct Changes<'a>(Made<'a>);

enum Made<'a> {
    Now(Writer<'a>),
    Soon(&'a Desk, MutexGuard<'a, Asked>),
}

impl Changes<'_> {
    /// Asks for a change. They are made in the order of asking, whoever asks.
    pub(crate) fn ask(&mut self, change: impl FnOnce(&mut NetConfig) + Send + 'static) {
        match &mut self.0 {
            Made::Now(writer) => writer.apply(change),
            Made::Soon(_, asked) => asked.changes.push(Box::new(change)),
        }
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        if let Made::Soon(desk, asked) = &self.0
            && !asked.changes.is_empty()
        {
            desk.bell.notify_one();
        }
    }
}

impl Network {
    /// For workers, which do not wait: the right to ask for changes. `None` while somebody else asks, or, without a
    /// [clerk](Clerk), changes the network.
    pub(crate) fn try_changes(&self) -> Option<Changes<'_>> {
        let asked = try_lock(&self.desk.asked)?;
        match asked.is_attended {
            true => Some(Changes(Made::Soon(&self.desk, asked))),
            false => self.try_writer().map(|writer| Changes(Made::Now(writer))),
        }
    }
}

/// Makes the changes of a host's network that its workers ask for, on a thread of its own. Without one, a worker that
/// asks for a change makes it itself.
#[derive(Debug)]
pub struct Clerk {
    network: Arc<Network>,
}

impl Clerk {
    /// Workers leave their changes to it from now on, so [`work`](Self::work) has to be called.
    pub fn of(network: Arc<Network>) -> Clerk {
        network.desk.lock().is_attended = true;
        Clerk { network }
    }

    /// Makes changes until the clerk is [dismissed](Self::dismiss). Blocks.
    pub fn work(self) {
        let desk = &self.network.desk;
        loop {
            let idle = |asked: &mut Asked| asked.is_attended && asked.changes.is_empty();
            let asked = desk.bell.wait_while(desk.lock(), idle);
            let mut asked = asked.unwrap_or_else(PoisonError::into_inner);
            if asked.changes.is_empty() {
                return;
            }
            let changes = mem::take(&mut asked.changes);
            drop(asked);
            // All at once: the tables are laid out once.
            self.network.writer().apply(|net| changes.into_iter().for_each(|change| change(net)));
        }
    }

    /// Ends the work of a network's clerk, if it has one, once it has made the changes that were asked for. Does not wait.
    pub fn dismiss(network: &Network) {
        network.desk.lock().is_attended = false;
        network.desk.bell.notify_all();
    }
}

impl Drop for Clerk {
    /// Also where a change has panicked.
    fn drop(&mut self) {
        Clerk::dismiss(&self.network);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::frames::{HOST, HOST_MAC};
    use weever_net::iface::IfaceId;
    use weever_net::state::StateError;

    #[test]
    fn a_change_is_seen_by_readers_and_a_refused_one_is_not() {
        let host = Network::new(NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]));
        let mut reader = host.reader();
        assert!(reader.load().is_ours(HOST));
        let link = IfaceId(0);
        let refused: Result<(), StateError> = host.update(|net| {
            net.set_mtu(link, 9000)?;
            net.set_mtu(link, 1)
        });
        assert!(refused.is_err());
        assert_eq!((reader.load().interface(link).unwrap().mtu, host.generation()), (1500, 1));
        host.update(|net| net.remove_address(link, HOST)).unwrap();
        assert!(!reader.load().is_ours(HOST));
        assert_eq!((host.generation(), host.state().generation()), (2, 2));
        host.update(|net| net.set_mtu(link, 1500)).unwrap();
        assert_eq!(host.generation(), 2, "nothing has changed");
    }
}
