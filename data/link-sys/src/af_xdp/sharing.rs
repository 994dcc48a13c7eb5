//! Several threads on one receive queue, without a lock (COREC): a set number of workers serves the ring
//! of a device queue's first socket.
//!
//! ```text
//!  device queue ──► ring of its first socket ─┬─► leader: sleeps on the socket
//!                                             └─► helpers: each sleeps on its bell and its own socket
//! ```
//!
//! A worker that polls claims its part of the waiting descriptors, copies them out and releases them before it
//! touches a frame (`weever-ring`). If it leaves enough, it rings for one helper that sleeps, and that one for
//! the next: so an arrival wakes one thread, and a thread idles only while fewer packets wait than a
//! wake-up costs. Packets that a filter sends to a helper's own socket are never shared.
//!
//! Where order is kept, a worker's claim is also its place in the order of departure ([`Departures`]): it sends what it
//! received when all before that has been sent, or has been waited for as long as [`PATIENCE`] says.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libc::xdp_desc;
use rustix::event::{EventfdFlags, epoll, eventfd};
use weever_packet::Nanos;
use weever_ring::{Departures, MultiConsumer, Ticket, WORTH_WAKING, part};

use super::error::ThreadsError;
use super::rings::RxRing;

/// How long a worker waits for what was received before its own packets to be sent, where order is kept: as long as other
/// threads may have the core of the worker that is late. A queue with one worker waits for that, too.
/// Shorter ones were tried with the kernel's TCP (`docs/design/0083`).
const PATIENCE: Nanos = 10_000_000;

/// How many threads receive from each queue of a device, for any thread to read and set.
#[derive(Debug)]
pub struct ReceiveThreads {
    now: AtomicU16,
    most: u16,
    ordered: AtomicBool,
    /// The rings of all sockets as far as the link is open, with their numbers on their device queues.
    rings: Mutex<Vec<(u16, Weak<RxRing>)>>,
}

impl ReceiveThreads {
    pub(super) fn new(
        threads: u16,
        most: u16,
        ordered: bool,
    ) -> Result<ReceiveThreads, ThreadsError> {
        let (now, rings) = (AtomicU16::new(1), Mutex::default());
        let threads_of = ReceiveThreads { now, most, ordered: ordered.into(), rings };
        threads_of.set(threads)?;
        Ok(threads_of)
    }

    /// How many receive from each queue now.
    pub fn get(&self) -> u16 {
        self.now.load(Ordering::Relaxed)
    }

    /// The most there can be: the sockets of a queue.
    pub fn most(&self) -> u16 {
        self.most
    }

    /// Whether packets that several workers receive from one queue are sent in the order in which they came.
    pub fn keeps_order(&self) -> bool {
        self.ordered.load(Ordering::Relaxed)
    }

    /// From each worker's next poll on, order is kept, or no longer. No packet is lost. Does not block.
    pub fn keep_order(&self, ordered: bool) {
        self.ordered.store(ordered, Ordering::Relaxed);
        self.restart_orders();
    }

    /// How often order was given up so far: a worker was stopped with packets in hand, or was slow, and others did not wait
    /// for it.
    pub fn given_up(&self) -> u64 {
        let rings = self.lock();
        let each = rings.iter().filter_map(|(_, ring)| Some(ring.upgrade()?.departures.given_up()));
        each.sum()
    }

    /// Nobody waits for what was received while order was not kept. Call it after the setting has changed: what a
    /// worker claims before it sees the change has no place in the order, and is below the position read here.
    fn restart_orders(&self) {
        fence(Ordering::SeqCst);
        let rings = self.lock();
        let open = rings.iter().filter_map(|(_, ring)| ring.upgrade());
        open.for_each(|open| open.departures.restart(open.ring.position()));
    }

    pub(super) fn watch(&self, socket: u16, ring: &Arc<RxRing>) {
        self.lock().push((socket, Arc::downgrade(ring)));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u16, Weak<RxRing>)>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many packets have come by the first socket of the device queues, by the second, and so on, whichever
    /// workers took them. Differences count. Does not block the packet path.
    pub fn arrived(&self) -> Vec<u64> {
        let mut arrived = vec![0; usize::from(self.most)];
        for (socket, ring) in self.lock().iter() {
            let position = ring.upgrade().map_or(0, |ring| ring.ring.position());
            if let Some(sum) = arrived.get_mut(usize::from(*socket)) {
                *sum += position;
            }
        }
        arrived
    }

    /// Whether [`set`](Self::set) would take that number.
    ///
    /// # Errors
    /// As there.
    pub fn check(&self, threads: u16) -> Result<(), ThreadsError> {
        let is_possible = (1..=self.most).contains(&threads);
        is_possible.then_some(()).ok_or(ThreadsError { threads, most: self.most })
    }

    /// From its next poll on, this many workers receive. No packet is lost: those in the ring are taken by the
    /// workers that are left. Does not block.
    ///
    /// # Errors
    /// [`ThreadsError`] for none, and for more than [`most`](Self::most).
    pub fn set(&self, threads: u16) -> Result<(), ThreadsError> {
        self.check(threads)?;
        let before = self.now.swap(threads, Ordering::Relaxed);
        if before == 1 {
            self.restart_orders();
        }
        Ok(())
    }
}

/// The workers on one device queue.
pub(super) struct SharedRing {
    ring: Arc<RxRing>,
    threads: Arc<ReceiveThreads>,
    /// Of the helpers, by their number less one.
    bells: Box<[Bell]>,
}

/// One of them: the leader is number 0.
pub(super) struct Member {
    shared: Arc<SharedRing>,
    number: u16,
    /// Of the packets that it has received last and not sent, where order is kept.
    ticket: Option<Ticket>,
}

impl SharedRing {
    /// # Errors
    /// Without descriptors for the bells, two for each helper.
    pub(super) fn new(ring: Arc<RxRing>, threads: Arc<ReceiveThreads>) -> io::Result<SharedRing> {
        let bells: io::Result<_> = (1..threads.most).map(|_| Bell::new()).collect();
        Ok(SharedRing { ring, threads, bells: bells? })
    }

    /// Rings for one helper that sleeps, if there is one.
    #[inline]
    fn call(&self, threads: u16) {
        // A helper arms its bell and then looks at the ring; here it is the other way round.
        fence(Ordering::SeqCst);
        let helpers = self.bells.iter().take(usize::from(threads) - 1);
        for bell in helpers {
            if bell.ring() {
                return;
            }
        }
    }
}

impl Member {
    /// `socket` is the member's own.
    ///
    /// # Errors
    /// When the kernel refuses to wait for bell and socket together.
    pub(super) fn new(
        shared: Arc<SharedRing>,
        number: u16,
        socket: BorrowedFd<'_>,
    ) -> io::Result<Member> {
        let member = Member { shared, number, ticket: None };
        member.bell().map_or(Ok(()), |bell| bell.wait_for(socket))?;
        Ok(member)
    }

    pub(super) fn shared(&self) -> Arc<SharedRing> {
        Arc::clone(&self.shared)
    }

    /// The leader's ring, and how many packets of it this member may claim: its part of the waiting ones if
    /// others receive too. `None`: it does not receive from there.
    #[inline]
    pub(super) fn part(&self, max: usize) -> Option<(&MultiConsumer<xdp_desc>, usize)> {
        let threads = self.shared.threads.get();
        let ring = &self.shared.ring.ring;
        if threads == 1 {
            return (self.number == 0).then_some((ring, max));
        }
        if self.number >= threads {
            return None;
        }
        let waiting = ring.available();
        let part = part(waiting, threads.into());
        if waiting >= part + WORTH_WAKING {
            self.shared.call(threads);
        }
        Some((ring, max.min(part as usize)))
    }

    fn departures(&self) -> &Departures {
        &self.shared.ring.departures
    }

    /// It has received so many packets, which had these positions in the shared ring.
    #[inline]
    pub(super) fn received(&mut self, positions: Range<u64>, packets: usize) {
        let threads = &self.shared.threads;
        // One alone sends in order without that.
        if positions.is_empty() || !threads.keeps_order() || threads.get() == 1 {
            return;
        }
        self.ticket = Some(Ticket::new(positions));
        if packets == 0 {
            self.sent();
        }
    }

    /// Whether packets may have to be sent in order: those of one worker alone need not wait for anybody.
    pub(super) fn keeps_order(&self) -> bool {
        let threads = &self.shared.threads;
        self.has_turn() || threads.keeps_order() && threads.get() > 1
    }

    /// Whether those that it has received last have to.
    pub(super) fn has_turn(&self) -> bool {
        self.ticket.is_some()
    }

    pub(super) fn may_send(&mut self, now: Nanos) -> bool {
        let departures = &self.shared.ring.departures;
        self.ticket.as_mut().is_none_or(|ticket| departures.may_leave(ticket, now, PATIENCE))
    }

    /// What it has received last was sent.
    #[inline]
    pub(super) fn sent(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.departures().left(ticket);
        }
    }

    /// When its packets are sent although others before them are not.
    pub(super) fn sends_by(&self) -> Option<Nanos> {
        self.ticket.as_ref().and_then(|ticket| ticket.leaves_by(PATIENCE))
    }

    /// Whether the ring is that of its own socket.
    pub(super) fn leads(&self) -> bool {
        self.number == 0
    }

    fn bell(&self) -> Option<&Bell> {
        self.shared.bells.get(usize::from(self.number).checked_sub(1)?)
    }

    /// The descriptor that a helper waits on.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bell().map(|bell| bell.both.as_fd())
    }

    /// A helper is about to sleep; false: there is something to receive.
    pub(super) fn prepare_to_sleep(&self) -> bool {
        let Some(bell) = self.bell() else { return true };
        bell.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.number >= self.shared.threads.get() || self.shared.ring.ring.available() == 0
    }

    pub(super) fn end_sleep(&self) {
        if let Some(bell) = self.bell() {
            bell.armed.store(false, Ordering::Relaxed);
            let _nothing_there = rustix::io::read(&bell.event, &mut [0; 8]);
        }
    }
}

/// A helper that has ended is not woken in place of another.
impl Drop for Member {
    fn drop(&mut self) {
        self.sent();
        self.end_sleep();
    }
}

/// Wakes one helper, which waits for this and for its own socket.
struct Bell {
    event: OwnedFd,
    both: OwnedFd,
    /// Whether the helper sleeps and nobody has rung.
    armed: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Bell> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = Bell { event, both, armed: AtomicBool::new(false) };
        bell.wait_for(bell.event.as_fd())?;
        Ok(bell)
    }

    fn wait_for(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
    }

    /// Says whether the helper slept and was not rung for before.
    #[inline]
    fn ring(&self) -> bool {
        let sleeps =
            self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed);
        if sleeps {
            let written = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "a counter that is read by ones does not overflow");
        }
        sleeps
    }
}
