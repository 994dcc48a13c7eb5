//! The state of a batch while it walks the graph, and its end: each buffer goes where a node
//! requested, and buffers that no node claimed are freed.

use weever_block::{Block, FlowKey, FlowOwners, Priority, Requests, Ways};
use weever_packet::{Burst, Mask, Nanos, bits, number_of};

use super::course::Fresh;
use super::runtime::Runtime;
use super::task_queues::{Batch, Task};
use super::waiting::Delayed;
use crate::Limits;
use crate::counters::Cells;
use crate::faults::Loss;
use crate::schedule::{Entry, NO_NODE, Program, TaskMasks};
use crate::slots::{Counter, total};

/// The destination of claimed buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Spawn {
        entry: Entry,
        priority: Priority,
    },
    /// A task that starts later.
    Later {
        entry: Entry,
        delay: Nanos,
    },
    /// A spawn edge to a node that is at home on another worker.
    Elsewhere {
        entry: Entry,
        priority: Priority,
    },
    Transmit {
        link: u16,
    },
    Collect {
        node: u32,
    },
    Block {
        node: u32,
        key: u64,
    },
    /// The worker that owns the task's flow.
    Owner {
        entry: Entry,
        worker: u16,
    },
    /// Until the state of the task's flow has arrived.
    Hold {
        node: u32,
        key: FlowKey,
    },
}

/// The disposition of some tasks, recorded until the batch's last node has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) to: Destination,
    pub(crate) tasks: Mask,
    /// Counts the tasks that went there, refused ones included.
    pub(crate) taken: Option<Counter>,
    /// Counts the tasks that found no room.
    pub(crate) full: Counter,
    /// Whether these are packets of a flow that is on its way to another worker.
    pub(crate) is_moving: bool,
}

#[derive(Debug)]
pub(crate) struct BatchState {
    pub(crate) masks: TaskMasks,
    pub(crate) requests: Requests,
    /// At most one per task, since later dispositions of a task are ignored.
    pub(crate) claims: Vec<Claimed>,
    /// Notified entries, each with the key; `None` is every key.
    pub(crate) notifies: Vec<(Entry, Option<u64>)>,
    /// The tasks that have a disposition.
    pub(crate) disposed: Mask,
    /// A task that a block has started, and that is queued when the batch ends unless it goes on in the burst. The queues
    /// are empty.
    pub(crate) fresh: Option<Fresh>,
    /// The tasks that have run in the burst. While they are fewer than the budget, tasks that are next in any case may go
    /// on in the burst as it is, instead of being queued.
    pub(crate) ran: usize,
    pub(crate) budget: usize,
    /// The node whose block is being called, or [`NO_NODE`]: the culprit if that panics.
    pub(crate) running: u32,
    /// The shortcut that is being called.
    pub(crate) shortcut: Option<u32>,
    /// The claim whose block collects its packets.
    pub(crate) collecting: Option<usize>,
    /// Tasks that found no working block: the node, and the loss. Mostly empty.
    pub(crate) lost: Vec<(u32, Loss, Mask)>,
    /// The ways that a shortcut has found; empty between two of its calls.
    pub(crate) ways: Ways,
    /// The ways that tasks have taken.
    #[cfg(test)]
    pub(crate) taken: Vec<(Counter, Mask)>,
    /// The slots of nodes and ports that tasks have passed together.
    #[cfg(test)]
    pub(crate) together: Vec<(usize, Mask)>,
    /// The claims that were carried out at once.
    #[cfg(test)]
    pub(crate) settled: Vec<Claimed>,
}

impl BatchState {
    pub(crate) fn new(program: &Program) -> BatchState {
        BatchState {
            masks: TaskMasks::new(program),
            requests: Requests::new(),
            claims: Vec::with_capacity(64),
            notifies: Vec::with_capacity(64),
            disposed: 0,
            fresh: None,
            ran: 0,
            budget: 0,
            running: NO_NODE,
            shortcut: None,
            collecting: None,
            lost: Vec::new(),
            ways: Ways::default(),
            #[cfg(test)]
            taken: Vec::new(),
            #[cfg(test)]
            together: Vec::new(),
            #[cfg(test)]
            settled: Vec::new(),
        }
    }
}

impl BatchState {
    /// Whether so many tasks that the batch alone starts are the next to run: nothing is queued, nobody is woken, and
    /// the queue, which they pass by, would have room.
    #[inline]
    pub(super) fn is_next(&self, runtime: &Runtime, tasks: usize) -> bool {
        let Limits { high, high_total, .. } = runtime.limits;
        self.ran < self.budget
            && self.notifies.is_empty()
            && self.fresh.is_none()
            && runtime.tasks.is_empty()
            && tasks <= high.min(high_total)
    }
}

pub(super) struct Dispositions<'a> {
    pub(super) program: &'a Program,
    pub(super) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(super) state: &'a mut BatchState,
    pub(super) runtime: &'a mut Runtime,
    pub(super) burst: &'a mut Burst,
    pub(super) batch: Batch,
    pub(super) now: Nanos,
}

impl Dispositions<'_> {
    /// Carries out what the batch's nodes have asked for; returns the tasks that go on in the burst, if some do.
    #[inline(never)]
    pub(super) fn run(&mut self) -> Option<Batch> {
        let fresh = self.state.fresh.take().and_then(|fresh| self.is_next_alone(fresh));
        let next = match self.state.claims[..] {
            [] => None,
            [only] => match self.goes_on(&only) {
                None => {
                    let refused = self.carry_out(0, only.to, only.tasks);
                    self.count_claim(&only, refused);
                    self.free(refused);
                    None
                }
                next => next,
            },
            _ => {
                self.apply_all();
                None
            }
        };
        self.state.claims.clear();
        let left = self.batch.occupied & !self.state.disposed;
        if left != 0 {
            self.free(left);
        }
        if !self.state.notifies.is_empty() {
            self.wake();
        }
        let Some(fresh) = fresh else { return next };
        self.state.ran += 1;
        Some(fresh.begin(self.burst))
    }

    /// Queues a new task, before those that claims start, unless it is the next to run, and no others are.
    #[inline(never)]
    fn is_next_alone(&mut self, fresh: Fresh) -> Option<Fresh> {
        if self.state.claims.is_empty() && self.state.is_next(self.runtime, 1) {
            return Some(fresh);
        }
        fresh.queue(self.program, self.runtime);
        None
    }

    /// Has the tasks of the only claim start at once, if nothing else is to run before them. They are counted as if they
    /// had been queued.
    #[inline]
    fn goes_on(&mut self, claim: &Claimed) -> Option<Batch> {
        let Destination::Spawn { entry, priority: Priority::High } = claim.to else { return None };
        if !self.state.is_next(self.runtime, number_of(claim.tasks) as usize) {
            return None;
        }
        self.state.ran += number_of(claim.tasks) as usize;
        self.count_claim(claim, 0);
        let occupied = claim.tasks & self.batch.occupied;
        Some(Batch { entry, tasks: claim.tasks, occupied })
    }

    #[inline(never)]
    fn apply_all(&mut self) {
        for i in 0..self.state.claims.len() {
            let Claimed { to, tasks, .. } = self.state.claims[i];
            if tasks != 0 {
                self.apply(i, to);
            }
        }
    }

    /// Applies claim `i` together with later claims for the same destination, so that packets
    /// arrive there in their own order and not in the order of the nodes that claimed them.
    #[inline]
    fn apply(&mut self, i: usize, to: Destination) {
        let same = |c: &&Claimed| c.to == to;
        let tasks = self.state.claims[i..].iter().filter(same).fold(0, |m, c| m | c.tasks);
        let refused = self.carry_out(i, to, tasks);
        for n in i..self.state.claims.len() {
            if self.state.claims[n].to == to {
                let claim = self.state.claims[n];
                self.count_claim(&claim, refused);
                self.state.claims[n].tasks = 0;
            }
        }
        self.free(refused);
    }

    #[inline]
    fn count_claim(&self, claim: &Claimed, refused: Mask) {
        let counters = &self.runtime.counters;
        if let Some(taken) = claim.taken {
            counters.add(taken, u64::from(number_of(claim.tasks)));
        }
        if claim.tasks & refused != 0 {
            counters.add(claim.full, u64::from((claim.tasks & refused).count_ones()));
        }
    }

    /// Sends tasks where they were claimed for; returns those for which there was no room.
    #[inline]
    fn carry_out(&mut self, i: usize, to: Destination, tasks: Mask) -> Mask {
        match to {
            Destination::Spawn { entry, priority } => {
                let queue = self.runtime.tasks.queue(priority);
                queue.push_all(entry, self.burst, tasks, self.batch.occupied)
            }
            Destination::Later { entry, delay } => self.start_later(i, entry, delay, tasks),
            Destination::Elsewhere { entry, priority } => self.hand_over(entry, priority, tasks),
            Destination::Transmit { link } => self.transmit(link, tasks),
            Destination::Collect { node } => self.collect(i, node, tasks),
            Destination::Block { node, key } => self.block(node, key, tasks),
            Destination::Owner { entry, worker } => self.hand_to_owner(i, entry, worker, tasks),
            Destination::Hold { node, key } => self.hold(node, key, tasks),
        }
    }

    #[cold]
    fn start_later(&mut self, claim: usize, entry: Entry, delay: Nanos, tasks: Mask) -> Mask {
        let (full, now) = (self.state.claims[claim].full, self.now);
        self.each(tasks, |runtime, _, _, task| {
            runtime.start_at(Delayed { entry, priority: Priority::High, task, full }, delay, now)
        })
    }

    #[cold]
    fn hand_over(&mut self, entry: Entry, priority: Priority, tasks: Mask) -> Mask {
        self.each(tasks, |runtime, program, _, task| {
            runtime.hand_over(program, entry, priority, task)
        })
    }

    #[cold]
    fn hand_to_owner(&mut self, i: usize, entry: Entry, worker: u16, tasks: Mask) -> Mask {
        let to = self.state.claims[i].to;
        let moving = self.state.claims[i..].iter().filter(|c| c.to == to && c.is_moving);
        let moving = moving.fold(0, |mask, claim| mask | claim.tasks);
        self.each(tasks, |runtime, program, task_number, task| {
            let is_moving = moving >> task_number & 1 == 1;
            runtime.hand_to_owner(worker, program, entry, task, is_moving)
        })
    }

    /// Keeps packets until the state of their flow is here.
    fn hold(&mut self, node: u32, key: FlowKey, tasks: Mask) -> Mask {
        let Some(entry) = self.program.nodes[node as usize].entry else { return tasks };
        self.each(tasks, |runtime, _, _, task| {
            let beside = runtime.peers.as_ref().map_or(0, |peers| peers.waiting_tasks());
            runtime.flows.hold(entry, key, task, beside)
        })
    }

    /// Gives each task away, with its number; returns those that came back.
    fn each(
        &mut self,
        tasks: Mask,
        mut give: impl FnMut(&mut Runtime, &Program, usize, Task) -> Result<(), Task>,
    ) -> Mask {
        let mut refused = 0;
        for i in bits(tasks) {
            let task = self.burst.take(i);
            if let Err(task) = give(self.runtime, self.program, i, task) {
                refused |= 1 << i;
                if let Some(buffer) = task {
                    self.burst.put(i, buffer);
                }
            }
        }
        refused
    }

    #[inline]
    fn transmit(&mut self, link: u16, tasks: Mask) -> Mask {
        self.runtime.outboxes.note(link, number_of(tasks));
        let Some((outbox, room)) = self.runtime.outboxes.room_of(link) else { return tasks };
        let wanted = tasks & self.batch.occupied;
        // One alone has room, and is quicker added as such.
        if wanted.is_power_of_two() {
            if let Some(packet) = self.burst.take(wanted.trailing_zeros() as usize) {
                outbox.push_back(packet);
            }
            return 0;
        }
        let packets = number_of(wanted) as usize;
        let mut refused = 0;
        if packets > room {
            refused = bits(wanted).skip(room).fold(0, |mask, i| mask | 1 << i);
        }
        outbox.extend(bits(wanted & !refused).filter_map(|i| self.burst.take(i)));
        refused
    }

    /// Refuses nothing: packets that the block leaves in the burst are freed.
    fn collect(&mut self, claim: usize, node: u32, tasks: Mask) -> Mask {
        (self.state.collecting, self.state.running) = (Some(claim), node);
        if let Some(block) = &mut self.blocks[node as usize] {
            let (requests, flows) = (&mut self.state.requests, owners(self.program, node));
            self.runtime.call(self.now, requests, flows, |cx| {
                block.collect(cx, self.burst, tasks);
            });
        }
        self.drain(node);
        (self.state.collecting, self.state.running) = (None, NO_NODE);
        self.free(tasks);
        0
    }

    /// Carries out a block's requests outside of a batch.
    pub(super) fn end_call(&mut self, node: u32) {
        self.drain(node);
        self.wake();
    }

    /// After its tasks have ended, a block may still spawn, notify and count.
    fn drain(&mut self, node: u32) {
        let plan = &self.program.nodes[node as usize];
        let requests = &mut self.state.requests;
        for (_, tasks) in requests.claims.drain(..) {
            self.runtime.counters.add(total::CONFLICTS, u64::from(tasks.count_ones()));
        }
        for request in requests.spawns.drain(..) {
            self.runtime.spawn(
                self.program,
                &plan.spawns[request.edge as usize],
                request,
                self.now,
            );
        }
        if let Some(at) = requests.deadline.take() {
            self.runtime.deadlines.set(node, at, self.now);
        }
        let targets = requests.notifies.drain(..);
        self.state.notifies.extend(targets.map(|(e, key)| (plan.notifies[e as usize], key)));
        for (counter, n) in requests.counts.drain(..) {
            self.runtime.counters.add(plan.own.plus(counter as usize), n);
        }
    }

    /// Refuses nothing: the runtime counts tasks that it does not accept.
    fn block(&mut self, node: u32, key: u64, tasks: Mask) -> Mask {
        for i in bits(tasks) {
            let task = self.burst.take(i);
            self.runtime.block(self.program, node, key, task);
        }
        0
    }

    pub(super) fn free(&mut self, tasks: Mask) {
        for i in bits(tasks) {
            if let Some(buffer) = self.burst.take(i) {
                self.runtime.pool.free(buffer);
            }
        }
    }

    /// Notifies last: the order of blocking and notifying within a batch is undefined, so no task
    /// of the batch may block just after its notification. A task woken without cause blocks again.
    fn wake(&mut self) {
        for (entry, key) in self.state.notifies.drain(..) {
            self.runtime.notify(self.program, self.runtime.epoch, entry, key);
        }
    }
}

/// The owners of a node's flows, where several workers share them.
#[inline]
pub(super) fn owners(program: &Program, node: u32) -> Option<&FlowOwners> {
    program.nodes[node as usize].flows.as_ref().map(|flows| &*flows.owners)
}

#[cold]
pub(super) fn count_conflict(counters: &Cells, tasks: Mask) {
    counters.add(total::CONFLICTS, u64::from(tasks.count_ones()));
}
