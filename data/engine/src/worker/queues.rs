//! The queues that a worker serves, and the distribution of the engine's outboxes (one per link) to
//! them.

use std::collections::VecDeque;

use weever_link::{LinkError, LinkQueue};
use weever_packet::{Buffer, Nanos, PoolCache};

use crate::interpreter::Offered;
use crate::{Engine, Entry, Limits};

/// A queue that a worker serves, and where its packets enter the graph.
pub struct Attached {
    /// The link's number, by which blocks send: below [`Limits::links`](crate::Limits::links).
    pub link: u16,
    /// The entry at which received packets start.
    pub entry: Entry,
    /// The queue.
    pub queue: Box<dyn LinkQueue>,
}

/// A queue that failed. The worker has dropped it and serves the others.
#[derive(Debug)]
pub struct Lost {
    /// The link's number.
    pub link: u16,
    /// The cause.
    pub error: LinkError,
}

/// The work done in one turn.
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

    /// Whether a packet was received, sent or handed over.
    pub(crate) fn moved(&self) -> bool {
        self.received + self.sent + self.taken_over > 0
    }
}

/// Calls `action` on a queue, and drops the queue if that fails.
pub(super) fn attempt<T>(
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

/// A link that has accepted nothing for this many nanoseconds no longer limits reception on other
/// links. Before that, its outbox absorbs bursts; afterwards, packets that find the outbox full are
/// dropped and counted at the node that sends them.
const STALL_TIMEOUT: Nanos = 10_000_000;

#[derive(Debug)]
pub(super) struct Egress {
    /// By link: the indices of its queues.
    queues_of: Box<[Vec<usize>]>,
    /// By queue: packets waiting for it, used if its link has several.
    backlogs: Box<[VecDeque<Buffer>]>,
    /// The most packets that wait for one of these.
    most_waiting: usize,
    undeliverable: u64,
    /// By link: how many packets have left its outbox and its queues' backlogs.
    left: Box<[u64]>,
    /// By link: since when packets have been waiting without progress.
    stalled: Box<[Option<Nanos>]>,
    /// By link: whether it has been stalled for [`STALL_TIMEOUT`].
    stuck: Box<[bool]>,
    /// By queue: the links whose room its reception waits for.
    needs: Box<[Option<Offered>]>,
}

impl Egress {
    pub(super) fn new(limits: &Limits, link_of: &[u16]) -> Egress {
        let links = limits.links;
        let queues_of = |link| (0..link_of.len()).filter(|i| link_of[*i] == link).collect();
        Egress {
            queues_of: (0..links).map(queues_of).collect(),
            backlogs: link_of.iter().map(|_| VecDeque::new()).collect(),
            most_waiting: limits.backlog,
            undeliverable: 0,
            left: vec![0; links.into()].into(),
            stalled: vec![None; links.into()].into(),
            stuck: vec![false; links.into()].into(),
            needs: vec![None; link_of.len()].into(),
        }
    }

    /// Offers queued packets to the devices. Those not accepted stay queued.
    pub(super) fn send(
        &mut self,
        engine: &mut Engine,
        queues: &mut [Option<Attached>],
        turn: &mut Turn,
        now: Nanos,
    ) {
        let all_serve = queues.iter().all(Option::is_some);
        for link in 0..self.queues_of.len() {
            if all_serve && self.has_nothing(link, engine) {
                continue;
            }
            let before = turn.sent;
            if !all_serve {
                self.forget_lost(link, queues, engine.pool());
            }
            if self.queues_of[link].is_empty() && self.send_by_peer(link, engine, turn) {
                self.watch(link, engine, turn.sent - before, now);
                continue;
            }
            let (pool, outbox) = engine.transmit(link as u16);
            match *self.queues_of[link] {
                [] => self.discard(link, pool, outbox),
                [index] => {
                    if !outbox.is_empty() {
                        let sent = attempt(queues, index, turn, |a| a.queue.tx(pool, outbox));
                        turn.sent += sent.unwrap_or(0);
                    }
                }
                _ => self.send_by_many(link, pool, outbox, queues, turn),
            }
            self.watch(link, engine, turn.sent - before, now);
        }
    }

    /// Whether nothing waits for a link, and nothing has waited for it lately.
    #[inline]
    fn has_nothing(&self, link: usize, engine: &mut Engine) -> bool {
        engine.outbox(link as u16).is_empty()
            && self.stalled[link].is_none()
            && (self.queues_of[link].len() < 2 || self.waiting(link, engine) == 0)
    }

    /// Hands the packets to a worker that serves the link. Returns false if there is none.
    fn send_by_peer(&mut self, link: usize, engine: &mut Engine, turn: &mut Turn) -> bool {
        let waiting = engine.outbox(link as u16).len();
        if waiting == 0 {
            return true;
        }
        let carried = engine.send_by_peer(link as u16);
        turn.sent += waiting - engine.outbox(link as u16).len();
        carried
    }

    fn watch(&mut self, link: usize, engine: &mut Engine, sent: usize, now: Nanos) {
        self.left[link] += sent as u64;
        let waits = sent == 0 && !engine.outbox(link as u16).is_empty();
        let since = waits.then(|| self.stalled[link].unwrap_or(now));
        self.stalled[link] = since;
        self.stuck[link] = since.is_some_and(|since| now.saturating_sub(since) >= STALL_TIMEOUT);
    }

    /// How many packets a queue may receive: as many as the links that its own packets need can
    /// take, as far as these make progress. Other congested links drop packets and slow no queue.
    #[inline]
    pub(super) fn room_for(&self, index: usize, engine: &Engine) -> usize {
        match self.needs[index] {
            None => usize::MAX,
            Some(needs) => {
                let rings = if needs.to_owners { engine.ring_room() } else { usize::MAX };
                engine.room_of(|link| needs.used(link) && !self.stuck[link]).min(rings)
            }
        }
    }

    /// Learns from a queue's last burst which links its next packets need. Where they would be lost
    /// if they were not received, only the room for answers counts, and only while there is nothing
    /// but answers: work on packets that end in a full outbox of their own link would be in vain.
    /// Where they wait at their sender, every link counts that they went to, and the rings to the owners of flows.
    #[inline]
    pub(super) fn learn(&mut self, index: usize, from: &Attached, n: usize, offered: Offered) {
        let answers = offered.used_only(from.link.into()) && offered.packets >= n;
        let mut needs = offered;
        needs.to_owners &= from.queue.holds_back();
        self.needs[index] = (answers || from.queue.holds_back()).then_some(needs);
    }

    fn send_by_many(
        &mut self,
        link: usize,
        pool: &mut PoolCache,
        outbox: &mut VecDeque<Buffer>,
        queues: &mut [Option<Attached>],
        turn: &mut Turn,
    ) {
        let Egress { queues_of, backlogs, most_waiting, .. } = self;
        let mine = &queues_of[link];
        // Stops at the first packet whose queue is full: packets that stay in the outbox limit
        // reception.
        while let Some(first) = outbox.front() {
            let index = mine[first.meta().queue as usize % mine.len()];
            if backlogs[index].len() >= *most_waiting {
                break;
            }
            backlogs[index].extend(outbox.pop_front());
        }
        for index in mine {
            let backlog = &mut backlogs[*index];
            if !backlog.is_empty() {
                let sent = attempt(queues, *index, turn, |a| a.queue.tx(pool, backlog));
                turn.sent += sent.unwrap_or(0);
            }
        }
    }

    /// Removes failed queues, and drops the packets that wait for them.
    fn forget_lost(&mut self, link: usize, queues: &[Option<Attached>], pool: &mut PoolCache) {
        let Egress { queues_of, backlogs, undeliverable, left, .. } = self;
        queues_of[link].retain(|index| {
            let serves = queues[*index].is_some();
            if !serves {
                *undeliverable += backlogs[*index].len() as u64;
                left[link] += backlogs[*index].len() as u64;
                backlogs[*index].drain(..).for_each(|buffer| pool.free(buffer));
            }
            serves
        });
    }

    /// Drops packets of a link that no queue serves; if they stayed, they would block reception on
    /// every other link.
    fn discard(&mut self, link: usize, pool: &mut PoolCache, outbox: &mut VecDeque<Buffer>) {
        self.undeliverable += outbox.len() as u64;
        self.left[link] += outbox.len() as u64;
        outbox.drain(..).for_each(|buffer| pool.free(buffer));
    }

    fn waiting(&self, link: usize, engine: &mut Engine) -> u64 {
        let of_queues = self.queues_of[link].iter().map(|index| self.backlogs[*index].len());
        (engine.outbox(link as u16).len() + of_queues.sum::<usize>()) as u64
    }

    /// How many packets will have left for a link when those that wait now have; `None`: none do, or an application receives
    /// them, which has a ring to each worker and so no order among them.
    pub(super) fn sends_until(
        &self,
        link: usize,
        engine: &mut Engine,
        queues: &[Option<Attached>],
    ) -> Option<u64> {
        let waiting = self.waiting(link, engine);
        let is_application =
            self.attached(link, queues).any(|attached| attached.queue.holds_back());
        (waiting > 0 && !is_application).then_some(self.left[link] + waiting)
    }

    /// Whether so many packets have left for a link, and none waits to be flushed. A failed queue may have taken packets
    /// along that are not counted.
    pub(super) fn has_sent(
        &self,
        link: usize,
        until: u64,
        engine: &mut Engine,
        queues: &[Option<Attached>],
    ) -> bool {
        let mut open = self.attached(link, queues);
        (self.left[link] >= until || self.waiting(link, engine) == 0)
            && !open.any(|attached| attached.queue.unsent())
    }

    fn attached<'a>(
        &self,
        link: usize,
        queues: &'a [Option<Attached>],
    ) -> impl Iterator<Item = &'a Attached> {
        self.queues_of[link].iter().filter_map(|index| queues[*index].as_ref())
    }

    pub(super) fn has_backlog(&self, engine: &mut Engine) -> bool {
        let mut links = 0..self.queues_of.len() as u16;
        links.any(|link| !engine.outbox(link).is_empty())
            || self.backlogs.iter().any(|backlog| !backlog.is_empty())
    }

    /// Returns and resets the number of packets dropped because their link has no queue.
    pub(super) fn take_undeliverable(&mut self) -> u64 {
        std::mem::take(&mut self.undeliverable)
    }
}
