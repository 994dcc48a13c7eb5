//! Policies on the stack's devices.
//!
//! ```text
//!  configuration ── PolicySetup ──► Steward (weever-steward), one for each device
//!  services, applications ───────────► │  ▲
//!                                      │  └──► XDP program or NIC
//!                                      └─────► WorkerReceivers: graphs and wait modes
//! ```
//! A [`PolicySetup`] is the content of the files, checked before anything is touched. A [`Steward`]
//! keeps one device to it. Queue *i* of the device (a software queue, or with `nic` set one of its own)
//! is worker *i*'s, whose graph is made for the packets that the filters send there. All stewards share
//! a thread.

mod applications;
mod filters;
mod moves;
mod reload;
pub(super) mod report;
mod setup;
mod sharing;
mod start;
#[cfg(test)]
mod tests;
mod workers;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weever_app_server::AppServer;
use weever_engine::monotonic;
use weever_steward::StewardThread;

use crate::stack::graph::program::Program;
use applications::ApplicationSockets;

pub(super) use applications::plan_limits;
pub use reload::PolicyReloader;
pub(super) use setup::PolicySetup;
pub(super) use sharing::QueueSharing;
pub(super) use start::{PreparedNic, on_nic, on_program};
pub(super) use weever_steward::{SharedNicSteering, Steward};
pub(super) use workers::{WaitModes, WorkerReceivers, wait_mode, wait_mode_name};

/// The stewards of all devices, shared with control requests that report their state.
#[derive(Default)]
pub(super) struct Stewards {
    all: Mutex<Vec<Steward>>,
    /// How often they went on with another policy.
    reloads: AtomicU64,
}

impl Stewards {
    pub(super) fn new(all: Vec<Steward>) -> Stewards {
        Stewards { all: Mutex::new(all), ..Stewards::default() }
    }

    /// Each step of a steward leaves it whole as far as reports go.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Steward>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread of the stewards. Dropping it ends the thread and undoes the changes to devices.
pub(super) struct Routine {
    stewards: Arc<Stewards>,
    thread: Option<StewardThread>,
}

impl Routine {
    /// Starts the thread. The services are those of `program`, and the applications those of `server`, as they
    /// come and go. `sharing` is that of each steward's device.
    pub(super) fn start(
        stewards: Arc<Stewards>,
        program: Arc<Mutex<Program>>,
        mut sharing: Vec<Option<QueueSharing>>,
        server: Option<Arc<Mutex<AppServer>>>,
    ) -> io::Result<Routine> {
        let stepped = Arc::clone(&stewards);
        let sockets = ApplicationSockets::new(server);
        let mut registered = None;
        let step = move || {
            let services = program.lock().unwrap_or_else(PoisonError::into_inner).services();
            let reloads = stepped.reloads.load(Ordering::Acquire);
            let now = (services, reloads, sockets.changes(), sockets.plans());
            let before = registered.replace(now);
            let are_new = before != Some(now);
            let is_asked_for = before.is_some_and(|(.., plans)| plans != now.3);
            let known = || {
                let mut flows = setup::service_flows(&services);
                flows.extend(sockets.flows());
                flows
            };
            let flows = are_new.then(known).unwrap_or_default();
            let mut waited = Duration::ZERO;
            let (mut all, mut sharing) = (stepped.lock(), sharing.iter_mut());
            for steward in all.iter_mut() {
                if are_new {
                    steward.set_services(flows.clone());
                }
                if is_asked_for {
                    steward.search_again();
                }
                // It has logged the failure, and tries again.
                drop(steward.step(monotonic()));
                waited += steward.take_receivers_time();
                if let Some(Some(sharing)) = sharing.next() {
                    sharing.step(steward, monotonic());
                }
            }
            waited
        };
        Ok(Routine { stewards, thread: Some(StewardThread::start(step)?) })
    }
}

impl Drop for Routine {
    fn drop(&mut self) {
        drop(self.thread.take());
        self.stewards.lock().clear();
    }
}
