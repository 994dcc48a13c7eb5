//! Workers that have lost their devices: the state of flows goes to a worker that has one.
//!
//! Packets of such a worker's flows arrive at others from then on, if anywhere. Each would be handed over, to a
//! worker that has nothing else to do.

use std::time::Duration;

use weever_blocks_std::socket::Applications;
use weever_engine::Moved;

use crate::{HostHandle, WorkerHandle};

/// A worker that has no device any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relieved {
    /// Its name.
    pub worker: String,
    /// The name of the worker that goes on with its flows.
    pub by: String,
    /// The result: flows that were there, and what has become of them.
    pub flows: Moved,
}

impl HostHandle {
    /// Has every worker whose device queues have all failed give its flows to workers that still have one: those of
    /// each node to the first that has the node in its part of the graph.
    /// Returns those of which some have gone. Blocks until they have moved, at most `patience` for each worker; the
    /// workers need their threads.
    pub fn relieve(&self, patience: Duration) -> Vec<Relieved> {
        let applications = self.env.get::<Applications>().map(|there| there.link);
        let is_device = |link: &u16| Some(*link) != applications;
        let lost =
            |worker: &WorkerHandle| worker.lost_queues().into_iter().filter(is_device).count();
        let at_work = |worker: &WorkerHandle| {
            let links = worker.queues.iter().map(|(link, _)| *link);
            links.filter(is_device).count() > lost(worker)
        };
        let workers = || (0u16..).zip(self.workers.iter());
        let able = workers().filter(|(_, worker)| at_work(worker)).map(|(number, _)| number);
        let parts: Vec<_> = able
            .filter_map(|number| Some((number, self.publisher.executed(number.into())?)))
            .collect();
        let taker = |node: &str| {
            parts.iter().find(|(_, part)| part.find(node).is_some()).map(|(number, _)| *number)
        };
        let cut_off = |worker: &WorkerHandle| lost(worker) > 0 && !at_work(worker);
        let relieved =
            workers().filter(|(_, worker)| cut_off(worker)).flat_map(|(from, worker)| {
                let moved = self.publisher.give_up_flows(from, taker, patience).unwrap_or_default();
                let moved = moved.into_iter().filter(|(_, flows)| flows.moved > 0);
                moved.map(|(to, flows)| {
                    let by = self.workers[usize::from(to)].name.clone();
                    Relieved { worker: worker.name.clone(), by, flows }
                })
            });
        relieved.collect()
    }
}
