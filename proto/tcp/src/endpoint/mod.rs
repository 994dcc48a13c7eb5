//! All connections and listeners of one owner.

mod arrive;
mod calls;
mod fast_open;
mod listen;
mod listener;
mod moves;
mod open;
mod options;
mod polling;
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
use crate::{Connection, NEVER, Nanos, Payload, Reject, TcpConfig, Tuple};
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
}

impl Connection {
    /// Octets that it counts for: itself, its records, and the unread octets of its region.
    #[inline]
    fn memory(&self) -> u32 {
        let unread = (self.rcv.received - self.rcv.consumed) as u32;
        let ahead = if self.rcv.ahead.is_empty() { 0 } else { self.rcv.window() };
        let besides = self.sent.memory() + self.rare.memory() + 12 * self.rcv.ahead.len();
        (SLOT_LEN + besides) as u32 + unread + ahead
    }
}
