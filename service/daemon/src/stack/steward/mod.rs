//! Policies carried out: which worker gets which flow.
//!
//! ```text
//! policy, flows ─ Intent ─► Search ── changes ──► XdpSteering ─► the device's program
//! services ─────────────────► ▲    │                                 │ flows without a filter,
//!                             ├──── due ◄── Watch ◄─────────────────┘ hits
//!                             │    └─ plan ──► NicSteering ─► the NIC's own filters
//!                             └───── refused ◄──────┘
//! ```
//! An [`Intent`] is what the files say, checked before anything is touched. A [`Steward`] keeps one
//! device to it: queue *i* of the device, a software queue or with `nic` set one of its own, is worker *i*, whose graph is made for what the filters
//! send there. All stewards share a thread.

mod error;
mod filters;
mod intent;
mod kept;
mod means;
mod nic;
mod report;
#[cfg(test)]
mod tests;
mod tuple;
mod work;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weever_engine::monotonic;

use super::program::Program;

pub use error::PolicyError;
pub(super) use intent::Intent;
pub(super) use kept::Kept;
pub(super) use nic::Ready;
pub(super) use work::Steward;

/// How long a new flow waits to be looked at.
const PERIOD: Duration = Duration::from_millis(20);
/// Of the thread's time, work takes one part of so many at most.
const REST: u32 = 10;

/// The stewards of all devices, for those who want to know of them.
#[derive(Default)]
pub(super) struct Stewards {
    all: Mutex<Vec<Steward>>,
}

impl Stewards {
    pub(super) fn new(all: Vec<Steward>) -> Stewards {
        Stewards { all: Mutex::new(all) }
    }

    /// Each step of a steward leaves it whole as far as reports go.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Steward>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the devices.
    pub(super) fn close(&self) {
        self.lock().clear();
    }
}

/// The thread of the stewards. Dropping it ends it, and the devices are let go.
pub(super) struct Routine {
    stewards: Arc<Stewards>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Routine {
    /// Starts the thread. The services are those of `program`, as they come and go.
    pub(super) fn start(
        stewards: Arc<Stewards>,
        program: Arc<Mutex<Program>>,
    ) -> io::Result<Routine> {
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        let (told, at_work) = (Arc::clone(&stop), Arc::clone(&stewards));
        let work = move || attend(&at_work, &program, &told);
        let thread = thread::Builder::new().name("steward".into()).spawn(work)?;
        Ok(Routine { stewards, stop, thread: Some(thread) })
    }
}

impl Drop for Routine {
    fn drop(&mut self) {
        let (stopped, told) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so; what it has told the devices stays.
            drop(thread.join());
        }
        self.stewards.close();
    }
}

fn attend(stewards: &Stewards, program: &Mutex<Program>, stop: &(Mutex<bool>, Condvar)) {
    loop {
        let began = Instant::now();
        let services = program.lock().unwrap_or_else(PoisonError::into_inner).services();
        let mut fitting = Duration::ZERO;
        for steward in stewards.lock().iter_mut() {
            steward.step(monotonic(), &services);
            fitting += Duration::from_nanos(steward.take_fitting());
        }
        // Graphs are made seldom, and mostly that is waiting for the workers.
        let worked = began.elapsed().saturating_sub(fitting);
        let pause = PERIOD.max(REST * worked + fitting);
        let (stopped, told) = stop;
        let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = told.wait_timeout_while(stopped, pause, |stopped| !*stopped);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}
