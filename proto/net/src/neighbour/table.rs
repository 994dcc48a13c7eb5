//! The entries: a sorted array of fixed capacity. Binary search has no worst case that a peer could
//! construct, unlike a hash table, and a copy of it is a reader's lookup structure.

use core::net::IpAddr;

use alloc::vec::Vec;
use weever_wire::MacAddr;

use super::state::{Demand, Neighbour, State, TableFull};
use crate::addr::Address;
use crate::limit::SourceLimits;
use crate::random::Key;
use crate::state::Rate;

/// Never, as a deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<A> {
    pub(crate) ip: A,
    /// Only meaningful if the state is resolved.
    pub(crate) mac: MacAddr,
    pub(crate) state: State,
    /// Requests sent in this state.
    pub(crate) tries: u8,
    /// When the state ends, or the next request is due.
    pub(crate) deadline: u64,
    pub(crate) heard_at: u64,
    pub(crate) used_at: Option<u64>,
}

impl<A: Copy> Entry<A> {
    /// As an operator sees it.
    pub(crate) fn listed(&self) -> Neighbour<A> {
        Neighbour {
            ip: self.ip,
            mac: self.state.is_resolved().then_some(self.mac),
            state: self.state,
            heard_at: self.heard_at,
            used_at: self.used_at,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table<A> {
    /// Sorted by address; its capacity is reserved once.
    entries: Vec<Entry<A>>,
    capacity: usize,
}

impl<A: Address> Table<A> {
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(2);
        Self { entries: Vec::with_capacity(capacity), capacity }
    }

    #[inline]
    pub(crate) fn find(&mut self, ip: A) -> Option<&mut Entry<A>> {
        let at = self.entries.binary_search_by_key(&ip, |entry| entry.ip).ok()?;
        self.entries.get_mut(at)
    }

    pub(crate) fn get(&self, ip: A) -> Option<&Entry<A>> {
        let at = self.entries.binary_search_by_key(&ip, |entry| entry.ip).ok()?;
        self.entries.get(at)
    }

    /// Inserts an entry whose address is not there; returns the entry evicted for it, if any.
    pub(crate) fn insert(&mut self, entry: Entry<A>) -> Result<Option<Entry<A>>, TableFull> {
        let evicted = match self.entries.len() < self.capacity {
            true => None,
            false => Some(self.evict()?),
        };
        let at = self.entries.partition_point(|other| other.ip < entry.ip);
        self.entries.insert(at, entry);
        Ok(evicted)
    }

    pub(crate) fn remove(&mut self, ip: A) -> Option<Entry<A>> {
        let at = self.entries.binary_search_by_key(&ip, |entry| entry.ip).ok()?;
        Some(self.entries.remove(at))
    }

    /// Entries in this state that may exist at once: half of all, so that unanswered requests leave
    /// room for neighbours that speak to us. A quarter of these are for our own traffic: requests
    /// provoked by strangers cannot keep us from asking for a neighbour that we want to speak to.
    pub(crate) fn max_incomplete(&self, demand: Demand) -> usize {
        let all = self.capacity / 2;
        match demand {
            Demand::Own => all,
            Demand::Provoked => all - all / 4,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<A>> {
        self.entries.iter()
    }

    pub(crate) fn retain_mut(&mut self, keep: impl FnMut(&mut Entry<A>) -> bool) {
        self.entries.retain_mut(keep);
    }

    /// Evicts the least valuable entry: a failed one, else one that was never used, else
    /// the one whose last use is the longest ago. A peer that floods us with requests from invented
    /// addresses evicts its own inventions. Static ones stay, and those that datagrams wait for.
    fn evict(&mut self) -> Result<Entry<A>, TableFull> {
        let evictable = |e: &Entry<A>| !matches!(e.state, State::Static | State::Incomplete);
        let worth = |e: &Entry<A>| (e.state != State::Failed, e.used_at, e.heard_at);
        let candidates = self.entries.iter().enumerate().filter(|(_, e)| evictable(e));
        let (at, _) = candidates.min_by_key(|(_, e)| worth(e)).ok_or(TableFull)?;
        Ok(self.entries.remove(at))
    }
}

/// Answers to one source. A neighbour asks once a second while it does not know us, and rarely then.
const RATE: Rate = Rate { per_second: 5, burst: 10 };

/// The limits of answers to requests for our address: one for each source, so that a flood from one is not
/// answered and the others are. Neighbours that we have sent to have buckets apart from those of strangers,
/// whose addresses may be invented without number.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    known: SourceLimits,
    strangers: SourceLimits,
}

impl Answers {
    /// Full buckets; `key` is a secret.
    pub(crate) fn new(key: Key) -> Self {
        Self {
            known: SourceLimits::new(key, RATE),
            strangers: SourceLimits::new([key[0], !key[1]], RATE),
        }
    }

    /// Whether a request from `source` is answered at `now`; counts it if so.
    pub(crate) fn take(&mut self, source: IpAddr, known: bool, now: u64) -> bool {
        if known { self.known.take(source, now) } else { self.strangers.take(source, now) }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::vec::Vec;

    use super::*;

    fn entry(ip: u32, state: State, heard_at: u64, used_at: Option<u64>) -> Entry<Ipv4Addr> {
        let (ip, mac) = (Ipv4Addr::from_bits(ip), MacAddr::ZERO);
        Entry { ip, mac, state, tries: 0, deadline: NEVER, heard_at, used_at }
    }

    #[test]
    fn evicts_what_is_missed_least() {
        let mut table = Table::new(6);
        for e in [
            entry(9, State::Static, 0, None),
            entry(3, State::Incomplete, 0, None),
            entry(7, State::Reachable, 5, Some(9)),
            entry(1, State::Stale, 4, Some(8)),
            entry(5, State::Reachable, 6, None),
            entry(2, State::Failed, 7, Some(9)),
        ] {
            assert_eq!(table.insert(e), Ok(None));
        }
        let mut order = Vec::new();
        for ip in 100..104 {
            let evicted = table.insert(entry(ip, State::Static, 0, None)).unwrap();
            order.push(evicted.unwrap().ip.to_bits());
        }
        assert_eq!(order, [2, 5, 1, 7]);
        assert_eq!(table.insert(entry(200, State::Reachable, 0, None)), Err(TableFull));
        let ips: Vec<u32> = table.iter().map(|e| e.ip.to_bits()).collect();
        assert_eq!(ips, [3, 9, 100, 101, 102, 103]);
    }

    #[test]
    fn never_allocates_after_the_start() {
        let mut table = Table::new(64);
        let before = table.entries.capacity();
        for ip in 0..1000u32 {
            table.insert(entry(ip.wrapping_mul(0x9e37_79b9), State::Stale, 0, None)).unwrap();
        }
        assert_eq!((table.entries.len(), table.entries.capacity()), (64, before));
    }
}
