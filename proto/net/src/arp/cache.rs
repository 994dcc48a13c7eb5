//! The cache, but for time ([`poll`](super::poll)) and packets ([`receive`](super::receive)).

use core::net::Ipv4Addr;

use weever_wire::MacAddr;

use super::claim::Claims;
use super::probe::Probes;
use super::{Config, Lookup, Neighbour, State, Transmit};
use crate::addr::Locals;
use crate::neighbour::{Entry, NEVER, Table, TableFull};

/// The neighbour cache of one link; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Cache {
    pub(super) mac: MacAddr,
    pub(super) locals: Locals,
    pub(super) config: Config,
    pub(super) table: Table<Ipv4Addr>,
    pub(super) claims: Claims,
    pub(super) probes: Probes,
    /// Entries in [`State::Incomplete`].
    pub(super) incomplete: usize,
    /// No deadline is earlier than this.
    pub(super) wake: u64,
    pub(super) generation: u64,
}

impl Cache {
    /// An empty cache for the station `mac` with the addresses `locals`, which the first polls
    /// will announce. Allocates all it will ever need.
    pub fn new(mac: MacAddr, locals: Locals, config: Config, now: u64) -> Self {
        let table = Table::new(config.capacity);
        let mut cache = Self {
            mac,
            locals: Locals::default(),
            config,
            table,
            claims: Claims::default(),
            probes: Probes::default(),
            incomplete: 0,
            wake: NEVER,
            generation: 0,
        };
        cache.set_locals(locals, now);
        cache
    }

    /// Our own link address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Our own addresses.
    pub fn locals(&self) -> &Locals {
        &self.locals
    }

    /// Replaces our own addresses; new ones will be announced.
    pub fn set_locals(&mut self, locals: Locals, now: u64) {
        self.claims.set(&locals, now);
        self.locals = locals;
        self.arm(now);
    }

    /// Replaces our own link address; all our addresses will be announced with it.
    pub fn set_mac(&mut self, mac: MacAddr, now: u64) {
        self.mac = mac;
        self.claims = Claims::default();
        self.claims.set(&self.locals, now);
        self.arm(now);
    }

    /// Forgets every neighbour that was not entered by an operator, as when the link went down;
    /// calls `waiting` for those that datagrams may wait for.
    pub fn flush(&mut self, mut waiting: impl FnMut(Ipv4Addr)) {
        self.table.retain_mut(|entry| {
            if entry.state == State::Incomplete {
                waiting(entry.ip);
            }
            entry.state == State::Static
        });
        self.incomplete = 0;
        self.generation += 1;
    }

    /// The link address of the neighbour `ip`, for a datagram that is to be sent to it.
    pub fn lookup(&mut self, ip: Ipv4Addr, now: u64) -> Lookup {
        let Some(entry) = self.table.find(ip) else { return self.miss(ip, now) };
        match entry.state {
            State::Incomplete => Lookup::Incomplete,
            State::Failed if now < entry.deadline => Lookup::Failed,
            State::Failed => {
                self.table.remove(ip);
                self.miss(ip, now)
            }
            _ => {
                let mac = entry.mac;
                self.touch(ip, now);
                Lookup::Hit(mac)
            }
        }
    }

    /// Notes that a reader of a published copy used the entry for `ip`; without this, an entry
    /// goes stale and then away however much it is used.
    pub fn touch(&mut self, ip: Ipv4Addr, now: u64) {
        let Some(entry) = self.table.find(ip) else { return };
        entry.used_at = Some(now);
        if entry.state == State::Stale {
            (entry.state, entry.tries, entry.deadline) = (State::Probe, 0, now);
            self.arm(now);
        }
    }

    fn miss(&mut self, ip: Ipv4Addr, now: u64) -> Lookup {
        if self.incomplete >= self.table.max_incomplete() {
            return Lookup::Full;
        }
        let deadline = now.saturating_add(self.config.retry);
        let (mac, state) = (MacAddr::ZERO, State::Incomplete);
        let entry = Entry { ip, mac, state, tries: 1, deadline, heard_at: now, used_at: Some(now) };
        if self.insert(entry).is_err() {
            return Lookup::Full;
        }
        self.incomplete += 1;
        Lookup::MissSendRequest(self.request(MacAddr::BROADCAST, ip))
    }

    /// Enters an address that never ages and that packets do not change, in place of any other.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn insert_static(&mut self, ip: Ipv4Addr, mac: MacAddr, now: u64) -> Result<(), TableFull> {
        self.remove(ip);
        let (state, deadline) = (State::Static, NEVER);
        self.insert(Entry { ip, mac, state, tries: 0, deadline, heard_at: now, used_at: None })?;
        self.generation += 1;
        Ok(())
    }

    /// Removes an entry, static or not; what was known. If it was [`State::Incomplete`], nothing
    /// else will tell the datagrams that wait for it.
    pub fn remove(&mut self, ip: Ipv4Addr) -> Option<Neighbour> {
        let entry = self.table.remove(ip)?;
        self.incomplete -= usize::from(entry.state == State::Incomplete);
        self.generation += u64::from(entry.state.is_resolved());
        Some(entry.listed())
    }

    /// Whether `ip` is being asked for, so that what waits for it will be told. A binary search.
    pub fn is_asked(&self, ip: Ipv4Addr) -> bool {
        self.table.get(ip).is_some_and(|entry| entry.state == State::Incomplete)
    }

    /// Whether there is an entry for `ip`, resolved or not. A binary search.
    pub fn contains(&self, ip: Ipv4Addr) -> bool {
        self.table.contains(ip)
    }

    /// All entries, by address.
    pub fn entries(&self) -> impl Iterator<Item = Neighbour> + '_ {
        self.table.iter().map(Entry::listed)
    }

    /// Calls `visit` for every neighbour whose link address is known, by ascending IPv4 address.
    pub fn for_each_resolved(&self, mut visit: impl FnMut(Ipv4Addr, MacAddr)) {
        for entry in self.table.iter().filter(|entry| entry.state.is_resolved()) {
            visit(entry.ip, entry.mac);
        }
    }

    /// A number that grows whenever what [`Cache::for_each_resolved`] visits has changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When [`Cache::poll`] has something to do next; `None` if only a call can change that. It
    /// may come early, never late.
    #[inline]
    pub fn poll_at(&self) -> Option<u64> {
        (self.wake != NEVER).then_some(self.wake)
    }

    /// Inserts, keeps count of what is evicted for it, and arms the timer.
    pub(super) fn insert(&mut self, entry: Entry<Ipv4Addr>) -> Result<(), TableFull> {
        let evicted = self.table.insert(entry)?;
        self.generation += u64::from(evicted.is_some_and(|old| old.state.is_resolved()));
        self.arm(entry.deadline);
        Ok(())
    }

    pub(super) fn arm(&mut self, at: u64) {
        self.wake = self.wake.min(at);
    }

    pub(super) fn request(&self, dst: MacAddr, ip: Ipv4Addr) -> Transmit {
        let source = self.locals.source_for(ip).unwrap_or(Ipv4Addr::UNSPECIFIED);
        Transmit::request(dst, self.mac, source, ip)
    }
}
