//! The workers of one stack, and changing their graph while they run.
//!
//! [`Team::build`] makes one worker per member, all with the same graph. Each is run by its own
//! thread. The [`Publisher`] stays with the thread that controls the stack: it holds the graph and
//! publishes the next one to all workers or to none. With [`Publisher::fit`], every worker but the
//! first runs only the part of the graph that its packets need. Changes refer to the whole graph;
//! node names, entry numbers and dispatch points mean the same on every worker.

mod error;
mod flows;
mod next;
mod orders;
mod partition;
mod publisher;
mod reroute;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rtrb::RingBuffer;
use weever_block::{Env, Registry};
use weever_graph::Graph;
use weever_link::LinkQueue;
use weever_packet::PoolCache;

use crate::interpreter::{Message, PeerSender, Peers};
use crate::mailbox::Doorbell;
use crate::quiet::Quiet;
use crate::schedule::{
    self, BlockMaker, CompileOptions, CompiledGraph, EntryNumbers, Homes, Idps, Places,
};
use crate::slots::Slots;
use crate::{Attached, Engine, Limits, Schedule, Worker};
pub use error::TeamError;
pub use orders::{FlowLists, FlowMoves};
pub use partition::Fit;
use partition::{Running, WorkerHandle, annotate_and_verify, partition};
pub use publisher::{Published, Publisher};

/// A queue that a member serves.
pub struct MemberQueue {
    /// The link's number, below [`Limits::links`](crate::Limits::links).
    pub link: u16,
    /// The name of the node where its packets start.
    pub source: String,
    /// The queue.
    pub queue: Box<dyn LinkQueue>,
}

/// The description of a worker.
pub struct Member {
    /// Its name in errors.
    pub name: String,
    /// The cache that it takes frames from.
    pub pool: PoolCache,
    /// Its bounds.
    pub limits: Limits,
    /// Its queues. The first member is the default worker, which runs single-homed nodes.
    pub queues: Vec<MemberQueue>,
}

/// Workers that run one graph, or parts of it.
#[derive(Debug)]
pub struct Team {
    /// In the order of the members. Move each to a thread of its own.
    pub workers: Vec<Worker>,
    /// Changes the graphs that they run.
    pub publisher: Arc<Publisher>,
}

impl Team {
    /// Compiles `graph` and makes a worker of each member. Blocks are made with `registry` and
    /// `env`, now and at every later change. The workers have their first tasks (`init`) queued and
    /// no thread yet.
    ///
    /// An unsound graph, a node without an implementation, or a queue whose start node does not
    /// exist; each error names the culprit.
    ///
    /// With several members, every worker has its own block for each node. Packets stay on the
    /// worker that received them, except at nodes with a single home: types with single-homed state
    /// run on the first member, nodes with the attribute `worker=N` on member N. Packets for these
    /// are handed over.
    pub fn build(
        graph: Graph,
        registry: Registry,
        env: Arc<Env>,
        members: Vec<Member>,
    ) -> Result<Team, TeamError> {
        if members.is_empty() {
            return Err(TeamError::Empty);
        }
        let mut idps = Idps::new();
        let registry = registry.with(&[&schedule::TO, &schedule::FROM]);
        let homes = Homes { workers: members.len() as u16 };
        let logical = annotate_and_verify(graph, &registry)?;
        let physical = partition(&logical, &registry, homes)?;
        let numbers = EntryNumbers::next(&EntryNumbers::default(), &[&physical], &registry, &[]);
        let places = Arc::new(Places::next(&Places::default(), &[&physical]));
        let (whole, previous, mut slots) = (None, None, Slots::new());
        let options = CompileOptions { numbers: &numbers, places: &places, homes, whole, previous };
        let plan = CompiledGraph::compile(physical, &registry, &mut idps, &mut slots, options)?;
        let links: Vec<Vec<u16>> =
            members.iter().map(|m| m.queues.iter().map(|q| q.link).collect()).collect();
        let count = members.iter().map(|m| m.limits.links).max().unwrap_or(1);
        let plan = Arc::new(plan);
        let maker = Arc::new(BlockMaker { registry, env: Env::clone(&env) });
        let (mut workers, mut handles) = (Vec::new(), Vec::new());
        for mut member in members {
            member.limits.links = count;
            let schedule = Schedule::of(plan.clone(), maker.clone())?;
            let (worker, handle) = handle(member, schedule)?;
            workers.push(worker);
            handles.push(handle);
        }
        connect(&mut workers, &links, count);
        let quiet = Arc::new(Quiet::new(workers.len()));
        workers.iter_mut().for_each(|worker| worker.pause_with(quiet.clone()));
        // Only now, as `init` nodes run where their home is.
        workers.iter_mut().for_each(|worker| worker.engine().start());
        let plans = vec![plan; handles.len()];
        let cells = workers.iter_mut().map(|worker| worker.engine().cells()).collect();
        let running = Running { logical, plans, idps, slots, cells, epoch: 0 };
        let publisher = Publisher::new(handles, maker, homes, running, quiet);
        Ok(Team { workers, publisher: Arc::new(publisher) })
    }
}

fn handle(member: Member, schedule: Schedule) -> Result<(Worker, WorkerHandle), TeamError> {
    let Member { name, pool, limits, queues } = member;
    let engine = Engine::new(schedule, pool, limits);
    let sources = queues.iter().map(|q| (q.link, q.source.clone())).collect();
    let attach = |queue| attach(&name, &engine, queue);
    let attached = queues.into_iter().map(attach).collect::<Result<_, _>>()?;
    let failed = |source| TeamError::Worker { worker: name.clone(), source };
    let mut worker = Worker::new(engine, attached).map_err(failed)?;
    let (mailbox, waker) = (worker.join_team(), worker.waker());
    let moves = worker.engine().move_inbox();
    Ok((worker, WorkerHandle { name, mailbox, waker, moves, sources }))
}

fn attach(worker: &str, engine: &Engine, queue: MemberQueue) -> Result<Attached, TeamError> {
    let MemberQueue { link, source, queue } = queue;
    match engine.entry(&source) {
        Some(entry) => Ok(Attached { link, entry, queue }),
        None => Err(TeamError::NoSource { worker: worker.into(), link, node: source }),
    }
}

/// The fewest messages in one ring.
const MIN_RING: usize = 16;

/// Connects every worker with every other by a ring in each direction. `links`: the links that each
/// worker serves; `count`: the number of links.
fn connect(workers: &mut [Worker], links: &[Vec<u16>], count: u16) {
    let n = workers.len();
    if n < 2 {
        return;
    }
    let capacity = capacity(workers);
    let bells: Vec<Arc<Doorbell>> = workers.iter().map(Worker::doorbell).collect();
    let mut senders: Vec<Vec<Option<PeerSender>>> = (0..n).map(|_| Vec::new()).collect();
    let mut receivers: Vec<Vec<Option<rtrb::Consumer<Message>>>> =
        (0..n).map(|_| Vec::new()).collect();
    for (from, senders) in senders.iter_mut().enumerate() {
        for (to, receivers) in receivers.iter_mut().enumerate() {
            let (producer, consumer) = RingBuffer::new(capacity);
            let other = from != to;
            senders.push(other.then(|| PeerSender::new(producer, bells[to].clone())));
            // Filled in the order of senders, so that the index is the sender.
            receivers.push(other.then_some(consumer));
        }
    }
    let ends = senders.into_iter().zip(receivers);
    for (me, (worker, (senders, receivers))) in workers.iter_mut().zip(ends).enumerate() {
        let link_workers = (0..count).map(|link| worker_for_link(link, me, links)).collect();
        worker.engine().connect(Peers::new(me as u16, senders, receivers, link_workers));
    }
}

/// The worker that sends on `link` for worker `me`: itself, or the next one that serves the link,
/// so that not all load falls on one.
fn worker_for_link(link: u16, me: usize, links: &[Vec<u16>]) -> Option<u16> {
    let n = links.len();
    let mut workers = (0..n).map(|i| (me + i) % n);
    workers.find(|worker| links[*worker].contains(&link)).map(|worker| worker as u16)
}

/// All rings together hold at most an eighth of the frames.
fn capacity(workers: &mut [Worker]) -> usize {
    let rings = workers.len() * (workers.len() - 1);
    let engine = workers[0].engine();
    let frames = engine.pool().pool().frames();
    (frames / 8 / rings).min(engine.limits().ring).max(MIN_RING)
}
