//! A host whose workers have no threads.

use weever_engine::Worker;
use weever_link::Link;
use weever_packet::Nanos;

use crate::{HostError, HostHandle, RunningHost};

/// A host that is ready to run. [`start`](Self::start) gives each worker a thread; or call
/// [`step`](Self::step) with a clock of your own. Dropping it closes its links.
pub struct Host {
    // Before the links, whose queues they hold.
    pub(crate) workers: Vec<Worker>,
    pub(crate) links: Vec<Box<dyn Link>>,
    pub(crate) handle: HostHandle,
}

impl Host {
    /// The handle by which other threads ask and command it.
    pub fn handle(&self) -> &HostHandle {
        &self.handle
    }

    /// Starts a thread for each worker, bound to its core if cores were given. The clock is the
    /// system's from then on: the host must have been built with
    /// [`monotonic`](weever_engine::monotonic) as the time.
    ///
    /// # Errors
    /// [`HostError::Thread`], [`HostError::Core`]; no thread is left behind.
    pub fn start(self) -> Result<RunningHost, HostError> {
        RunningHost::start(self.workers, self.links, self.handle)
    }

    /// Has every worker take one turn: receive, run the graph, send. `now` must not go back. True if
    /// there may be more to do at this instant. A queue that fails is let go of, and the failure is
    /// in the [handle](HostHandle::failure).
    pub fn step(&mut self, now: Nanos) -> bool {
        let mut is_busy = false;
        for (worker, handle) in self.workers.iter_mut().zip(self.handle.workers.iter()) {
            let turn = worker.turn(now);
            turn.lost.iter().for_each(|lost| handle.failed(lost.error.to_string()));
            is_busy |= !turn.is_idle() || !worker.engine().idle();
        }
        is_busy
    }

    /// When [`step`](Self::step) has to be called at the latest for the sake of timers and of links
    /// that delay; `None`: when a packet arrives.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.workers.iter().filter_map(Worker::next_deadline).min()
    }

    /// A worker, by its number, to put packets into its engine by hand.
    ///
    /// Panics when there is no worker of this number.
    pub fn worker(&mut self, number: usize) -> &mut Worker {
        &mut self.workers[number]
    }

    /// Takes the workers out, to run each on a thread of your own. The links stay open for as long as
    /// the host is kept.
    pub fn take_workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.workers)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.handle.links.iter().map(|link| link.name.as_str()).collect();
        write!(f, "Host({} workers on {})", self.workers.len(), names.join(", "))
    }
}
