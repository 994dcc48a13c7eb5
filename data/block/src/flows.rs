//! The owner of a flow: the worker that has its state.
//!
//! State that is sharded by flow lives at one worker, its *owner*. [`FlowOwners`] gives it for
//! every flow of a node. All workers read it without locks; a worker writes it when it takes a new
//! flow, gives one up or hands one over. A flow is named by a [`FlowKey`], which blocks compute
//! from packets.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::shares::Shares;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

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

/// Whether flows may move to a worker, as [`FlowOwners::limit_moves`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayMove {
    /// They may.
    Now,
    /// Those of an order of which some have begun to move; others wait as with [`Later`](MayMove::Later).
    IfBegun,
    /// Not before a change of the workers' graphs is complete: orders to move wait for that.
    Later,
    /// Never, as the worker does not have the node.
    Never,
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
    /// By worker: a [`MayMove`].
    limits: [AtomicU8; MAX_WORKERS as usize],
    /// How often they have been set.
    limited: AtomicU64,
    /// At least as many as there are flows whose state is on its way.
    moving: AtomicUsize,
    shares: Shares,
}

impl FlowOwners {
    /// Room for `flows` flows, with rare exceptions from there on: about 36 bytes each.
    pub fn new(flows: usize) -> FlowOwners {
        let buckets = (flows.max(1) * 4).div_ceil(BUCKET).next_power_of_two();
        let bucket = |_| Bucket {
            entries: [const { AtomicU64::new(EMPTY) }; BUCKET],
            adding: AtomicU32::new(0),
        };
        let limits = [const { AtomicU8::new(MayMove::Now as u8) }; MAX_WORKERS as usize];
        let shares = Shares::new(MAX_WORKERS.into(), buckets);
        let buckets = (0..buckets).map(bucket).collect();
        let (limited, moving) = (AtomicU64::new(0), AtomicUsize::new(0));
        FlowOwners { buckets, limits, limited, moving, shares }
    }

    fn place(&self, key: FlowKey) -> usize {
        key.0 as usize & (self.buckets.len() - 1)
    }

    fn bucket(&self, key: FlowKey) -> &Bucket {
        &self.buckets[self.place(key)]
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
            None => self.add(key, worker),
        };
        bucket.adding.store(0, Release);
        outcome
    }

    fn add(&self, key: FlowKey, worker: u16) -> FlowClaim {
        self.shares.add(worker, self.place(key));
        let outcome = self.bucket(key).add(entry(key, FlowOwner { worker, from: None }));
        if outcome != FlowClaim::Mine {
            self.shares.remove(worker, self.place(key));
        }
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
        self.may_move_to(to) == MayMove::Now && self.give_up(key, from, to)
    }

    /// The same for a worker that cannot keep its flows, whatever the limits.
    pub fn give_up(&self, key: FlowKey, from: u16, to: u16) -> bool {
        let old = |owner| owner == FlowOwner { worker: from, from: None };
        let new = |_| FlowOwner { worker: to, from: Some(from) };
        to < MAX_WORKERS && self.replace(key, old, Some(&new))
    }

    /// From now on flows move to workers as `limit` says of each; those that move already go on.
    pub fn limit_moves(&self, limit: impl Fn(u16) -> MayMove) {
        for (worker, place) in (0..).zip(&self.limits) {
            place.store(limit(worker) as u8, Release);
        }
        self.limited.fetch_add(1, AcqRel);
    }

    /// How often [`limit_moves`](Self::limit_moves) has been called: flows that might not move may do so since.
    pub fn limited(&self) -> u64 {
        self.limited.load(Acquire)
    }

    /// Whether flows may move to a worker.
    pub fn may_move_to(&self, worker: u16) -> MayMove {
        match self.limits.get(usize::from(worker)).map(|limit| limit.load(Acquire)) {
            Some(now) if now == MayMove::Now as u8 => MayMove::Now,
            Some(begun) if begun == MayMove::IfBegun as u8 => MayMove::IfBegun,
            Some(later) if later == MayMove::Later as u8 => MayMove::Later,
            _ => MayMove::Never,
        }
    }

    /// Of how many flows the state is on its way. A move that just begins or ends may be counted already, or still.
    pub fn moving(&self) -> usize {
        self.moving.load(Acquire)
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
            let (old, new) = (owner_of(now), new.map(|new| new(owner_of(now))));
            let word = new.map_or(EMPTY, |new| entry(key, new));
            // Counted before and uncounted after: nobody misses a move that goes on, or a flow.
            let (was, is) = [now, word].map(|entry| usize::from(entry & ARRIVING != 0)).into();
            let (place, goes) = (self.place(key), new.is_none_or(|new| new.worker != old.worker));
            let comes = new.filter(|_| goes).map(|new| new.worker);
            self.moving.fetch_add(is, AcqRel);
            comes.inspect(|worker| self.shares.add(*worker, place));
            let replaced = cell.compare_exchange(now, word, Release, Relaxed).is_ok();
            self.moving.fetch_sub(if replaced { was } else { is }, AcqRel);
            let leaves = if replaced { Some(old.worker).filter(|_| goes) } else { comes };
            leaves.inspect(|worker| self.shares.remove(*worker, place));
            if replaced {
                return true;
            }
        }
        false
    }

    /// The flows of a worker that are not arriving, in no particular order. Flows that come and go
    /// meanwhile may be missed. Takes time for them, not for those of others.
    pub fn of_worker(&self, worker: u16) -> Vec<FlowKey> {
        let is = |owner| owner == FlowOwner { worker, from: None };
        let buckets = self.shares.of(worker).flat_map(|part| &self.buckets[part]);
        flows(buckets).filter(|(_, owner)| is(*owner)).map(|(key, _)| key).collect()
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
        flows(&self.buckets)
    }
}

fn flows<'a>(
    buckets: impl IntoIterator<Item = &'a Bucket>,
) -> impl Iterator<Item = (FlowKey, FlowOwner)> {
    let entries = buckets.into_iter().flat_map(|bucket| &bucket.entries);
    let entries = entries.map(|entry| entry.load(Acquire)).filter(|entry| *entry != EMPTY);
    entries.map(|entry| (FlowKey(entry >> OWNER_BITS), owner_of(entry)))
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
        assert_eq!(owners.moving(), 1);
        assert!(owners.redirect(key(1), 4, 6) && owners.redirect(key(1), 6, 4));
        assert!(owners.moving() == 1 && owners.end_move(key(1), 4) && owners.moving() == 0);
        assert_eq!(owners.of_worker(4), [key(1)]);
        let only = |limit| move |worker| if worker == 100 { limit } else { MayMove::Now };
        for limit in [MayMove::IfBegun, MayMove::Later, MayMove::Never] {
            owners.limit_moves(only(limit));
            let told = [100, 101, 300].map(|to| owners.may_move_to(to));
            assert_eq!(told, [limit, MayMove::Now, MayMove::Never]);
            assert!(!owners.begin_move(key(1), 4, 100));
        }
        assert!(owners.begin_move(key(1), 4, 101));
        assert!(owners.end_move(key(1), 101) && owners.give_up(key(1), 101, 100));
        owners.limit_moves(|_| MayMove::Now);
        assert!(owners.end_move(key(1), 100) && owners.begin_move(key(1), 100, 4));
        assert!(owners.end_move(key(1), 4));
        assert!(owners.release(key(1), 4));
        assert_eq!((owners.owner(key(1)), owners.is_empty()), (None, true));
        assert_eq!(owners.claim(key(1), 3), FlowClaim::Mine);
        assert!(owners.begin_move(key(1), 3, 4) && owners.release(key(1), 4));
        assert_eq!((owners.moving(), owners.is_empty()), (0, true));
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

    #[test]
    fn the_flows_of_a_worker_are_found_without_those_of_others() {
        let owners = FlowOwners::new(16_384);
        assert!((0..10_000).all(|n| owners.claim(key(n), 1) == FlowClaim::Mine));
        assert_eq!((owners.shares.of(2).count(), owners.of_worker(2)), (0, Vec::new()));
        assert!(owners.begin_move(key(0), 1, 2) && owners.begin_move(key(1), 1, 2));
        assert_eq!((owners.shares.of(2).count(), owners.of_worker(2).len()), (2, 0), "under way");
        assert!(owners.end_move(key(0), 2) && owners.redirect(key(1), 2, 3));
        assert_eq!((owners.shares.of(2).count(), owners.of_worker(2)), (1, vec![key(0)]));
        assert!(owners.end_move(key(1), 3) && owners.release(key(0), 2));
        assert_eq!((owners.shares.of(2).count(), owners.of_worker(3)), (0, vec![key(1)]));
        assert_eq!(owners.of_worker(1).len(), 9998);
        owners.release_all(1);
        assert_eq!((owners.shares.of(1).count(), owners.len()), (0, 1));
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
