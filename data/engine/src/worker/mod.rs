//! A worker: receive, run the graph, send (design/0000 §2).

mod order;
mod queues;
mod run;
mod stats;
#[cfg(test)]
mod tests;
mod wait;

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use weever_packet::{BURST, Burst, Nanos, first_n};

use crate::Engine;
use crate::interpreter::Reception;
use crate::mailbox::{Doorbell, Mailbox, Waker};
use crate::quiet::{Quiet, Report};
use crate::schedule::Update;
use order::Order;
pub use queues::{Attached, Lost, Turn};
use queues::{Egress, attempt};
pub use stats::WorkerStats;
use wait::{Bell, readable};
pub use wait::{Mode, Pace, monotonic};

/// The most bursts received from one queue per turn. Consecutive bursts find the graph's code and
/// state in the caches, which the system call for sending then evicts.
const MAX_BURSTS: usize = 4;

/// The most queued tasks run before the next burst is received.
const TASK_BUDGET: usize = 4 * BURST;

/// A busy worker looks at the descriptors that tasks wait for once in so many turns.
const LOOK_EVERY: u64 = 64;

/// The most batches of queued tasks run before the graph changes.
const MAX_DRAIN_BATCHES: usize = 64;

/// An engine with the queues that it receives from and sends to.
///
/// Either call [`turn`](Worker::turn) with a clock of your own, or [`run`](Worker::run) it on a
/// thread, which the caller pins.
pub struct Worker {
    engine: Engine,
    /// `None`: the queue failed.
    queues: Vec<Option<Attached>>,
    egress: Egress,
    order: Order,
    burst: Box<Burst>,
    /// The queue that receives first in the next turn; it rotates, so that none takes all the room.
    first: usize,
    bell: Bell,
    reception: Reception,
    stats: Arc<WorkerStats>,
    pace: Arc<Pace>,
    /// Delivers graph updates, if the worker belongs to a team.
    mailbox: Option<Arc<Mailbox<Update>>>,
    /// The team's pauses in reception.
    quiet: Option<Arc<Quiet>>,
}

impl Worker {
    /// A worker for `engine`. A link may have several queues here; a packet leaves by the one that
    /// its metadata's queue number selects, modulo their number.
    ///
    /// When the eventfd of the [`Waker`] cannot be created. `InvalidInput`: a queue's link is not
    /// below [`Limits::links`](crate::Limits::links).
    pub fn new(engine: Engine, queues: Vec<Attached>) -> std::io::Result<Worker> {
        let links = queues.iter().map(|q| q.link).collect::<Vec<_>>();
        let known = engine.limits().links;
        if let Some(link) = links.iter().find(|link| **link >= known) {
            let text = format!("a queue is of link {link}, and the limits say links = {known}");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        Ok(Worker {
            egress: Egress::new(engine.limits(), &links),
            order: Order::new(known),
            reception: Reception::new(queues.len()),
            stats: Arc::new(WorkerStats::new(links)),
            engine,
            queues: queues.into_iter().map(Some).collect(),
            burst: Box::new(Burst::new()),
            first: 0,
            bell: Bell::new()?,
            pace: Arc::new(Pace::new(Mode::default())),
            mailbox: None,
            quiet: None,
        })
    }

    /// Returns the mailbox by which the worker receives graph updates.
    pub(crate) fn join_team(&mut self) -> Arc<Mailbox<Update>> {
        self.mailbox.get_or_insert_default().clone()
    }

    /// Says whether the caller calls [`turn`](Self::turn) again and again from now on, as [`run`](Self::run) does:
    /// changes of the graph then wait for this worker, and have its reception pause if they must. A worker that
    /// nobody runs counts as switched. For callers with a clock of their own, who make changes on another thread.
    pub fn attend(&mut self, attends: bool) {
        self.join_team().set_runs(attends);
    }

    /// Has the worker take part in its team's pauses.
    pub(crate) fn pause_with(&mut self, quiet: Arc<Quiet>) {
        self.quiet = Some(quiet);
    }

    /// Switches to the next graph, if there is one.
    #[inline]
    fn check_for_update(&mut self, now: Nanos, turn: &mut Turn) {
        let pending =
            self.mailbox.as_ref().and_then(|mailbox| mailbox.pending(self.engine.epoch()));
        if let Some(epoch) = pending {
            self.adopt(epoch, now, turn);
        }
    }

    #[cold]
    fn adopt(&mut self, epoch: u64, now: Nanos, turn: &mut Turn) {
        self.finish_queued(now, turn);
        let Worker { mailbox: Some(mailbox), engine, .. } = self else { return };
        while let Some((number, mut update)) = mailbox.take(epoch) {
            engine.switch(&mut update, now);
            mailbox.done(number, update);
        }
    }

    /// Runs queued tasks before a change, so that packets received after it do not overtake them on
    /// a shorter path; stops when there is no room for the packets they send.
    fn finish_queued(&mut self, now: Nanos, turn: &mut Turn) {
        let Worker { engine, queues, egress, order, .. } = self;
        for _ in 0..MAX_DRAIN_BATCHES {
            if engine.outbox_room() < BURST && order.may_send(queues, now) {
                egress.send(engine, queues, turn, now);
            }
            if engine.idle() || engine.outbox_room() < BURST {
                return;
            }
            turn.ran += engine.run_batch(now);
        }
    }

    pub(crate) fn doorbell(&self) -> Arc<Doorbell> {
        self.bell.doorbell().clone()
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// A handle that wakes this worker from any thread while it sleeps in [`run`](Worker::run).
    pub fn waker(&self) -> Waker {
        self.bell.waker()
    }

    /// The wait mode used by [`run_at_pace`](Worker::run_at_pace), which any thread may change.
    pub fn pace(&self) -> Arc<Pace> {
        self.pace.clone()
    }

    /// The worker's counters and its queues', readable from any thread.
    pub fn stats(&self) -> Arc<WorkerStats> {
        self.stats.clone()
    }

    /// One turn: receives from each queue as far as there is room downstream, sends as many packets as the links take
    /// and flushes; then runs queued tasks up to a budget, and sends what they have caused. Does not block.
    /// `now` is monotonic.
    pub fn turn(&mut self, now: Nanos) -> Turn {
        let mut turn = Turn::default();
        self.check_for_update(now, &mut turn);
        self.take_over(now, &mut turn);
        let queues = self.queues.len();
        self.queues.iter_mut().flatten().for_each(|attached| attached.queue.advance(now));
        self.reception.begin_turn();
        let pauses = self.quiet.as_ref().is_some_and(|quiet| quiet.is_wanted());
        for i in 0..if pauses { 0 } else { queues } {
            // No division: that takes as long as much of a turn in vain.
            let index = self.first + i;
            self.receive(if index < queues { index } else { index - queues }, now, &mut turn);
        }
        self.first = if self.first + 1 < queues { self.first + 1 } else { 0 };
        // What was received is answered before anything else is done: its sender waits for that alone.
        let answers = turn.received > 0;
        if answers {
            self.send(now, &mut turn);
        }
        if self.engine.descriptors().len() > 0 {
            self.look_at_descriptors(&turn);
        }
        turn.ran += self.engine.run(now, TASK_BUDGET);
        self.engine.move_flows(&self.reception, now);
        if !answers || self.order.has_in_hand() || self.egress.has_backlog(&mut self.engine) {
            self.send(now, &mut turn);
        }
        self.stats.count_turn(&turn, self.egress.take_undeliverable());
        self.tell_peers();
        if pauses {
            self.report_quiet();
        }
        turn
    }

    /// Sends as many packets as the links take, and flushes.
    fn send(&mut self, now: Nanos, turn: &mut Turn) {
        let Worker { engine, queues, egress, order, .. } = self;
        if order.may_send(queues, now) {
            order.count(egress, engine, queues);
            egress.send(engine, queues, turn, now);
        }
        for index in 0..queues.len() {
            attempt(queues, index, turn, |attached| attached.queue.flush(engine.pool()));
        }
        order.tried(egress, engine, queues, now);
    }

    /// In a pause: says whether anything is under way here.
    #[cold]
    fn report_quiet(&mut self) {
        let idle =
            self.engine.idle() && !self.engine.has_messages() && !self.engine.has_unsent_messages();
        if let (Some(quiet), Some(peers)) = (&self.quiet, self.engine.peers()) {
            let report =
                Report { idle, sent: peers.put(), received: peers.received, ..Report::default() };
            quiet.report(peers.me.into(), report);
        }
    }

    /// Starts tasks that wait for a descriptor. That takes a system call, so a busy worker rarely looks.
    #[cold]
    fn look_at_descriptors(&mut self, turn: &Turn) {
        if turn.is_idle() || self.stats.turns().is_multiple_of(LOOK_EVERY) {
            let ready = readable(self.engine.descriptors());
            self.engine.start_readable(&ready);
        }
    }

    /// Takes messages from other workers. A message may need a newer graph; the publisher has
    /// placed that in this worker's mailbox before any worker could send such a message.
    #[inline]
    fn take_over(&mut self, now: Nanos, turn: &mut Turn) {
        let Some(peers) = self.engine.peers() else { return };
        let before = peers.received;
        while let Some(epoch) = self.engine.take_over(now) {
            self.adopt(epoch, now, turn);
            if self.engine.epoch() < epoch {
                break;
            }
        }
        let after = self.engine.peers().map_or(before, |peers| peers.received);
        turn.taken_over = (after - before) as usize;
    }

    #[inline]
    fn tell_peers(&mut self) {
        if let Some(peers) = self.engine.peers() {
            peers.flush_and_wake();
            self.stats.count_peers(peers);
        }
    }

    /// Receives up to [`MAX_BURSTS`] bursts from a queue.
    fn receive(&mut self, index: usize, now: Nanos, turn: &mut Turn) {
        let before = turn.received;
        let is_empty = (0..MAX_BURSTS).find_map(|_| {
            let (received, asked) = self.receive_burst(index, now, turn);
            (received < BURST).then_some(received < asked)
        });
        // No filter redirects what an application sends, and what is in a failed queue is lost.
        let matters = self.queues[index].as_ref().is_some_and(|a| !a.queue.holds_back());
        let drained = is_empty == Some(true) || !matters;
        self.reception.note(index, turn.received - before, drained);
    }

    /// Receives a burst and runs it; returns how many packets it had, and how many there was room for.
    fn receive_burst(&mut self, index: usize, now: Nanos, turn: &mut Turn) -> (usize, usize) {
        let max = self.egress.room_for(index, &self.engine).min(BURST);
        if max == 0 || !self.order.may_receive(self.queues[index].as_ref()) {
            return (0, 0);
        }
        let Worker { engine, queues, egress, order, burst, .. } = self;
        let received =
            attempt(queues, index, turn, |attached| attached.queue.rx(engine.pool(), burst, max));
        let Some((n, attached)) = received.zip(queues[index].as_ref()).filter(|(n, _)| *n > 0)
        else {
            return (0, max);
        };
        for i in 0..n {
            if let Some(buffer) = burst.get_mut(i) {
                let meta = buffer.meta_mut();
                meta.link = attached.link;
                meta.arrived = now;
            }
        }
        turn.received += n;
        order.received(index, attached);
        let _of_others = engine.take_offered();
        // Tasks that a burst has caused find its packets in the nearest cache.
        turn.ran += engine.receive(attached.entry, burst, first_n(n), now, TASK_BUDGET);
        egress.learn(index, attached, n, engine.take_offered());
        (n, max)
    }

    /// Whether packets wait for a device to accept or to send them, or others for a worker to have sent what it received.
    fn has_backlog(&mut self) -> bool {
        let mut queues = self.queues.iter().flatten();
        self.engine.has_unsent_messages()
            || self.order.has_in_hand()
            || queues.any(|attached| attached.queue.unsent())
            || self.egress.has_backlog(&mut self.engine)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.close();
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({} queues, {:?})", self.queues.iter().flatten().count(), self.engine)
    }
}
