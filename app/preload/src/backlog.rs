//! Datagrams that wait in a socket until the program takes them.
//!
//! There is a list for each worker of the stack, and the program reads from the lists in turn: where a policy gives
//! clients a worker to themselves, they have their share of the program as well, however much the other workers bring.
//! An answer is sent by the worker that brought its peer's last datagram. Datagrams of one flow come by one worker, so
//! their order is kept.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use weever_app_sockets::{Info, RxBuf};

use crate::undelivered::{Copied, Undelivered};

/// Datagrams of one worker that wait in one socket at the most; later ones are lost, as in the kernel's full buffer.
const MOST: usize = 1024;
/// Places of the table of peers' workers, indexed by a hash of the peers' addresses. Two peers at one
/// place share a worker for their answers, so that one of them may get them by a slower way, and loses
/// none.
const PEERS: usize = 1024;

/// Datagrams that are told at once at the most, and their octets, as in the kernel.
const MOST_TOGETHER: usize = 64;
const LONGEST: usize = 65_535;

/// The datagrams of a socket.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Those that waited when other processes got the socket, before all others.
    undelivered: VecDeque<Undelivered>,
    by_worker: Vec<VecDeque<RxBuf<'static>>>,
    /// The list to read from next; if it is empty, the first behind it that is not.
    turn: usize,
    /// The workers of peers; empty as long as one worker has brought all datagrams.
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

/// A datagram that waits.
pub(crate) enum Waiting<'b> {
    /// In frames of this process' queue.
    Received(&'b RxBuf<'static>),
    /// Since before another process got the socket.
    Undelivered(&'b Copied),
}

impl Waiting<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Waiting::Received(datagram) => datagram.len(),
            Waiting::Undelivered(datagram) => datagram.octets.len(),
        }
    }

    pub(crate) fn info(&self) -> Info {
        match self {
            Waiting::Received(datagram) => datagram.info(),
            Waiting::Undelivered(datagram) => datagram.info,
        }
    }
}

impl Backlog {
    /// Adds a datagram that has come, or drops it if its list is full.
    pub(crate) fn push(&mut self, datagram: RxBuf<'static>) {
        self.drop_delivered();
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
    #[inline]
    fn next(&self) -> Option<usize> {
        if let [only] = &self.by_worker[..] {
            return (!only.is_empty()).then_some(0);
        }
        let count = self.by_worker.len();
        let mut workers = (self.turn..count).chain(0..self.turn.min(count));
        workers.find(|worker| !self.by_worker[*worker].is_empty())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_undelivered() && self.next().is_none()
    }

    /// Whether datagrams wait since before a fork, which other processes may take at any time.
    #[inline]
    pub(crate) fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty() && self.undelivered.iter().any(|datagrams| datagrams.len() > 0)
    }

    /// Gives up lists that were read to their end; the lists are read in their order.
    fn drop_delivered(&mut self) {
        while self.undelivered.front().is_some_and(|datagrams| datagrams.len() == 0) {
            self.undelivered.pop_front();
        }
    }

    /// The next datagram. One from before a fork may be taken by another process afterwards.
    pub(crate) fn first(&self) -> Option<Waiting<'_>> {
        let mut undelivered = self.undelivered.iter().filter_map(Undelivered::first);
        let first = undelivered.next().map(Waiting::Undelivered);
        first.or_else(|| self.first_received().map(Waiting::Received))
    }

    /// The next datagram, for this process to read: one from before a fork is taken, one that its queue has received
    /// stays until it is [removed](Self::pop).
    pub(crate) fn first_to_read(&mut self) -> Option<Waiting<'_>> {
        self.drop_delivered();
        let mut undelivered = self.undelivered.iter().filter_map(Undelivered::take);
        let first = undelivered.next().map(Waiting::Undelivered);
        first.or_else(|| self.first_received().map(Waiting::Received))
    }

    /// Another process is about to get the socket: what waits is for whichever reads first. Returns how many datagrams stay this process'
    /// alone, because there is no room for more.
    pub(crate) fn share(&mut self) -> usize {
        self.drop_delivered();
        let received = |all: &Backlog| all.by_worker.iter().map(VecDeque::len).sum::<usize>();
        let shared: usize = self.undelivered.iter().map(Undelivered::len).sum();
        if received(self) == 0 {
            return 0;
        }
        let Some(mut datagrams) = Undelivered::new() else { return received(self) };
        let room = (MOST * self.by_worker.len()).saturating_sub(shared);
        for _ in 0..room {
            let Some(next) = self.first_received().map(Copied::of) else { break };
            self.pop(1);
            datagrams.push(next);
        }
        datagrams.complete();
        self.undelivered.push_back(datagrams);
        received(self)
    }

    /// Descriptors of the files in which others find what waits since then.
    pub(crate) fn to_pass_on(&self) -> Vec<OwnedFd> {
        let waiting = self.undelivered.iter().filter(|datagrams| datagrams.len() > 0);
        waiting.filter_map(Undelivered::to_pass_on).collect()
    }

    /// Takes over what waited, in such files.
    pub(crate) fn take_over(&mut self, files: impl Iterator<Item = OwnedFd>) {
        self.undelivered.extend(files.filter_map(Undelivered::open));
    }

    /// The next datagram that the queue has received.
    #[inline]
    fn first_received(&self) -> Option<&RxBuf<'static>> {
        self.by_worker[self.next()?].front()
    }

    /// The next datagrams that the queue has received, of one worker, in their order.
    pub(crate) fn received(&self) -> impl Iterator<Item = &RxBuf<'static>> {
        self.next().into_iter().flat_map(|worker| &self.by_worker[worker])
    }

    /// How many of the next datagrams that the queue has received may be told at once (`UDP_GRO`), with room for so
    /// many octets: those of one flow, of the first one's length and traffic class. The last one may be shorter.
    pub(crate) fn together(&self, room: usize) -> usize {
        let mut all = self.received();
        let Some(first) = all.next() else { return 0 };
        let (len, info) = (first.len(), first.info());
        let flow = |info: &Info| (info.remote(), info.local(), info.traffic_class(), info.hops());
        let (mut count, mut octets) = (1, len);
        for next in all.take(MOST_TOGETHER - 1) {
            let more = next.len();
            if more == 0
                || more > len
                || octets + more > room.min(LONGEST)
                || flow(&next.info()) != flow(&info)
            {
                break;
            }
            (count, octets) = (count + 1, octets + more);
            if more < len {
                break;
            }
        }
        count
    }

    /// Removes the next datagrams that the queue has received, so many of one worker and one peer. The turn passes to
    /// the next worker that has one.
    #[inline]
    pub(crate) fn pop(&mut self, count: usize) {
        let Some(worker) = self.next() else { return };
        self.turn = worker + 1;
        if self.by_worker.len() > 1 {
            self.note_home(worker);
        }
        let waiting = &mut self.by_worker[worker];
        for _ in 0..count {
            drop(waiting.pop_front());
        }
    }

    /// The peer of the next datagram of a worker gets its answers from that one.
    #[inline(never)]
    fn note_home(&mut self, worker: usize) {
        let Some(peer) = self.by_worker[worker].front().map(RxBuf::remote) else { return };
        let homes = self.homes.get_or_insert_with(|| Homes {
            hasher: RandomState::new(),
            workers: Box::new([0; PEERS]),
        });
        *homes.place(peer) = worker as u16;
    }

    /// The worker that sends answers to a peer; `None` where one worker brings all datagrams.
    pub(crate) fn home(&mut self, peer: SocketAddr) -> Option<u16> {
        Some(*self.homes.as_mut()?.place(peer))
    }

    /// Gives all up that the queue has received.
    pub(crate) fn clear(&mut self) {
        let undelivered = std::mem::take(&mut self.undelivered);
        *self = Backlog { undelivered, ..Backlog::default() };
    }

    /// Forgets all of them without giving their frames back.
    pub(crate) fn forget(&mut self) {
        let all = std::mem::take(self).by_worker;
        all.into_iter().flatten().for_each(std::mem::forget);
    }
}
