//! The stack: the engine, a virtual clock, the octets of its connections, and the threads that wait for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weever_tcp::{Endpoint, Events, Id};

use crate::calls::Socket;
use crate::packet;
use crate::ready::Poller;
use crate::settings::{Settings, sysctl};

/// Nanoseconds of a microsecond.
const MICROS: u64 = 1000;
/// The clock's begin; not 0, so that no time is special.
const START: u64 = 1_000_000_000;
/// How far `netdev_receive` lets time pass in search of a packet.
const PATIENCE: u64 = 300_000_000_000;
/// Real time that a thread gets to leave a call, and `netdev_receive` a call of the other thread to send something.
const YIELD: Duration = Duration::from_millis(2);

/// An errno.
pub(crate) type Errno = i32;

/// A stack. Calls of several threads take turns.
pub(crate) struct Stack {
    state: Mutex<State>,
    changed: Condvar,
}

/// All there is of it.
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) settings: Settings,
    endpoint: Option<Endpoint>,
    /// Sockets by descriptor, and what epoll watches.
    pub(crate) sockets: BTreeMap<i32, Socket>,
    pub(crate) pollers: BTreeMap<i32, Poller>,
    /// The octets of connections.
    pub(crate) octets: HashMap<Id, Octets>,
    /// Packets that left, each with its time.
    outbox: VecDeque<(u64, Vec<u8>)>,
    /// Threads asleep in a call.
    asleep: usize,
}

/// The octets of a connection: sent and not acknowledged, and received and not read.
#[derive(Default)]
pub(crate) struct Octets {
    out: VecDeque<u8>,
    /// The stream offset of the first of them.
    out_from: u64,
    /// With gaps that the engine knows of.
    into: VecDeque<u8>,
    into_from: u64,
}

impl Octets {
    pub(crate) fn push(&mut self, octets: &[u8]) {
        self.out.extend(octets);
    }

    fn acknowledged(&mut self, below: u64) {
        let len = below.saturating_sub(self.out_from).min(self.out.len() as u64);
        self.out.drain(..len as usize);
        self.out_from += len;
    }

    fn read_out(&self, from: u64, out: &mut [u8]) {
        let at = from.saturating_sub(self.out_from) as usize;
        for (place, octet) in out.iter_mut().zip(self.out.iter().skip(at)) {
            *place = *octet;
        }
    }

    fn arrived(&mut self, offset: u64, octets: &[u8]) {
        let at = offset.saturating_sub(self.into_from) as usize;
        if self.into.len() < at + octets.len() {
            self.into.resize(at + octets.len(), 0);
        }
        for (place, octet) in self.into.iter_mut().skip(at).zip(octets) {
            *place = *octet;
        }
    }

    /// Copies the next octets; with `take`, they are gone then.
    pub(crate) fn read(&mut self, out: &mut [u8], take: bool) {
        for (place, octet) in out.iter_mut().zip(&self.into) {
            *place = *octet;
        }
        if take {
            self.into.drain(..out.len().min(self.into.len()));
            self.into_from += out.len() as u64;
        }
    }
}

impl Stack {
    pub(crate) fn new(settings: Settings) -> Stack {
        let state = State {
            now: START,
            settings,
            endpoint: None,
            sockets: BTreeMap::new(),
            pollers: BTreeMap::new(),
            octets: HashMap::new(),
            outbox: VecDeque::new(),
            asleep: 0,
        };
        Stack { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a call that does not block.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let done = call(&mut state);
        state.settle();
        if state.asleep > 0 {
            self.changed.notify_all();
        }
        done
    }

    /// Does a call that is tried again whenever something has changed, as long as it would block. After `timeout`
    /// nanoseconds of the virtual clock it is over.
    pub(crate) fn wait<T>(
        &self,
        timeout: Option<u64>,
        mut call: impl FnMut(&mut State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut state = self.lock();
        let until = timeout.map(|timeout| state.now.saturating_add(timeout));
        loop {
            let done = call(&mut state);
            state.settle();
            let over = until.is_some_and(|until| state.now >= until);
            match done {
                Err(libc::EAGAIN) if !over => {}
                done => return done,
            }
            state.asleep += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
    }

    /// Something has changed: threads that sleep look whether they can go on, and get the time to.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let asleep = state.asleep > 0;
        drop(state);
        if asleep {
            self.changed.notify_all();
            std::thread::sleep(YIELD);
        }
    }

    /// The time in nanoseconds; a microsecond has passed since the last look.
    pub(crate) fn look(&self) -> u64 {
        let mut state = self.lock();
        let until = state.now + MICROS;
        state.pass(until);
        let now = state.now;
        if state.asleep > 0 {
            self.changed.notify_all();
        }
        now
    }

    /// Lets time pass. Threads that a timer wakes go on at that time.
    pub(crate) fn sleep(&self, nanoseconds: u64) {
        let until = self.lock().now.saturating_add(nanoseconds);
        loop {
            let mut state = self.lock();
            let waits = state.asleep > 0;
            let next = state.next_deadline().filter(|next| waits && *next < until);
            let step = next.unwrap_or(until).max(state.now);
            state.pass(step);
            self.tell(state);
            if step >= until {
                return;
            }
        }
    }

    /// A packet arrives.
    pub(crate) fn arrive(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.arrive(bytes);
        state.settle();
        self.tell(state);
    }

    /// The next packet that leaves, and its time; time passes until there is one. Nothing if none comes.
    pub(crate) fn depart(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.lock();
        let until = state.now + PATIENCE;
        loop {
            if let Some(packet) = state.outbox.pop_front() {
                return Some(packet);
            }
            let next = state.next_deadline().filter(|next| *next <= until);
            if state.asleep > 0 || next.is_none() {
                // The other thread may be about to send something.
                self.tell(state);
                std::thread::sleep(YIELD);
                state = self.lock();
                if let Some(packet) = state.outbox.pop_front() {
                    return Some(packet);
                }
            }
            let next = state.next_deadline().filter(|next| *next <= until)?;
            // A deadline may have been early: then the next one is later.
            let step = next.max(state.now + 1);
            state.pass(step);
        }
    }
}

impl State {
    /// The engine, made with the kernel's settings of now.
    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        let (settings, now) = (&self.settings, self.now);
        // Its numbers need not be secret: the peer is a script.
        self.endpoint.get_or_insert_with(|| Endpoint::new(settings.config(sysctl), [3, 4], now))
    }

    /// A socket is made: if it is the only one, with settings that may be new.
    pub(crate) fn renew(&mut self) {
        let unused = self.endpoint.as_ref().is_some_and(Endpoint::is_empty);
        if unused && self.sockets.is_empty() {
            self.endpoint = None;
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        self.endpoint.as_ref()?.next_deadline()
    }

    /// Lets time pass; what is due is done at its time.
    fn pass(&mut self, until: u64) {
        while let Some(next) = self.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            let now = self.now;
            self.endpoint().handle_timeout(now);
            self.settle();
            if self.next_deadline() == Some(next) {
                break;
            }
        }
        self.now = self.now.max(until);
    }

    fn arrive(&mut self, bytes: &[u8]) {
        let now = self.now;
        let mut arrived = Vec::new();
        packet::take(self.endpoint(), bytes, now, |id, offset, octets| {
            arrived.push((id, offset, octets.to_vec()));
        });
        for (id, offset, octets) in arrived {
            self.octets.entry(id).or_default().arrived(offset, &octets);
        }
    }

    /// Takes the engine's segments and events.
    fn settle(&mut self) {
        let now = self.now;
        let Some(endpoint) = &mut self.endpoint else { return };
        while let Some(transmit) = endpoint.poll_transmit(now) {
            let octets = transmit.connection.and_then(|id| self.octets.get(&id));
            let fill = |from, out: &mut [u8]| {
                octets.into_iter().for_each(|octets| octets.read_out(from, out))
            };
            if let Some(packet) = packet::written(&transmit, fill) {
                self.outbox.push_back((now, packet));
            }
        }
        while let Some((id, events)) = endpoint.poll_event() {
            let Some(connection) = endpoint.get(id) else { continue };
            if events.has(Events::ACKED)
                && let Some(octets) = self.octets.get_mut(&id)
            {
                octets.acknowledged(connection.acknowledged());
            }
            if events.has(Events::CRAMPED) {
                let wanted = connection.wanted_receive();
                endpoint.enlarge_receive(id, wanted, now);
            }
        }
        self.octets.retain(|id, _| endpoint.get(*id).is_some());
    }
}
