//! The handles by which other threads ask a host, command it and stop it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weever_block::Env;
use weever_blocks_std::host::{Neighbours, Neighbours6, Network};
use weever_engine::{self as engine, Lost, Pace, Publisher, Reading, Waker, Worker, WorkerStats};
use weever_link::LinkInfo;
use weever_packet::Pool;

use crate::FrameBudget;

/// The shared parts of a host, for any thread. Clones are of the same host; they may outlive it, and
/// then show its last state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostHandle {
    /// Interfaces, addresses, routes and settings; [`update`](Network::update) changes them.
    pub network: Arc<Network>,
    /// IPv4 neighbours.
    pub neighbours: Arc<Neighbours>,
    /// IPv6 neighbours.
    pub neighbours6: Arc<Neighbours6>,
    /// The graph, and changing it.
    pub publisher: Arc<Publisher>,
    /// The blocks' shared state.
    pub env: Arc<Env>,
    /// The links, by their numbers.
    pub links: Arc<[LinkInfo]>,
    /// The workers, in their order.
    pub workers: Arc<[WorkerHandle]>,
    /// The frames.
    pub pool: Pool,
    /// The division of the frames of all pools.
    pub budget: Arc<FrameBudget>,
    /// Ends [`RunningHost::wait`](crate::RunningHost::wait).
    pub stopper: Stopper,
}

impl HostHandle {
    /// The readings of each worker, by worker.
    pub fn readings(&self) -> Vec<Vec<Reading>> {
        self.workers.iter().map(|worker| worker.counters.describe()).collect()
    }

    /// The first failure of the first worker that had one.
    pub fn failure(&self) -> Option<String> {
        self.workers.iter().find_map(|worker| worker.failures().first().cloned())
    }
}

/// The shared parts of a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerHandle {
    /// Its name: `worker-0`.
    pub name: String,
    /// The core that its thread is bound to.
    pub core: Option<usize>,
    /// The queues it serves: the link's number and the queue's.
    pub queues: Vec<(u16, u16)>,
    /// The counters of its graph.
    pub counters: Arc<engine::Counters>,
    /// The counters of its loop and its queues.
    pub stats: Arc<WorkerStats>,
    /// How it waits for packets. Wake it after a change.
    pub pace: Arc<Pace>,
    /// Wakes its thread.
    pub waker: Waker,
    failures: Arc<Mutex<Vec<String>>>,
    /// The link of each queue that has failed.
    lost: Arc<Mutex<Vec<u16>>>,
}

impl WorkerHandle {
    pub(crate) fn new(
        name: String,
        core: Option<usize>,
        queues: Vec<(u16, u16)>,
        worker: &mut Worker,
    ) -> WorkerHandle {
        WorkerHandle {
            name,
            core,
            queues,
            counters: worker.engine().counters(),
            stats: worker.stats(),
            pace: worker.pace(),
            waker: worker.waker(),
            failures: Arc::default(),
            lost: Arc::default(),
        }
    }

    /// The failures so far, in order: queues that failed, a panic.
    pub fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the link of each queue of the worker that has failed.
    pub fn lost_queues(&self) -> Vec<u16> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A queue of it has failed.
    pub(crate) fn lost(&self, lost: &Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(lost.link);
        self.failed(lost.error.to_string());
    }

    pub(crate) fn failed(&self, why: String) {
        tracing::error!(worker = %self.name, "{why}");
        self.failures().push(why);
    }
}

/// Tells a host to stop, from any thread. Clones tell the same host.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Stopper {
    /// Has [`RunningHost::wait`](crate::RunningHost::wait) return. Does not block; a second call
    /// changes nothing.
    pub fn stop(&self) {
        let (told, waiting) = &*self.shared;
        *told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        waiting.notify_all();
    }

    /// Blocks until [`stop`](Self::stop) was called.
    pub fn wait(&self) {
        let (told, waiting) = &*self.shared;
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        drop(waiting.wait_while(told, |told| !*told).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Tells the host to stop when it is dropped.
#[derive(Debug)]
pub(crate) struct StopOnDrop(pub(crate) Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_whether_it_is_told_before_or_after() {
        let stopper = Stopper::default();
        let waiting = stopper.clone();
        let thread = std::thread::spawn(move || waiting.wait());
        stopper.stop();
        thread.join().unwrap();
        stopper.wait();
    }

    #[test]
    fn a_thread_that_panics_tells_it_too() {
        let stopper = Stopper::default();
        let guard = StopOnDrop(stopper.clone());
        let thread = std::thread::spawn(move || {
            let _guard = guard;
            panic!("meant to be");
        });
        stopper.wait();
        assert!(thread.join().is_err());
    }
}
