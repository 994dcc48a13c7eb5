//! From the engine's outboxes, one per link, to the queues of each link.

use std::collections::VecDeque;

use weever_packet::{Buffer, PoolCache};

use super::{Attached, Turn, attempt};
use crate::Engine;

/// Packets that wait for one queue of a link that has several.
const QUEUE_BACKLOG: usize = 256;

#[derive(Debug)]
pub(super) struct Egress {
    /// By link: the positions of its queues among the worker's.
    queues_of: Box<[Vec<usize>]>,
    /// By queue: used where its link has several.
    backlogs: Box<[VecDeque<Buffer>]>,
    undeliverable: u64,
}

impl Egress {
    pub(super) fn new(links: u16, link_of: &[u16]) -> Egress {
        let queues_of = |link| (0..link_of.len()).filter(|i| link_of[*i] == link).collect();
        Egress {
            queues_of: (0..links).map(queues_of).collect(),
            backlogs: link_of.iter().map(|_| VecDeque::new()).collect(),
            undeliverable: 0,
        }
    }

    /// Hands over what the devices take. What they do not take stays and is offered again.
    pub(super) fn send(
        &mut self,
        engine: &mut Engine,
        queues: &mut [Option<Attached>],
        turn: &mut Turn,
    ) {
        for link in 0..self.queues_of.len() {
            self.forget_lost(link, queues, engine.pool());
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
        }
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
        let Egress { queues_of, backlogs, undeliverable } = self;
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
