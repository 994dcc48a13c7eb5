//! Changes of the network that workers ask for. Laying out the tables of routes takes long where there are many, and
//! a worker has packets to serve: where a host has a thread for it, that makes the changes.
//!
//! ```text
//!  worker ── try_changes ──► Changes ──► Desk ──► Clerk (a thread) ──► Network
//!                               └──────────── without a clerk ────────────┘
//! ```

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weever_net::state::NetConfig;

use super::Network;
use super::state::{Writer, try_lock};

type Change = Box<dyn FnOnce(&mut NetConfig) + Send>;

/// What workers have asked for.
#[derive(Default)]
pub(super) struct Desk {
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
