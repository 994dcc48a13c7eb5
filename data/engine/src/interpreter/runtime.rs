//! The state of an engine between batches: queues of tasks and packets, free frames, counters.

use std::collections::VecDeque;
use std::sync::Arc;

use weever_block::{Cx, Downstream, FlowOwners, Priority, Requests, SpawnRequest, When};
use weever_packet::{BURST, Buffer, Nanos, PoolCache};

use super::following::Following;
use super::moving::Flows;
use super::peers::{Message, Part, Peers};
use super::task_queues::{Task, Tasks};
use super::waiting::{Blocked, Deadlines, Delayed, Later};
use crate::Limits;
use crate::counters::Cells;
use crate::schedule::{Entry, NodeRef, Program, SpawnEdge};
use crate::slots::{Counter, total};

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) limits: Limits,
    pub(crate) tasks: Tasks,
    pub(crate) blocked: Blocked,
    pub(crate) delayed: Later,
    pub(crate) deadlines: Deadlines,
    pub(crate) outboxes: Outboxes,
    pub(crate) flows: Flows,
    pub(crate) following: Following,
    pub(crate) counters: Arc<Cells>,
    /// The other workers, if there are any.
    pub(crate) peers: Option<Box<Peers>>,
    /// The number of the worker.
    pub(crate) worker: u16,
    /// The number of the graph that runs.
    pub(crate) epoch: u64,
    /// Declared after the queues, so that their buffers are returned while the pool still exists.
    pub(crate) pool: PoolCache,
}

impl Runtime {
    pub(crate) fn new(
        entries: usize,
        counters: Arc<Cells>,
        pool: PoolCache,
        limits: Limits,
    ) -> Runtime {
        Runtime {
            tasks: Tasks::new(entries, &limits),
            blocked: Blocked::new(&limits),
            delayed: Later::new(&limits),
            deadlines: Deadlines::new(limits.tick),
            outboxes: Outboxes::new(&limits),
            flows: Flows::new(limits.held),
            following: Following::new(),
            counters,
            peers: None,
            worker: 0,
            epoch: 0,
            pool,
            limits,
        }
    }

    /// Enqueues a new task, at once or after its delay.
    pub(crate) fn spawn(
        &mut self,
        program: &Program,
        edge: &SpawnEdge,
        request: SpawnRequest,
        now: Nanos,
    ) {
        let SpawnRequest { buffer, when, priority, .. } = request;
        self.counters.add(edge.spawned, 1);
        if matches!(when, When::After(0)) {
            return self.start_now(program, edge, priority, buffer);
        }
        if self.delayed.room() == 0 {
            return self.refuse(buffer, edge.full);
        }
        let delayed = Delayed { entry: edge.entry, priority, task: buffer, full: edge.full };
        let Later { for_buffer, for_input, .. } = &mut self.delayed;
        match when {
            When::After(delay) => self.delayed.start_after(delayed, delay, now),
            When::Buffer => for_buffer.push_back(delayed),
            When::Readable(fd) => for_input.push((fd, delayed)),
        }
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    /// Has a task start so much later; gives it back when too many wait.
    pub(super) fn start_at(
        &mut self,
        delayed: Delayed,
        delay: Nanos,
        now: Nanos,
    ) -> Result<(), Task> {
        if self.delayed.room() == 0 {
            return Err(delayed.task);
        }
        self.delayed.start_after(delayed, delay, now);
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
        Ok(())
    }

    fn start_now(&mut self, program: &Program, edge: &SpawnEdge, priority: Priority, task: Task) {
        let full = if self.is_home(program.home(edge.entry)) { edge.full } else { edge.ring_full };
        self.enqueue(program, edge.entry, priority, task, full);
    }

    /// Enqueues the delayed tasks that are due, and those for which there is a buffer.
    pub(crate) fn start_delayed(&mut self, program: &Program, now: Nanos) {
        if self.delayed.is_empty() {
            return;
        }
        while let Some(due) = self.delayed.timed.poll(now) {
            self.start(program, due);
        }
        while !self.delayed.for_buffer.is_empty()
            && let Some(buffer) = self.pool.alloc()
        {
            match self.delayed.for_buffer.pop_front() {
                Some(next) => self.start(program, Delayed { task: Some(buffer), ..next }),
                None => self.pool.free(buffer),
            }
        }
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    /// Enqueues the tasks whose descriptors can be read, as `ready` says of each in turn.
    #[cold]
    pub(crate) fn start_readable(&mut self, program: &Program, ready: &[bool]) {
        let mut ready = ready.iter();
        let is_ready = |_: &mut (_, Delayed)| ready.next().is_some_and(|ready| *ready);
        let due: Vec<_> = self.delayed.for_input.extract_if(.., is_ready).collect();
        due.into_iter().for_each(|(_, delayed)| self.start(program, delayed));
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    fn start(&mut self, program: &Program, delayed: Delayed) {
        let Delayed { entry, priority, task, full } = delayed;
        self.enqueue(program, entry, priority, task, full);
    }

    pub(crate) fn refuse(&mut self, task: Task, full: Counter) {
        self.counters.add(full, 1);
        if let Some(buffer) = task {
            self.pool.free(buffer);
        }
    }

    /// Blocks a task at `node`, or drops it where too many are blocked.
    pub(crate) fn block(&mut self, program: &Program, node: u32, key: u64, task: Task) {
        let plan = &program.nodes[node as usize];
        let task = task.map(|packet| self.in_ordinary_frame(packet));
        let blocked = match plan.entry {
            Some(entry) => self.blocked.block(entry, key, task, self.tasks.woken()),
            None => Err(task),
        };
        if let Err(task) = blocked {
            self.refuse(task, plan.block_full);
        }
        self.counters.set(total::BLOCKED, self.blocked.len() as u64);
    }
}

impl Runtime {
    /// Calls a block, or a shortcut, in this worker's context.
    #[inline(always)]
    pub(super) fn call<T>(
        &mut self,
        now: Nanos,
        requests: &mut Requests,
        flows: Option<&FlowOwners>,
        call: impl FnOnce(&mut Cx<'_>) -> T,
    ) -> T {
        let Runtime { pool, worker, outboxes, delayed, .. } = self;
        let room = Room { outboxes, delayed };
        call(&mut Cx::on_worker((now, *worker), pool, requests, flows, &room))
    }

    /// The packet in a frame of the worker's own pool, if its frame is larger than that and it fits: there
    /// are few large frames, and a silent neighbour may have packets wait for seconds.
    fn in_ordinary_frame(&mut self, packet: Buffer) -> Buffer {
        if packet.frame_size() <= self.pool.frame_size() {
            return packet;
        }
        let Some(mut copy) = self.pool.alloc() else { return packet };
        let (waits, free) = if packet.copy_to(&mut copy) { (copy, packet) } else { (packet, copy) };
        self.pool.free(free);
        waits
    }

    pub(crate) fn receive(&mut self, program: &Program, message: Message) {
        match message {
            Message::Task { at, priority, task } => match program.at(at) {
                Some(entry) => self.enqueue(program, entry, priority, task, program.dropped),
                None => self.refuse(task, program.dropped),
            },
            Message::Wake { at, key } => {
                if let Some(entry) = program.at(at) {
                    self.wake_here(entry, key);
                }
            }
            Message::Send { link, buffer } => match self.outboxes.room_of(link) {
                Some((outbox, _)) => outbox.push_back(buffer),
                None => self.refuse(Some(buffer), total::RELAY_FULL),
            },
            // The engine handles messages about flows, as they need the blocks.
            Message::Fence { .. }
            | Message::Fenced { .. }
            | Message::Move { .. }
            | Message::Flow(_)
            | Message::Ask { .. } => {}
        }
    }

    fn wake_here(&mut self, entry: Entry, key: Option<u64>) {
        let Runtime { blocked, tasks, .. } = self;
        match key {
            Some(key) => blocked.wake(entry, key, |task| tasks.wake(entry, task)),
            None => blocked.wake_all(entry, |task| tasks.wake(entry, task)),
        }
        self.counters.set(total::BLOCKED, self.blocked.len() as u64);
    }

    /// Wakes the tasks that wait for `key` (or for any key) at `entry`, on every worker that may
    /// have some.
    pub(crate) fn notify(&mut self, program: &Program, epoch: u64, entry: Entry, key: Option<u64>) {
        let home = program.home(entry);
        if let Some(peers) = &mut self.peers {
            let place = NodeRef { entry, idp: program.entries[entry.index()].idp, epoch };
            if home.is_none_or(|home| home != peers.me) {
                peers.wake(home, place, key);
            }
        }
        if self.is_home(home) {
            self.wake_here(entry, key);
        }
    }

    /// Whether a node with that home runs on this worker.
    #[inline]
    pub(crate) fn is_home(&self, home: Option<u16>) -> bool {
        home.is_none_or(|home| self.peers.as_ref().is_none_or(|peers| peers.me == home))
    }

    /// Hands a task over to the worker that runs its node; returns it when there is no room.
    #[cold]
    pub(crate) fn hand_over(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
    ) -> Result<(), Task> {
        let Some(home) = program.home(entry) else { return Err(task) };
        let Some(peers) = &mut self.peers else { return Err(task) };
        let place = NodeRef { entry, idp: program.entries[entry.index()].idp, epoch: self.epoch };
        peers.start(home, place, priority, task, common_part(program))
    }

    /// Hands a packet over to the worker that owns its flow; returns it when there is no room. A packet of a flow that
    /// moves waits beside a full ring then, as far as such packets may.
    #[cold]
    pub(crate) fn hand_to_owner(
        &mut self,
        owner: u16,
        program: &Program,
        entry: Entry,
        task: Task,
        is_moving: bool,
    ) -> Result<(), Task> {
        self.outboxes.offered.to_owners = true;
        let Some(peers) = &mut self.peers else { return Err(task) };
        let place = NodeRef { entry, idp: program.entries[entry.index()].idp, epoch: self.epoch };
        let Err(task) = peers.start(owner, place, Priority::High, task, Part::Whole) else {
            return Ok(());
        };
        if !is_moving || !self.flows.may_wait_beside(peers.waiting_tasks()) {
            return Err(task);
        }
        peers.send_task_late(owner, place, Priority::High, task);
        Ok(())
    }

    /// Enqueues a task on this worker, or on the one that runs its node.
    pub(crate) fn enqueue(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
        full: Counter,
    ) {
        let result = if self.is_home(program.home(entry)) {
            self.tasks.queue(priority).push(entry, task)
        } else {
            self.hand_over(program, entry, priority, task)
        };
        if let Err(task) = result {
            self.refuse(task, full);
        }
    }

    /// The same for tasks of a removed node, which are never dropped for want of room in a ring.
    pub(crate) fn pass_on(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
        full: Counter,
    ) {
        let home = program.home(entry).filter(|home| !self.is_home(Some(*home)));
        match (home, &mut self.peers) {
            (Some(home), Some(peers)) => {
                let idp = program.entries[entry.index()].idp;
                let at = NodeRef { entry, idp, epoch: self.epoch };
                peers.send_task_late(home, at, priority, task);
            }
            _ => self.enqueue(program, entry, priority, task, full),
        }
    }
}

/// The part of rings for what concerns no flow: all of it, where there are no flows.
pub(crate) fn common_part(program: &Program) -> Part {
    if program.sharded.is_empty() { Part::Whole } else { Part::Common }
}

#[derive(Debug)]
pub(crate) struct Outboxes {
    links: Box<[VecDeque<Buffer>]>,
    limit: usize,
    offered: Offered,
}

/// The packets to be sent since the last call, refused ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) packets: usize,
    /// A bit for each link; those from 63 on share one.
    links: u64,
    /// Whether packets were handed over to the owners of their flows, too.
    pub(crate) to_owners: bool,
}

impl Offered {
    #[inline]
    fn bit(link: usize) -> u64 {
        1 << link.min(63)
    }

    /// Whether some of it went to that link.
    #[inline]
    pub(crate) fn used(&self, link: usize) -> bool {
        self.links & Offered::bit(link) != 0
    }

    /// Whether all of it went to that link.
    #[inline]
    pub(crate) fn used_only(&self, link: usize) -> bool {
        self.links == Offered::bit(link)
    }
}

/// The room for tasks and packets behind a block.
struct Room<'a> {
    outboxes: &'a Outboxes,
    delayed: &'a Later,
}

impl Downstream for Room<'_> {
    fn link_room(&self, link: u16) -> usize {
        let Outboxes { links, limit, .. } = self.outboxes;
        links.get(usize::from(link)).map_or(0, |outbox| limit.saturating_sub(outbox.len()))
    }

    fn delayed_room(&self) -> usize {
        self.delayed.room()
    }
}

impl Outboxes {
    pub(crate) fn new(limits: &Limits) -> Outboxes {
        let room = limits.outbox.min(4 * BURST);
        let links = (0..limits.links).map(|_| VecDeque::with_capacity(room)).collect();
        Outboxes { links, limit: limits.outbox, offered: Offered::default() }
    }

    pub(crate) fn of(&mut self, link: u16) -> Option<&mut VecDeque<Buffer>> {
        self.links.get_mut(link as usize)
    }

    /// The link's outbox and its free room; `None` when it is full or there is no such link.
    #[inline]
    pub(crate) fn room_of(&mut self, link: u16) -> Option<(&mut VecDeque<Buffer>, usize)> {
        let outbox = self.links.get_mut(link as usize)?;
        let room = self.limit.saturating_sub(outbox.len());
        (room > 0).then_some((outbox, room))
    }

    /// Remembers that packets were to be sent.
    #[inline]
    pub(crate) fn note(&mut self, link: u16, packets: u32) {
        self.offered.packets += packets as usize;
        self.offered.links |= Offered::bit(link.into());
    }

    pub(crate) fn take_offered(&mut self) -> Offered {
        std::mem::take(&mut self.offered)
    }

    /// The free room of the fullest outbox among those that `counts` selects.
    pub(crate) fn room_of_those(&self, counts: impl Fn(usize) -> bool) -> usize {
        let outboxes = self.links.iter().enumerate().filter(|(link, _)| counts(*link));
        let fullest = outboxes.map(|(_, outbox)| outbox.len()).max().unwrap_or(0);
        self.limit.saturating_sub(fullest)
    }

    /// The free room of the fullest outbox.
    pub(crate) fn room(&self) -> usize {
        let fullest = self.links.iter().map(VecDeque::len).max().unwrap_or(0);
        self.limit.saturating_sub(fullest)
    }
}
