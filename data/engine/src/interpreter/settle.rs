//! The end of a batch: dispositions are applied, and what nobody took is freed.

use weever_block::{Block, Cx, Priority};
use weever_packet::{Burst, Mask, Nanos, bits};

use super::frame::{Claimed, Destination, Frame};
use super::runtime::Runtime;
use super::tasks::Batch;
use crate::counters::total;
use crate::schedule::{Entry, Program};

pub(super) struct Settlement<'a> {
    pub(super) program: &'a Program,
    pub(super) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(super) frame: &'a mut Frame,
    pub(super) runtime: &'a mut Runtime,
    pub(super) burst: &'a mut Burst,
    pub(super) batch: Batch,
    pub(super) now: Nanos,
}

impl Settlement<'_> {
    pub(super) fn run(mut self) {
        for i in 0..self.frame.claims.len() {
            let Claimed { to, tasks, .. } = self.frame.claims[i];
            if tasks != 0 {
                self.settle(i, to);
            }
        }
        self.frame.claims.clear();
        let left = self.batch.occupied & !self.frame.settled;
        if left != 0 {
            self.free(left);
        }
        self.wake();
    }

    /// Applies claim `i` together with the later ones that go to the same place, so that packets
    /// arrive there in their own order and not in that of the nodes that claimed them.
    fn settle(&mut self, i: usize, to: Destination) {
        let same = |c: &&Claimed| c.to == to;
        let tasks = self.frame.claims[i..].iter().filter(same).fold(0, |m, c| m | c.tasks);
        let refused = match to {
            Destination::Spawn { entry, priority } => {
                let lane = self.runtime.tasks.lane(priority);
                lane.push_all(entry, self.burst, tasks, self.batch.occupied)
            }
            Destination::Elsewhere { entry, priority } => self.hand_over(entry, priority, tasks),
            Destination::Transmit { link } => self.transmit(link, tasks),
            Destination::Collect { node } => self.collect(node, tasks),
            Destination::Block { node, key } => self.block(node, key, tasks),
        };
        for claim in self.frame.claims[i..].iter_mut().filter(|c| c.to == to) {
            let counters = &self.runtime.counters;
            if let Some(taken) = claim.taken {
                counters.add(taken, u64::from(claim.tasks.count_ones()));
            }
            if claim.tasks & refused != 0 {
                counters.add(claim.full, u64::from((claim.tasks & refused).count_ones()));
            }
            claim.tasks = 0;
        }
        if refused != 0 {
            self.free(refused);
        }
    }

    #[cold]
    fn hand_over(&mut self, entry: Entry, priority: Priority, tasks: Mask) -> Mask {
        let mut refused = 0;
        for i in bits(tasks) {
            let task = self.burst.take(i);
            if let Err(task) = self.runtime.hand_over(self.program, entry, priority, task) {
                refused |= 1 << i;
                if let Some(buffer) = task {
                    self.burst.put(i, buffer);
                }
            }
        }
        refused
    }

    fn transmit(&mut self, link: u16, tasks: Mask) -> Mask {
        let Some((outbox, mut room)) = self.runtime.outboxes.room_of(link) else { return tasks };
        let mut refused = 0;
        for i in bits(tasks & self.batch.occupied) {
            if room == 0 {
                refused |= 1 << i;
                continue;
            }
            if let Some(buffer) = self.burst.take(i) {
                outbox.push_back(buffer);
                room -= 1;
            }
        }
        refused
    }

    /// Nothing is refused: what the block leaves in the burst was its to leave.
    fn collect(&mut self, node: u32, tasks: Mask) -> Mask {
        let mut cx = Cx::new(self.now, &mut self.runtime.pool, &mut self.frame.requests);
        if let Some(block) = &mut self.blocks[node as usize] {
            block.collect(&mut cx, self.burst, tasks);
        }
        self.drain(node);
        self.free(tasks);
        0
    }

    /// After its tasks have ended, a block may still start and wake others and count.
    fn drain(&mut self, node: u32) {
        let plan = &self.program.nodes[node as usize];
        let requests = &mut self.frame.requests;
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
        let targets = requests.notifies.drain(..);
        self.frame.notifies.extend(targets.map(|(e, key)| (plan.notifies[e as usize], key)));
        for (counter, n) in requests.counts.drain(..) {
            self.runtime.counters.add(plan.own.plus(counter as usize), n);
        }
    }

    /// The runtime counts what it refuses itself.
    fn block(&mut self, node: u32, key: u64, tasks: Mask) -> Mask {
        for i in bits(tasks) {
            let task = self.burst.take(i);
            self.runtime.block(self.program, node, key, task);
        }
        0
    }

    fn free(&mut self, tasks: Mask) {
        for i in bits(tasks) {
            if let Some(buffer) = self.burst.take(i) {
                self.runtime.pool.free(buffer);
            }
        }
    }

    /// Last, so that no task of the batch can block just after its wake-up has passed: the two
    /// have no order within a batch. One that is woken for nothing looks again and blocks again.
    fn wake(&mut self) {
        for (entry, key) in self.frame.notifies.drain(..) {
            self.runtime.notify(self.program, self.runtime.epoch, entry, key);
        }
    }
}
