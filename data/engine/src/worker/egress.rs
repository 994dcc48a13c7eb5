//! From the engine's outboxes, one per link, to the queues of each link.

use std::collections::VecDeque;

use weever_packet::{Buffer, Nanos, PoolCache};

use super::{Attached, Turn, attempt};
use crate::Engine;

/// A link that has taken nothing for so many nanoseconds does not hold back what is received on
/// others. Until then its outbox holds a burst that came too fast; after that, packets for it that
/// find its outbox full are dropped and counted where they are sent.
const PATIENCE: Nanos = 10_000_000;

/// Packets that wait for one queue of a link that has several.
const QUEUE_BACKLOG: usize = 256;

#[derive(Debug)]
pub(super) struct Egress {
    /// By link: the positions of its queues among the worker's.
    queues_of: Box<[Vec<usize>]>,
    /// By queue: used where its link has several.
    backlogs: Box<[VecDeque<Buffer>]>,
    undeliverable: u64,
    /// By link: since when packets wait for it and it takes none.
    stalled: Box<[Option<Nanos>]>,
    /// Whether any link is stuck, and which.
    stuck: Box<[bool]>,
    any_stuck: bool,
}

impl Egress {
    pub(super) fn new(links: u16, link_of: &[u16]) -> Egress {
        let queues_of = |link| (0..link_of.len()).filter(|i| link_of[*i] == link).collect();
        Egress {
            queues_of: (0..links).map(queues_of).collect(),
            backlogs: link_of.iter().map(|_| VecDeque::new()).collect(),
            undeliverable: 0,
            stalled: vec![None; links.into()].into(),
            stuck: vec![false; links.into()].into(),
            any_stuck: false,
        }
    }

    /// Hands over what the devices take. What they do not take stays and is offered again.
    pub(super) fn send(
        &mut self,
        engine: &mut Engine,
        queues: &mut [Option<Attached>],
        turn: &mut Turn,
        now: Nanos,
    ) {
        self.any_stuck = false;
        for link in 0..self.queues_of.len() {
            let before = turn.sent;
            self.forget_lost(link, queues, engine.pool());
            if self.queues_of[link].is_empty() && self.carry(link, engine, turn) {
                self.watch(link, engine, turn.sent > before, now);
                continue;
            }
            let (pool, outbox) = engine.transmit(link as u16);
            match *self.queues_of[link] {
                [] => self.discard(pool, outbox),
                [index] => {
                    if !outbox.is_empty() {
                        let sent = attempt(queues, index, turn, |a| a.queue.tx(pool, outbox));
                        turn.sent += sent.unwrap_or(0);
                    }
                }
                _ => self.send_by_many(link, pool, outbox, queues, turn),
            }
            self.watch(link, engine, turn.sent > before, now);
        }
    }

    /// Has another worker send, if one serves the link.
    fn carry(&mut self, link: usize, engine: &mut Engine, turn: &mut Turn) -> bool {
        let waiting = engine.outbox(link as u16).len();
        if waiting == 0 {
            return true;
        }
        let carried = engine.carry(link as u16);
        turn.sent += waiting - engine.outbox(link as u16).len();
        carried
    }

    fn watch(&mut self, link: usize, engine: &mut Engine, progress: bool, now: Nanos) {
        let waits = !progress && !engine.outbox(link as u16).is_empty();
        let since = waits.then(|| self.stalled[link].unwrap_or(now));
        self.stalled[link] = since;
        self.stuck[link] = since.is_some_and(|since| now.saturating_sub(since) >= PATIENCE);
        self.any_stuck |= self.stuck[link];
    }

    /// How many packets may be received on `link`: as many as every outbox takes, so that packets
    /// wait in the device and are not dropped here. Other links count only as long as they move.
    #[inline]
    pub(super) fn room_behind(&self, link: u16, engine: &Engine) -> usize {
        if !self.any_stuck {
            return engine.outbox_room();
        }
        engine.room_of(|other| other == usize::from(link) || !self.stuck[other])
    }

    fn send_by_many(
        &mut self,
        link: usize,
        pool: &mut PoolCache,
        outbox: &mut VecDeque<Buffer>,
        queues: &mut [Option<Attached>],
        turn: &mut Turn,
    ) {
        let Egress { queues_of, backlogs, .. } = self;
        let mine = &queues_of[link];
        // Stops at the first packet whose queue is full: what stays in the outbox holds back the
        // receivers.
        while let Some(first) = outbox.front() {
            let index = mine[first.meta().queue as usize % mine.len()];
            if backlogs[index].len() >= QUEUE_BACKLOG {
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

    /// Takes queues that have failed out, with what waits for them.
    fn forget_lost(&mut self, link: usize, queues: &[Option<Attached>], pool: &mut PoolCache) {
        let Egress { queues_of, backlogs, undeliverable, .. } = self;
        queues_of[link].retain(|index| {
            let serves = queues[*index].is_some();
            if !serves {
                *undeliverable += backlogs[*index].len() as u64;
                backlogs[*index].drain(..).for_each(|buffer| pool.free(buffer));
            }
            serves
        });
    }

    /// There is nobody to send by. Kept packets would stop every other link's receiving.
    fn discard(&mut self, pool: &mut PoolCache, outbox: &mut VecDeque<Buffer>) {
        self.undeliverable += outbox.len() as u64;
        outbox.drain(..).for_each(|buffer| pool.free(buffer));
    }

    pub(super) fn has_backlog(&self, engine: &mut Engine) -> bool {
        let mut links = 0..self.queues_of.len() as u16;
        links.any(|link| !engine.outbox(link).is_empty())
            || self.backlogs.iter().any(|backlog| !backlog.is_empty())
    }

    /// How many packets were freed since the last call because their link has no queue here.
    pub(super) fn take_undeliverable(&mut self) -> u64 {
        std::mem::take(&mut self.undeliverable)
    }
}
