//! The owner of a flow: the worker that has its state.
//!
//! State that is sharded by flow lives at one worker, its *owner*. [`FlowOwners`] gives it for
//! every flow of a node. All workers read it without locks; a worker writes it when it takes a new
//! flow, gives one up or hands one over. A flow is named by a [`FlowKey`], which blocks compute
//! from packets.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The name of a flow: 47 bits of a hash of its identity, never 0. Flows with the same key have the
/// same owner; a block that tells them apart compares the hashed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(u64);

impl FlowKey {
    /// The key of a flow that hashes to `hash`. Peers choose the hashed values, so use a keyed
    /// hash; its upper 47 bits count.
    pub fn of_hash(hash: u64) -> FlowKey {
        FlowKey((hash >> OWNER_BITS).max(1))
    }

    /// The key as a number, to index tables by.
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// A flow as filters see it, for a plan that sends sets of flows elsewhere: a subnet's, a port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowEnds {
    /// Its name.
    pub key: FlowKey,
    /// IP protocol number.
    pub protocol: u8,
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

/// The owner of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOwner {
    /// Its number.
    pub worker: u16,
    /// The worker from which the flow's state is still on its way.
    pub from: Option<u16>,
}

/// The outcome of [`FlowOwners::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClaim {
    /// The caller owns the flow, from now on or already.
    Mine,
    /// Another worker owns it, or its state is still on its way.
    Elsewhere(FlowOwner),
    /// There is no room for another flow.
    Full,
}

/// The bits of an entry below the key: the worker, the one from which the state is on its way, and
/// whether it is.
const OWNER_BITS: u32 = 17;
const ARRIVING: u64 = 1 << 16;
const FROM_SHIFT: u32 = 8;

/// Workers from this number on cannot own flows.
const MAX_WORKERS: u16 = 256;

/// Entries of one bucket: two cache lines. With a quarter of all entries in use, as many flows
/// practically never meet in one bucket.
const BUCKET: usize = 16;

/// How often a claim tries to get hold of a bucket in which another worker adds a flow.
const MAX_TRIES: usize = 4096;

/// No flow.
const EMPTY: u64 = 0;

/// An entry is the key, shifted, and the owner; or [`EMPTY`].
#[derive(Debug)]
struct Bucket {
    entries: [AtomicU64; BUCKET],
    /// 1 while a worker adds a flow, so that two cannot add the same one.
    adding: AtomicU32,
}

/// The owners of the flows of one node, shared by all workers. Of constant size.
#[derive(Debug)]
pub struct FlowOwners {
    buckets: Box<[Bucket]>,
    /// The workers to which no flow may move, a bit each.
    away: [AtomicU64; MAX_WORKERS as usize / 64],
}

impl FlowOwners {
    /// Room for `flows` flows, with rare exceptions from there on: about 36 bytes each.
    pub fn new(flows: usize) -> FlowOwners {
        let buckets = (flows.max(1) * 4).div_ceil(BUCKET).next_power_of_two();
        let bucket = |_| Bucket {
            entries: [const { AtomicU64::new(EMPTY) }; BUCKET],
            adding: AtomicU32::new(0),
        };
        let away = [const { AtomicU64::new(0) }; MAX_WORKERS as usize / 64];
        FlowOwners { buckets: (0..buckets).map(bucket).collect(), away }
    }

    fn bucket(&self, key: FlowKey) -> &Bucket {
        &self.buckets[key.0 as usize & (self.buckets.len() - 1)]
    }

    /// The owner of a flow, if it has one. Does not block.
    #[inline]
    pub fn owner(&self, key: FlowKey) -> Option<FlowOwner> {
        self.bucket(key).find(key).map(|(_, entry)| owner_of(entry))
    }

    /// Makes `worker` the owner of a flow that has none. Waits a bounded time for another worker that
    /// adds a flow to the same bucket.
    pub fn claim(&self, key: FlowKey, worker: u16) -> FlowClaim {
        let bucket = self.bucket(key);
        if worker >= MAX_WORKERS {
            return FlowClaim::Full;
        }
        if let Some((_, entry)) = bucket.find(key) {
            return claimed(entry, worker);
        }
        let take = || bucket.adding.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        if !(0..MAX_TRIES).any(|_| {
            take() || {
                std::hint::spin_loop();
                false
            }
        }) {
            return FlowClaim::Full;
        }
        let outcome = match bucket.find(key) {
            Some((_, entry)) => claimed(entry, worker),
            None => bucket.add(entry(key, FlowOwner { worker, from: None })),
        };
        bucket.adding.store(0, Release);
        outcome
    }

    /// Ends a flow of `worker`. Returns whether it was one.
    pub fn release(&self, key: FlowKey, worker: u16) -> bool {
        let old = |owner: FlowOwner| owner.worker == worker;
        self.replace(key, old, None)
    }

    /// Makes `to` the future owner of a flow that `from` has: its state is on its way from now on. Does
    /// nothing if [`limit_moves`](Self::limit_moves) excludes `to`.
    pub fn begin_move(&self, key: FlowKey, from: u16, to: u16) -> bool {
        to < MAX_WORKERS && self.may_move_to(to) && self.give_up(key, from, to)
    }

    /// The same for a worker that cannot keep its flows, whatever the limits.
    pub fn give_up(&self, key: FlowKey, from: u16, to: u16) -> bool {
        let old = |owner| owner == FlowOwner { worker: from, from: None };
        let new = |_| FlowOwner { worker: to, from: Some(from) };
        to < MAX_WORKERS && self.replace(key, old, Some(&new))
    }

    /// From now on flows move only to workers that `may_take` selects; those that move already go on.
    pub fn limit_moves(&self, may_take: impl Fn(u16) -> bool) {
        for (bits, first) in self.away.iter().zip((0..).step_by(64)) {
            let away = |at: &u16| !may_take(first + at);
            bits.store((0..64).filter(away).fold(0, |bits, at| bits | 1 << at), Release);
        }
    }

    fn may_move_to(&self, worker: u16) -> bool {
        self.away[usize::from(worker / 64)].load(Acquire) >> (worker % 64) & 1 == 0
    }

    /// Whether the state of any flow is on its way.
    pub fn has_moves(&self) -> bool {
        self.all().any(|(_, owner)| owner.from.is_some())
    }

    /// The state of a flow has arrived at `worker`.
    pub fn end_move(&self, key: FlowKey, worker: u16) -> bool {
        let old = |owner: FlowOwner| owner.worker == worker && owner.from.is_some();
        self.replace(key, old, Some(&|_| FlowOwner { worker, from: None }))
    }

    /// Sends a flow that is on its way to `worker` on to another one.
    pub fn redirect(&self, key: FlowKey, worker: u16, to: u16) -> bool {
        let old = |owner: FlowOwner| owner.worker == worker && owner.from.is_some();
        to < MAX_WORKERS && self.replace(key, old, Some(&|old| FlowOwner { worker: to, ..old }))
    }

    fn replace(
        &self,
        key: FlowKey,
        old: impl Fn(FlowOwner) -> bool,
        new: Option<&dyn Fn(FlowOwner) -> FlowOwner>,
    ) -> bool {
        while let Some((cell, now)) = self.bucket(key).find(key) {
            if !old(owner_of(now)) {
                return false;
            }
            let new = new.map_or(EMPTY, |new| entry(key, new(owner_of(now))));
            if cell.compare_exchange(now, new, Release, Relaxed).is_ok() {
                return true;
            }
        }
        false
    }

    /// The flows of a worker that are not arriving, in no particular order. Flows that come and go
    /// meanwhile may be missed.
    pub fn of_worker(&self, worker: u16) -> Vec<FlowKey> {
        let is = |owner| owner == FlowOwner { worker, from: None };
        self.all().filter(|(_, owner)| is(*owner)).map(|(key, _)| key).collect()
    }

    /// Ends all flows of a worker whose state is lost; not those that are arriving.
    pub fn release_all(&self, worker: u16) {
        for key in self.of_worker(worker) {
            self.release(key, worker);
        }
    }

    /// How many flows have an owner.
    pub fn len(&self) -> usize {
        self.all().count()
    }

    /// Whether no flow has an owner.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    fn all(&self) -> impl Iterator<Item = (FlowKey, FlowOwner)> {
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.entries);
        let entries = entries.map(|entry| entry.load(Acquire)).filter(|entry| *entry != EMPTY);
        entries.map(|entry| (FlowKey(entry >> OWNER_BITS), owner_of(entry)))
    }
}

impl Bucket {
    #[inline]
    fn find(&self, key: FlowKey) -> Option<(&AtomicU64, u64)> {
        let entries = self.entries.iter().map(|cell| (cell, cell.load(Acquire)));
        entries.into_iter().find(|(_, entry)| entry >> OWNER_BITS == key.0)
    }

    /// Called by the worker that is adding.
    fn add(&self, entry: u64) -> FlowClaim {
        match self.entries.iter().find(|cell| cell.load(Relaxed) == EMPTY) {
            Some(cell) => {
                cell.store(entry, Release);
                FlowClaim::Mine
            }
            None => FlowClaim::Full,
        }
    }
}

fn entry(key: FlowKey, FlowOwner { worker, from }: FlowOwner) -> u64 {
    let from = from.map_or(0, |from| ARRIVING | u64::from(from) << FROM_SHIFT);
    key.0 << OWNER_BITS | from | u64::from(worker)
}

fn owner_of(entry: u64) -> FlowOwner {
    let byte = |shift: u32| (entry >> shift & 0xff) as u16;
    let from = (entry & ARRIVING != 0).then(|| byte(FROM_SHIFT));
    FlowOwner { worker: byte(0), from }
}

fn claimed(entry: u64, worker: u16) -> FlowClaim {
    match owner_of(entry) {
        owner if owner == (FlowOwner { worker, from: None }) => FlowClaim::Mine,
        owner => FlowClaim::Elsewhere(owner),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn key(n: u64) -> FlowKey {
        FlowKey::of_hash(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn a_flow_has_one_owner_until_it_is_moved_or_released() {
        let owners = FlowOwners::new(64);
        assert_eq!(owners.claim(key(1), 3), FlowClaim::Mine);
        assert_eq!(owners.claim(key(1), 3), FlowClaim::Mine);
        let third = FlowOwner { worker: 3, from: None };
        assert_eq!(owners.claim(key(1), 4), FlowClaim::Elsewhere(third));
        assert!(!owners.begin_move(key(1), 4, 5) && !owners.release(key(1), 4));
        assert!(owners.begin_move(key(1), 3, 4));
        assert_eq!(owners.owner(key(1)), Some(FlowOwner { worker: 4, from: Some(3) }));
        assert!(!owners.begin_move(key(1), 4, 5), "its state is on its way");
        assert!(owners.of_worker(4).is_empty());
        assert!(owners.has_moves() && owners.end_move(key(1), 4) && !owners.has_moves());
        assert_eq!(owners.of_worker(4), [key(1)]);
        owners.limit_moves(|worker| worker != 100);
        assert!(!owners.begin_move(key(1), 4, 100) && owners.begin_move(key(1), 4, 101));
        assert!(owners.end_move(key(1), 101) && owners.give_up(key(1), 101, 100));
        owners.limit_moves(|_| true);
        assert!(owners.end_move(key(1), 100) && owners.begin_move(key(1), 100, 4));
        assert!(owners.end_move(key(1), 4));
        assert!(owners.release(key(1), 4));
        assert_eq!((owners.owner(key(1)), owners.is_empty()), (None, true));
    }

    #[test]
    fn it_has_the_room_that_was_asked_for_and_refuses_more() {
        let owners = FlowOwners::new(4096);
        let fits = |n| owners.claim(key(n), 1) == FlowClaim::Mine;
        assert!((0..4096).all(fits));
        assert_eq!(owners.len(), 4096);
        let full = (4096..200_000).filter(|n| owners.claim(key(*n), 1) == FlowClaim::Full).count();
        assert!(full > 0, "it does not grow");
        owners.release_all(1);
        assert!(owners.is_empty());
    }

    /// Two threads that meet the first packets of the same flows: one of them gets each flow.
    #[test]
    fn a_flow_that_two_workers_claim_at_once_gets_one_owner() {
        let owners = FlowOwners::new(1024);
        let mine = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for worker in 0..2u16 {
                let (owners, mine) = (&owners, &mine);
                scope.spawn(move || {
                    for n in (0..400_000u64).map(|n| n % 1000) {
                        if owners.claim(key(n), worker) == FlowClaim::Mine {
                            mine[usize::from(worker)].fetch_add(1, Relaxed);
                            assert!(owners.release(key(n), worker), "an owned flow stays owned");
                        }
                    }
                });
            }
        });
        assert!(owners.is_empty());
        assert!(mine.iter().all(|n| n.load(Relaxed) > 0));
    }
}
