//! Datagrams that wait in a socket until the program takes them.
//!
//! They wait by the worker of the stack that brought them, and are taken from the workers in turn: where a policy gives
//! clients a worker to themselves, they have their share of the program as well, however much comes by the others. An
//! answer goes by the worker that brought its peer's last datagram. Datagrams of one flow come by one worker, so their
//! order is kept.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use weever_app_sockets::RxBuf;

/// Datagrams of one worker that wait in one socket at the most; later ones are lost, as in the kernel's full buffer.
const MOST: usize = 1024;
/// Peers whose workers are remembered, by a hash of their addresses. Two that share a place share a worker
/// for their answers, which costs the one of them its worker's speed and nothing else.
const PEERS: usize = 1024;

/// The datagrams of a socket.
#[derive(Default)]
pub(crate) struct Backlog {
    by_worker: Vec<VecDeque<RxBuf<'static>>>,
    /// The worker whose datagram is next, or the first behind it that has one.
    turn: usize,
    /// The workers of peers; there from the second worker on.
    homes: Option<Homes>,
}

struct Homes {
    hasher: RandomState,
    workers: Box<[u16; PEERS]>,
}

impl Homes {
    fn place(&mut self, peer: SocketAddr) -> &mut u16 {
        let place = self.hasher.hash_one(peer) as usize % PEERS;
        &mut self.workers[place]
    }
}

impl Backlog {
    /// A datagram has come; one too many is lost.
    pub(crate) fn push(&mut self, datagram: RxBuf<'static>) {
        let worker = usize::from(datagram.worker());
        while self.by_worker.len() <= worker {
            self.by_worker.push(VecDeque::new());
        }
        let waiting = &mut self.by_worker[worker];
        if waiting.len() < MOST {
            waiting.push_back(datagram);
        }
    }

    /// The worker whose datagram is next.
    fn next(&self) -> Option<usize> {
        let count = self.by_worker.len();
        let mut workers = (self.turn..count).chain(0..self.turn.min(count));
        workers.find(|worker| !self.by_worker[*worker].is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next().is_none()
    }

    /// The next datagram.
    pub(crate) fn first(&self) -> Option<&RxBuf<'static>> {
        self.by_worker[self.next()?].front()
    }

    /// Gives up the next datagram, which came from `peer`: the next one is another worker's, if there is one.
    pub(crate) fn pop(&mut self, peer: SocketAddr) {
        let Some(worker) = self.next() else { return };
        self.turn = worker + 1;
        drop(self.by_worker[worker].pop_front());
        if self.by_worker.len() > 1 {
            let homes = self.homes.get_or_insert_with(|| Homes {
                hasher: RandomState::new(),
                workers: Box::new([0; PEERS]),
            });
            *homes.place(peer) = worker as u16;
        }
    }

    /// The worker by which answers to a peer go; nothing where one worker brings all.
    pub(crate) fn home(&mut self, peer: SocketAddr) -> Option<u16> {
        Some(*self.homes.as_mut()?.place(peer))
    }

    /// Gives all of them up.
    pub(crate) fn clear(&mut self) {
        *self = Backlog::default();
    }

    /// Forgets all of them without giving their frames back.
    pub(crate) fn forget(&mut self) {
        let all = std::mem::take(self).by_worker;
        all.into_iter().flatten().for_each(std::mem::forget);
    }
}
