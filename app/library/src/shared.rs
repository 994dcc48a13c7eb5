//! What the threads of a stack share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_app_server::AppServer;
use weever_app_sockets::Error;
use weever_engine::Lost;
use weever_host::{Host, HostHandle};

use crate::seat::{Keeper, Seat};

/// Dropped in this order: nobody turns a worker whose link is gone.
pub(crate) struct Shared {
    pub(crate) keepers: Vec<Keeper>,
    /// Seats that no queue has.
    pub(crate) free: Mutex<Vec<usize>>,
    pub(crate) seats: Vec<Arc<Seat>>,
    pub(crate) server: Mutex<AppServer>,
    /// Whether a device's queue has failed.
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) handle: HostHandle,
    /// Only to keep the links open.
    pub(crate) _host: Mutex<Host>,
}

impl Shared {
    pub(crate) fn note(&self, lost: Vec<Lost>) {
        lost.iter().for_each(|lost| fail(&self.failed, lost));
    }

    /// An error once a device has failed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Relaxed) { Err(Error::Disconnected) } else { Ok(()) }
    }
}

/// Notes that a device's queue is gone.
pub(crate) fn fail(failed: &AtomicBool, lost: &Lost) {
    tracing::error!("a queue of the stack in this process has failed: {}", lost.error);
    failed.store(true, Ordering::Relaxed);
}

/// The value behind a lock, whether a thread has panicked with it or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
