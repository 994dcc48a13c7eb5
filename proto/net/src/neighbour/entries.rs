//! The cache: the operations on entries that both families share.

use weever_wire::MacAddr;

use super::state::{Demand, Learned, Lookup, Neighbour, State, TableFull};
use super::table::{Entry, NEVER, Table};
use crate::addr::Address;

/// The neighbours of one interface, known or asked for. Allocates all it will ever need at once: a
/// unused neighbour cannot evict one that is used, nor can any number of unanswered requests.
#[derive(Clone, Debug)]
pub struct Entries<A> {
    table: Table<A>,
    /// Entries in [`State::Incomplete`].
    pub(crate) incomplete: usize,
    /// No deadline is earlier than this.
    wake: u64,
    generation: u64,
}

impl<A: Address> Entries<A> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: Table::new(capacity), incomplete: 0, wake: NEVER, generation: 0 }
    }

    /// Enters an address that never ages and that packets do not change, in place of any other.
    ///
    /// # Errors
    /// [`TableFull`].
    pub fn insert_static(&mut self, ip: A, mac: MacAddr, now: u64) -> Result<(), TableFull> {
        self.remove(ip);
        let (state, deadline) = (State::Static, NEVER);
        self.insert(Entry { ip, mac, state, tries: 0, deadline, heard_at: now, used_at: None })?;
        self.generation += 1;
        Ok(())
    }

    /// Removes and returns an entry, static or not. If it was [`State::Incomplete`], nothing else
    /// will tell the packets that wait for it.
    pub fn remove(&mut self, ip: A) -> Option<Neighbour<A>> {
        let entry = self.table.remove(ip)?;
        self.incomplete -= usize::from(entry.state == State::Incomplete);
        self.generation += u64::from(entry.state.is_resolved());
        Some(entry.listed())
    }

    /// Forgets every neighbour that was not entered by an operator, as when the link went down;
    /// calls `waiting` for those that packets may wait for.
    pub fn flush(&mut self, mut waiting: impl FnMut(A)) {
        self.table.retain_mut(|entry| {
            if entry.state == State::Incomplete {
                waiting(entry.ip);
            }
            entry.state == State::Static
        });
        self.incomplete = 0;
        self.generation += 1;
    }

    /// Whether `ip` is being asked for, so that the packets that wait for it will be told. A binary
    /// search.
    pub fn is_asked(&self, ip: A) -> bool {
        self.state(ip) == Some(State::Incomplete)
    }

    /// The state of the neighbour `ip`. A binary search.
    pub fn state(&self, ip: A) -> Option<State> {
        self.table.get(ip).map(|entry| entry.state)
    }

    /// Whether the link address of `ip` is known, and we have sent something there.
    pub(crate) fn is_used(&self, ip: A) -> bool {
        self.table.get(ip).is_some_and(|e| e.state.is_resolved() && e.used_at.is_some())
    }

    /// The link address of the neighbour `ip`, if it is known; does not count as use. A binary
    /// search.
    pub fn mac(&self, ip: A) -> Option<MacAddr> {
        self.table.get(ip).filter(|entry| entry.state.is_resolved()).map(|entry| entry.mac)
    }

    /// All entries, by address.
    pub fn iter(&self) -> impl Iterator<Item = Neighbour<A>> + '_ {
        self.table.iter().map(Entry::listed)
    }

    /// Every neighbour whose link address is known, by ascending address.
    pub fn resolved(&self) -> impl Iterator<Item = (A, MacAddr)> + '_ {
        let known = self.table.iter().filter(|entry| entry.state.is_resolved());
        known.map(|entry| (entry.ip, entry.mac))
    }

    /// A number that grows whenever the list of [`resolved`](Self::resolved) has changed.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Looks `ip` up. A request that is to be sent counts as sent, and as lost after `retry`. A hit is
    /// not noted as use.
    pub(crate) fn lookup(&mut self, ip: A, demand: Demand, retry: u64, now: u64) -> Lookup<()> {
        let Some(entry) = self.table.get(ip) else { return self.miss(ip, demand, retry, now) };
        match entry.state {
            State::Incomplete => Lookup::Incomplete,
            State::Failed if now < entry.deadline => Lookup::Failed,
            State::Failed => {
                self.table.remove(ip);
                self.miss(ip, demand, retry, now)
            }
            _ => Lookup::Hit(entry.mac),
        }
    }

    fn miss(&mut self, ip: A, demand: Demand, retry: u64, now: u64) -> Lookup<()> {
        if self.incomplete >= self.table.max_incomplete(demand) {
            return Lookup::Full;
        }
        let deadline = now.saturating_add(retry);
        let (mac, state) = (MacAddr::ZERO, State::Incomplete);
        let entry = Entry { ip, mac, state, tries: 1, deadline, heard_at: now, used_at: Some(now) };
        if self.insert(entry).is_err() {
            return Lookup::Full;
        }
        self.incomplete += 1;
        Lookup::MissSendRequest(())
    }

    /// Notes use at `now`; an entry that was stale goes to `state` until `deadline`.
    pub(crate) fn touch(&mut self, ip: A, now: u64, (state, deadline): (State, u64)) {
        let Some(entry) = self.table.find(ip) else { return };
        entry.used_at = Some(now);
        if entry.state == State::Stale {
            (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
            self.arm(deadline);
        }
    }

    /// Enters a neighbour that is not there and was not asked for, in `state` until `deadline`;
    /// `None` if nothing can be evicted for it.
    pub(crate) fn create(
        &mut self,
        (ip, mac): (A, MacAddr),
        (state, deadline): (State, u64),
        now: u64,
    ) -> Option<Learned<A>> {
        let (tries, heard_at, used_at) = (0, now, None);
        self.insert(Entry { ip, mac, state, tries, deadline, heard_at, used_at }).ok()?;
        self.generation += 1;
        Some(Learned { ip, mac, resolves: false, replaces: None })
    }

    /// Enters the link address of a neighbour that was heard, in `state` until `deadline`; `None`
    /// if it is not there, or an operator's.
    pub(crate) fn update(
        &mut self,
        (ip, mac): (A, MacAddr),
        (state, deadline): (State, u64),
        now: u64,
    ) -> Option<Learned<A>> {
        let entry = self.table.find(ip).filter(|entry| entry.state != State::Static)?;
        let (before, old) = (entry.state, entry.mac);
        (entry.state, entry.tries, entry.deadline) = (state, 0, deadline);
        (entry.mac, entry.heard_at) = (mac, now);
        let resolves = before == State::Incomplete;
        self.incomplete -= usize::from(resolves);
        let replaces = (before.is_resolved() && old != mac).then_some(old);
        self.generation += u64::from(!before.is_resolved() || replaces.is_some());
        self.arm(deadline);
        Some(Learned { ip, mac, resolves, replaces })
    }

    /// Calls `expire` for every entry whose deadline has come; false has it forgotten.
    pub(crate) fn poll(&mut self, now: u64, mut expire: impl FnMut(&mut Entry<A>) -> bool) {
        let (mut wake, mut incomplete, mut withdrawn) = (NEVER, 0, 0);
        self.table.retain_mut(|entry| {
            let before = entry.state;
            let keep = entry.deadline > now || expire(entry);
            if keep {
                wake = wake.min(entry.deadline);
                incomplete += usize::from(entry.state == State::Incomplete);
            }
            let resolved = keep && entry.state.is_resolved();
            withdrawn += u64::from(before.is_resolved() && !resolved);
            keep
        });
        (self.wake, self.incomplete) = (wake, incomplete);
        self.generation += withdrawn;
    }

    /// No deadline is earlier than this.
    pub(crate) fn wake(&self) -> u64 {
        self.wake
    }

    /// Has [`wake`](Self::wake) be no later than `at`.
    pub(crate) fn arm(&mut self, at: u64) {
        self.wake = self.wake.min(at);
    }

    /// Inserts, counts the entry evicted for it, and arms the timer.
    fn insert(&mut self, entry: Entry<A>) -> Result<(), TableFull> {
        let evicted = self.table.insert(entry)?;
        self.generation += u64::from(evicted.is_some_and(|old| old.state.is_resolved()));
        self.arm(entry.deadline);
        Ok(())
    }
}

impl<T> Lookup<T> {
    /// The same with the question that `ask` makes, where one is to be sent.
    pub(crate) fn asking<U>(self, ask: impl FnOnce() -> U) -> Lookup<U> {
        match self {
            Lookup::Hit(mac) => Lookup::Hit(mac),
            Lookup::Incomplete => Lookup::Incomplete,
            Lookup::MissSendRequest(_) => Lookup::MissSendRequest(ask()),
            Lookup::Failed => Lookup::Failed,
            Lookup::Full => Lookup::Full,
        }
    }
}
