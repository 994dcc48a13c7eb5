//! All connections and listeners of one owner.

mod arrive;
mod fast_open;
mod listen;
mod listener;
mod moves;
mod open;
mod options;
mod secrets;
mod slots;
mod table;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use weever_net::{MILLIS, SECOND};
use weever_timer::Wheel;

use crate::connection::AckNeed;
use crate::fast_open::Cookies;
use crate::name::Id;
use crate::segment::Transmit;
use crate::{Connection, Events, NEVER, Nanos, Payload, Reject, State, TcpConfig, Tuple};
use listener::Listener;
pub use listener::{ListenError, ListenerConfig, ListenerId};
pub use open::ConnectError;
use secrets::Secrets;
use slots::{SLOT_LEN, Slots};
use table::Table;

/// A segment that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handled {
    /// Its connection; `None` if it was answered without one.
    pub id: Option<Id>,
    /// The accepted part of its payload.
    pub payload: Option<Payload>,
}

/// The counters of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were asked for.
    pub connects: u64,
    /// Connections that listeners established.
    pub accepted: u64,
    /// SYN cookies sent, and taken back.
    pub cookies_sent: u64,
    /// Connections that a SYN cookie made.
    pub cookies_taken: u64,
    /// Connections that came with octets in their SYN, which were taken (RFC 7413).
    pub fast_opened: u64,
    /// SYNs with octets that were not taken because too many such connections were pending.
    pub fast_open_full: u64,
    /// Segments that went no further, by reason.
    pub rejected: BTreeMap<Reject, u64>,
    /// Challenge ACKs that the limit suppressed.
    pub challenges_suppressed: u64,
    /// Answers without a connection that found no room.
    pub replies_dropped: u64,
}

/// Connections and listeners. See the [crate's documentation](crate) for how to drive it.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<TcpConfig>,
    secrets: Secrets,
    slots: Slots,
    free: Vec<u32>,
    table: Table,
    listeners: Vec<Option<Listener>>,
    /// Listeners by port; the application chooses the ports, so the hasher need not be keyed by us.
    ports: HashMap<u16, Vec<u32>>,
    /// Cookies of servers, for Fast Open.
    cookies: Cookies,
    wheel: Wheel<u32>,
    /// Connections that may have something to send.
    sends: VecDeque<u32>,
    /// Segments that the first of them has sent in a row.
    in_a_row: u32,
    /// Connections with events.
    ready: VecDeque<u32>,
    /// Answers without a connection.
    replies: VecDeque<Transmit>,
    /// The ends of connections that are no more, if they are asked for.
    gone: VecDeque<(Id, Tuple)>,
    counters: Counters,
    memory: u64,
    next_port: u32,
    challenges: Challenges,
}

/// The second in which challenges are counted, and how many there were.
#[derive(Debug, Default)]
struct Challenges {
    second: u64,
    sent: u32,
}

impl Challenges {
    /// RFC 5961 §7: challenge ACKs are limited over all connections.
    fn limit(&mut self, connection: &mut Connection, counters: &mut Counters, now: Nanos) {
        let second = now / SECOND;
        if self.second != second {
            (self.second, self.sent) = (second, 0);
        }
        if self.sent >= connection.config.challenge_acks {
            connection.ack_need = AckNeed::None;
            counters.challenges_suppressed += 1;
        } else {
            self.sent += 1;
        }
    }
}

/// Answers without a connection that wait to be sent.
const MAX_REPLIES: usize = 1024;
/// Segments of one connection before it is another's turn.
const IN_A_ROW: u32 = 16;
/// Deadlines are rounded up to this.
const TICK: Nanos = MILLIS / 4;

impl Endpoint {
    /// An endpoint without connections. `root` is a secret: segments can be forged with it.
    pub fn new(config: TcpConfig, root: [u64; 2], now: Nanos) -> Self {
        Self {
            config: Arc::new(config),
            secrets: Secrets::new(root),
            slots: Slots::default(),
            free: Vec::new(),
            table: Table::new(),
            listeners: Vec::new(),
            ports: HashMap::new(),
            cookies: Cookies::default(),
            wheel: Wheel::new(TICK, 0, now),
            sends: VecDeque::new(),
            in_a_row: 0,
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            gone: VecDeque::new(),
            counters: Counters::default(),
            memory: 0,
            next_port: 0,
            challenges: Challenges::default(),
        }
    }

    /// How many connections there are, in any state.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Octets that count against the memory limit.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// A connection, as long as it exists.
    pub fn get(&self, id: Id) -> Option<&Connection> {
        self.slots
            .get(id.index)
            .filter(|slot| slot.generation == id.generation)?
            .connection
            .as_ref()
    }

    /// The ids of all connections.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        let there = self.slots.iter().filter(|(_, slot)| slot.connection.is_some());
        there.map(|(index, slot)| Id { index, generation: slot.generation })
    }

    /// Looks whether all connections are consistent, for tests and fuzzing: it takes time in the number
    /// of connections and segments in flight.
    ///
    /// # Panics
    /// If one is not.
    pub fn check_invariants(&self) {
        for connection in self.ids().filter_map(|id| self.get(id)) {
            connection.check();
        }
    }

    /// SEND: octets behind those that were queued before lie in the send region. How many were taken:
    /// all, unless the connection is closed for sending or 1 GiB is outstanding.
    pub fn queue(&mut self, id: Id, octets: u64, now: Nanos) -> u64 {
        let Some(slot) = self.slots.get_mut(id.index) else { return 0 };
        if slot.generation != id.generation {
            return 0;
        }
        slot.warm();
        let Some(connection) = slot.connection.as_mut() else { return 0 };
        let taken = connection.queue(octets, now);
        if !connection.may_transmit() {
            self.settle(id.index, now);
        } else if !std::mem::replace(&mut slot.in_sends, true) {
            // Its timer is set once they are sent.
            self.sends.push_back(id.index);
        }
        taken
    }

    /// SEND with the URGENT flag (RFC 9293 §3.8.5): like [`queue`](Self::queue), and the peer is told that urgent
    /// data ends behind these octets.
    pub fn queue_urgent(&mut self, id: Id, octets: u64, now: Nanos) -> u64 {
        let queue = |connection: &mut Connection| {
            let taken = connection.queue(octets, now);
            if taken > 0 {
                connection.mark_urgent();
            }
            taken
        };
        self.with(id, now, queue).unwrap_or(0)
    }

    /// RECEIVE: the application has done with the next readable octets.
    pub fn consume(&mut self, id: Id, octets: u64, now: Nanos) {
        let Some(slot) = self.slots.get_mut(id.index) else { return };
        let Some(connection) = slot.connection.as_mut() else { return };
        if slot.generation != id.generation {
            return;
        }
        let taken = connection.consume(octets, now);
        if connection.may_transmit() || connection.events.has(Events::CRAMPED) {
            return self.settle(id.index, now);
        }
        // No deadline depends on the octets read.
        slot.memory = slot.memory.saturating_sub(taken);
        self.memory = self.memory.saturating_sub(u64::from(taken));
    }

    /// Closes the sending side: FIN follows the queued octets.
    pub fn shutdown(&mut self, id: Id, now: Nanos) {
        self.with(id, now, |connection| connection.shutdown(now));
    }

    /// Closes both sides and lets go of the connection: it ends by itself, and its id means nothing
    /// any more to the application. Unread data makes it a reset.
    pub fn close(&mut self, id: Id, now: Nanos) {
        self.with(id, now, |connection| connection.release(now));
    }

    /// Resets the connection. It stays until [`close`](Self::close), as any other that is over.
    pub fn abort(&mut self, id: Id, now: Nanos) {
        self.with(id, now, Connection::abort);
    }

    fn with<T>(&mut self, id: Id, now: Nanos, act: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let slot = self.slots.get_mut(id.index)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.warm();
        let done = act(slot.connection.as_mut()?);
        self.settle(id.index, now);
        Some(done)
    }

    #[inline]
    fn find(&self, tuple: &Tuple) -> Option<u32> {
        let is_it =
            |index: u32| self.slots[index].connection.as_ref().is_some_and(|it| it.tuple == *tuple);
        self.table.find(self.secrets.demux(tuple), is_it)
    }

    /// Whether one more connection may be made.
    fn has_room(&self) -> Result<(), Reject> {
        if self.len() >= self.config.max_connections {
            return Err(Reject::TooManyConnections);
        }
        if self.memory.saturating_add(SLOT_LEN as u64) > self.config.memory_limit {
            return Err(Reject::NoMemory);
        }
        Ok(())
    }

    fn add(&mut self, connection: Connection) -> Id {
        let index = self.free.pop().unwrap_or_else(|| self.slots.push());
        let hash = self.secrets.demux(&connection.tuple);
        let (secrets, slots) = (&self.secrets, &self.slots);
        self.table.insert(hash, index, |index| {
            let connection = slots[index].connection.as_ref();
            connection.map_or(0, |connection| secrets.demux(&connection.tuple))
        });
        let slot = &mut self.slots[index];
        slot.connection = Some(connection);
        Id { index, generation: slot.generation }
    }

    fn remove(&mut self, index: u32) {
        let id = Id { index, generation: self.slots[index].generation };
        if let Some(connection) = self.take(index)
            && self.config.report_gone
        {
            self.gone.push_back((id, connection.tuple));
        }
    }

    /// Empties a slot. Entries of it in the lists stay, and serve the connection that has it next.
    fn take(&mut self, index: u32) -> Option<Connection> {
        let slot = &mut self.slots[index];
        let connection = slot.connection.take()?;
        let id = Id { index, generation: slot.generation };
        slot.generation = slot.generation.wrapping_add(1);
        self.memory -= u64::from(std::mem::take(&mut slot.memory));
        slot.timer_at = NEVER;
        if let Some(key) = slot.timer.take() {
            self.wheel.cancel(key);
        }
        let waiting = slot.take_listener().is_some();
        self.free.push(index);
        if let Some(at) = connection.rare.fast_open.and_then(|fast| fast.pending_at)
            && let Some(listener) = &mut self.listeners[at as usize]
        {
            listener.early = listener.early.saturating_sub(1);
        }
        self.table.remove(self.secrets.demux(&connection.tuple), index);
        if waiting {
            self.leaves_accept_queue(id);
        }
        Some(connection)
    }

    /// After anything has happened to a connection: lists, timers, memory, and its end.
    #[inline]
    fn settle(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index];
        let accepted = slot.listener().is_none();
        let Some(connection) = slot.connection.as_mut() else { return };
        if self.memory > self.config.memory_limit / 4 * 3 {
            // Under pressure no region grows.
            connection.events.remove(Events::CRAMPED);
        }
        let sends = connection.may_transmit();
        if sends {
            if !std::mem::replace(&mut slot.in_sends, true) {
                self.sends.push_back(index);
            }
        } else if connection.state == State::Closed && connection.released {
            return self.remove(index);
        }
        if !connection.events.is_empty() && accepted && !std::mem::replace(&mut slot.in_ready, true)
        {
            self.ready.push_back(index);
        }
        let memory = connection.memory();
        self.memory = self.memory - u64::from(slot.memory) + u64::from(memory);
        slot.memory = memory;
        if !sends {
            // Otherwise after its segments were polled.
            slot.set_timer(&mut self.wheel, index, now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has to be called; it may be early.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    /// Does all work due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(index) = self.wheel.poll(now) {
            let slot = &mut self.slots[index];
            (slot.timer, slot.timer_at) = (None, NEVER);
            if let Some(connection) = slot.connection.as_mut() {
                let half_open = connection.state == State::SynReceived;
                connection.arm_resend(now);
                if connection.next_deadline() <= now {
                    connection.timeout(now);
                }
                // There is a last timer behind all activity.
                connection.shed(now);
                if half_open && connection.state == State::Closed {
                    self.drop_half_open(index, now);
                }
                self.settle(index, now);
            }
        }
    }

    /// The next segment to send, taking turns between connections. Call it until it returns `None`.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit> {
        if let Some(reply) = self.poll_reply() {
            return Some(reply);
        }
        while let Some(index) = self.sends.front().copied() {
            let slot = &mut self.slots[index];
            let Some(connection) = slot.connection.as_mut() else {
                self.leave_sends(index, now);
                continue;
            };
            if connection.ack_need == AckNeed::Challenge {
                self.challenges.limit(connection, &mut self.counters, now);
            }
            if let Some(mut transmit) = connection.poll_transmit(now) {
                transmit.connection = Some(Id { index, generation: slot.generation });
                self.in_a_row += transmit.pieces();
                if !connection.may_transmit() {
                    self.leave_sends(index, now);
                } else if self.in_a_row >= IN_A_ROW {
                    self.in_a_row = 0;
                    self.sends.rotate_left(1);
                }
                return Some(transmit);
            }
            self.leave_sends(index, now);
        }
        None
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have a segment: a caller that has to find room for one
    /// first need not look for it in vain.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        !self.sends.is_empty() || !self.replies.is_empty()
    }

    /// The next answer that belongs to no connection: a reset, or a SYN cookie.
    /// [`poll_transmit`](Self::poll_transmit) has them, too; a caller that sends answers out where the
    /// segment came in asks here after each segment.
    #[inline]
    pub fn poll_reply(&mut self) -> Option<Transmit> {
        self.replies.pop_front()
    }

    /// The first connection in the list has nothing more to send for now. Data that it still has
    /// wait for the window or for time, so it is not put back.
    fn leave_sends(&mut self, index: u32, now: Nanos) {
        self.in_a_row = 0;
        self.sends.pop_front();
        let slot = &mut self.slots[index];
        slot.in_sends = false;
        let Some(connection) = slot.connection.as_ref() else { return };
        if connection.state == State::Closed && connection.released && !connection.reset_due {
            return self.remove(index);
        }
        slot.set_timer(&mut self.wheel, index, now);
    }

    /// The next connection with news for its application. Call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<(Id, Events)> {
        while let Some(index) = self.ready.pop_front() {
            let slot = &mut self.slots[index];
            slot.in_ready = false;
            let generation = slot.generation;
            let Some(connection) = slot.connection.as_mut() else { continue };
            let events = connection.events.take();
            if !events.is_empty() && (!connection.released || self.config.report_gone) {
                return Some((Id { index, generation }, events));
            }
        }
        None
    }
}

impl Connection {
    /// Octets that it counts for: itself, its records, and the unread octets of its region.
    fn memory(&self) -> u32 {
        let unread = (self.rcv.received - self.rcv.consumed) as u32;
        let ahead = if self.rcv.ahead.is_empty() { 0 } else { self.rcv.window() };
        let besides = self.sent.memory() + self.rare.memory() + 12 * self.rcv.ahead.len();
        (SLOT_LEN + besides) as u32 + unread + ahead
    }
}
