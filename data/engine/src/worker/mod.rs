//! A thread's loop: receive, run the graph, send (DESIGN §2).

mod egress;
mod pace;
mod run;
mod stats;
#[cfg(test)]
mod tests;
mod wait;

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use weever_link::{LinkError, LinkQueue};
use weever_packet::{BURST, Burst, Nanos, first_n};

use crate::mailbox::Mailbox;
use crate::schedule::Update;
use crate::{Engine, Entry};
use egress::Egress;
pub use pace::Pace;
pub use run::{Mode, monotonic};
pub use stats::WorkerStats;
use wait::Bell;
pub(crate) use wait::Doorbell;
pub use wait::Waker;

/// A queue that a worker serves, and where its packets enter the graph.
pub struct Attached {
    /// The link's number, by which blocks send: below [`Limits::links`](crate::Limits::links).
    pub link: u16,
    /// Where received packets start.
    pub entry: Entry,
    /// The queue.
    pub queue: Box<dyn LinkQueue>,
}

/// A queue that failed. The worker has let go of it and serves the others.
#[derive(Debug)]
pub struct Lost {
    /// The link's number.
    pub link: u16,
    /// What happened.
    pub error: LinkError,
}

/// What one turn of the loop did.
#[derive(Debug, Default)]
pub struct Turn {
    /// Packets received.
    pub received: usize,
    /// Queued tasks run.
    pub ran: usize,
    /// Packets handed to devices.
    pub sent: usize,
    /// Tasks, wake-ups and packets that other workers have handed over.
    pub taken_over: usize,
    /// Queues that failed.
    pub lost: Vec<Lost>,
}

impl Turn {
    /// Whether nothing happened.
    pub fn is_idle(&self) -> bool {
        self.ran == 0 && !self.moved()
    }

    /// Whether a packet came or went.
    pub(crate) fn moved(&self) -> bool {
        self.received + self.sent + self.taken_over > 0
    }
}

/// Bursts that one turn takes from a queue. Several in a row find the graph's code and state in the
/// caches, which sending, a system call, then pushes out again.
const BURSTS: usize = 4;

/// Queued tasks that are run, if there are so many, before the next burst is received.
const BUDGET: usize = 4 * BURST;

/// Batches of queued tasks that are run, if there are so many, before the graph changes.
const DRAIN: usize = 64;

/// An engine together with the queues that feed it and that it sends by.
///
/// Either call [`turn`](Worker::turn) yourself, with your own clock; or [`run`](Worker::run) it
/// on a thread of its own. Whoever starts the thread pins it.
pub struct Worker {
    engine: Engine,
    /// `None`: it failed.
    queues: Vec<Option<Attached>>,
    egress: Egress,
    burst: Box<Burst>,
    /// The queue that receives first in the next turn, so that none has the room to itself.
    first: usize,
    bell: Bell,
    stats: Arc<WorkerStats>,
    pace: Arc<Pace>,
    /// Brings the next graph, if the worker is one of a team.
    mailbox: Option<Arc<Mailbox<Update>>>,
}

impl Worker {
    /// A worker for `engine`. A link may have several queues here; a packet leaves by the one that
    /// its metadata's queue number selects, modulo their number.
    ///
    /// # Errors
    /// Without a file descriptor for the [`Waker`]. `InvalidInput`: a queue's link is not below
    /// [`Limits::links`](crate::Limits::links).
    pub fn new(engine: Engine, queues: Vec<Attached>) -> std::io::Result<Worker> {
        let links = queues.iter().map(|q| q.link).collect::<Vec<_>>();
        let known = engine.limits().links;
        if let Some(link) = links.iter().find(|link| **link >= known) {
            let text = format!("a queue is of link {link}, and the limits say links = {known}");
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        Ok(Worker {
            egress: Egress::new(engine.limits().links, &links),
            stats: Arc::new(WorkerStats::new(links)),
            engine,
            queues: queues.into_iter().map(Some).collect(),
            burst: Box::new(Burst::new()),
            first: 0,
            bell: Bell::new()?,
            pace: Arc::new(Pace::new(Mode::default())),
            mailbox: None,
        })
    }

    /// From now on, the worker takes its graphs from this mailbox.
    pub(crate) fn join_team(&mut self) -> Arc<Mailbox<Update>> {
        self.mailbox.get_or_insert_default().clone()
    }

    /// Goes on with the next graph, if there is one.
    #[inline]
    fn look_for_news(&mut self, now: Nanos, turn: &mut Turn) {
        let news = self.mailbox.as_ref().and_then(|mailbox| mailbox.news(self.engine.epoch()));
        if let Some(epoch) = news {
            self.adopt(epoch, now, turn);
        }
    }

    #[cold]
    fn adopt(&mut self, epoch: u64, now: Nanos, turn: &mut Turn) {
        self.finish_queued(now, turn);
        let Worker { mailbox: Some(mailbox), engine, .. } = self else { return };
        while let Some((number, mut update)) = mailbox.take(epoch) {
            engine.switch(&mut update);
            mailbox.done(number, update);
        }
    }

    /// What waits comes before what is received after a change, also where that has a shorter way. It
    /// is run as far as there is room for what it sends.
    fn finish_queued(&mut self, now: Nanos, turn: &mut Turn) {
        let Worker { engine, queues, egress, .. } = self;
        for _ in 0..DRAIN {
            if engine.outbox_room() < BURST {
                egress.send(engine, queues, turn, now);
            }
            if engine.idle() || engine.outbox_room() < BURST {
                return;
            }
            turn.ran += engine.run(now, BURST);
        }
    }

    pub(crate) fn doorbell(&self) -> Arc<Doorbell> {
        self.bell.door().clone()
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// What wakes this worker from any thread when it sleeps in [`run`](Worker::run).
    pub fn waker(&self) -> Waker {
        self.bell.waker()
    }

    /// How it waits in [`run_at_pace`](Worker::run_at_pace), to be changed from any thread.
    pub fn pace(&self) -> Arc<Pace> {
        self.pace.clone()
    }

    /// The worker's counters and its queues', readable from any thread.
    pub fn stats(&self) -> Arc<WorkerStats> {
        self.stats.clone()
    }

    /// One turn: a burst from each queue as far as there is room behind it, queued tasks up to a
    /// budget, everything that can be sent, one flush. Does not block. `now` is monotonic.
    pub fn turn(&mut self, now: Nanos) -> Turn {
        let mut turn = Turn::default();
        self.look_for_news(now, &mut turn);
        self.take_over(now, &mut turn);
        let queues = self.queues.len();
        self.queues.iter_mut().flatten().for_each(|attached| attached.queue.advance(now));
        for i in 0..queues {
            self.receive((self.first + i) % queues, now, &mut turn);
        }
        self.first = if self.first + 1 < queues { self.first + 1 } else { 0 };
        turn.ran += self.engine.run(now, BUDGET);
        let Worker { engine, queues, egress, stats, .. } = self;
        egress.send(engine, queues, &mut turn, now);
        for index in 0..queues.len() {
            attempt(queues, index, &mut turn, |attached| attached.queue.flush(engine.pool()));
        }
        stats.count_turn(&turn, egress.take_undeliverable());
        self.tell_peers();
        turn
    }

    /// Takes what other workers hand over. What they mean in a newer graph, they have that graph from
    /// a publisher that has given it to this worker too.
    #[inline]
    fn take_over(&mut self, now: Nanos, turn: &mut Turn) {
        let Some(peers) = self.engine.peers() else { return };
        let before = peers.taken;
        while let Some(epoch) = self.engine.take_over() {
            self.adopt(epoch, now, turn);
            if self.engine.epoch() < epoch {
                break;
            }
        }
        let after = self.engine.peers().map_or(before, |peers| peers.taken);
        turn.taken_over = (after - before) as usize;
    }

    #[inline]
    fn tell_peers(&mut self) {
        if let Some(peers) = self.engine.peers() {
            peers.ring_bells();
            self.stats.count_peers(peers);
        }
    }

    /// Up to [`BURSTS`] bursts from a queue that has so many.
    fn receive(&mut self, index: usize, now: Nanos, turn: &mut Turn) {
        for _ in 0..BURSTS {
            if self.receive_burst(index, now, turn) < BURST {
                return;
            }
        }
    }

    /// Receives a burst and runs it; returns how many packets it had.
    fn receive_burst(&mut self, index: usize, now: Nanos, turn: &mut Turn) -> usize {
        let Some(link) = self.queues[index].as_ref().map(|attached| attached.link) else {
            return 0;
        };
        let room = self.egress.room_behind(link, &self.engine);
        let max = room.min(self.engine.room_for_strangers()).min(BURST);
        if max == 0 {
            return 0;
        }
        let Worker { engine, queues, burst, .. } = self;
        let received =
            attempt(queues, index, turn, |attached| attached.queue.rx(engine.pool(), burst, max));
        let Some((n, attached)) = received.zip(queues[index].as_ref()).filter(|(n, _)| *n > 0)
        else {
            return 0;
        };
        for i in 0..n {
            if let Some(buffer) = burst.get_mut(i) {
                let meta = buffer.meta_mut();
                meta.link = attached.link;
                meta.arrived = now;
            }
        }
        turn.received += n;
        engine.inject(attached.entry, burst, first_n(n), now);
        // What follows from a burst finds its packets in the nearest cache.
        turn.ran += engine.run(now, BUDGET);
        n
    }

    /// Whether packets wait for a device to take them, or to send what it has taken.
    fn has_backlog(&mut self) -> bool {
        let mut queues = self.queues.iter().flatten();
        self.engine.has_unsent_parcels()
            || queues.any(|attached| attached.queue.unsent())
            || self.egress.has_backlog(&mut self.engine)
    }
}

/// Does something with a queue, and lets go of it when it fails.
fn attempt<T>(
    queues: &mut [Option<Attached>],
    index: usize,
    turn: &mut Turn,
    action: impl FnOnce(&mut Attached) -> Result<T, LinkError>,
) -> Option<T> {
    let attached = queues[index].as_mut()?;
    match action(attached) {
        Ok(done) => Some(done),
        Err(error) => {
            turn.lost.push(Lost { link: attached.link, error });
            queues[index] = None;
            None
        }
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
