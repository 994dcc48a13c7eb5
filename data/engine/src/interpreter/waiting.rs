//! Waiting tasks: blocked ones, in a FIFO for each pair of entry and key; tasks that start later; and the
//! deadlines of blocks.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weever_block::Priority;
use weever_packet::Nanos;
use weever_timer::{Key, Wheel};

use super::task_queues::Task;
use crate::slots::Counter;
use crate::{Entry, Limits};

const NONE: u32 = u32::MAX;

/// A task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Wait {
    entry: Entry,
    key: u64,
}

#[derive(Debug)]
struct Waiter {
    task: Task,
    next: u32,
}

/// The waiters of one key, linked through the slab.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    head: u32,
    tail: u32,
    len: u32,
}

/// A slab of waiters and the index of their queues. Nothing allocates once the slab has grown to
/// its bound; the map is made twice as large as that, so that it only ever rehashes in place.
#[derive(Debug)]
pub(crate) struct Blocked {
    queues: HashMap<Wait, Fifo, Mixing>,
    waiters: Vec<Waiter>,
    free: u32,
    len: usize,
    limit: usize,
    per_key: usize,
}

impl Blocked {
    pub(crate) fn new(limits: &Limits) -> Blocked {
        Blocked {
            queues: HashMap::with_capacity_and_hasher(limits.blocked * 2, Mixing::new()),
            waiters: Vec::with_capacity(limits.blocked),
            free: NONE,
            len: 0,
            limit: limits.blocked,
            per_key: limits.blocked_per_key,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a task behind those that wait for the same key at the same entry; returns it when too
    /// many are blocked. The `woken` tasks that have not run yet count as blocked.
    pub(crate) fn block(
        &mut self,
        entry: Entry,
        key: u64,
        task: Task,
        woken: usize,
    ) -> Result<(), Task> {
        if self.len + woken >= self.limit || self.per_key == 0 {
            return Err(task);
        }
        let wait = Wait { entry, key };
        let fifo = self.queues.get(&wait).copied();
        if fifo.is_some_and(|fifo| fifo.len as usize >= self.per_key) {
            return Err(task);
        }
        let new = self.store(task);
        let fifo = match fifo {
            None => Fifo { head: new, tail: new, len: 1 },
            Some(Fifo { head, tail, len }) => {
                self.waiters[tail as usize].next = new;
                Fifo { head, tail: new, len: len + 1 }
            }
        };
        self.queues.insert(wait, fifo);
        self.len += 1;
        Ok(())
    }

    /// Removes the tasks that wait for `key` at `entry`, in the order in which they blocked.
    pub(crate) fn wake(&mut self, entry: Entry, key: u64, each: impl FnMut(Task)) {
        if self.len == 0 {
            return;
        }
        let Some(fifo) = self.queues.remove(&Wait { entry, key }) else { return };
        self.unlink(fifo, each);
    }

    /// Removes every task that waits at `entry`; tasks with the same key stay in order.
    pub(crate) fn wake_all(&mut self, entry: Entry, mut each: impl FnMut(Task)) {
        if self.len == 0 {
            return;
        }
        let Blocked { queues, .. } = self;
        let fifos: Vec<Fifo> =
            queues.extract_if(|wait, _| wait.entry == entry).map(|(_, fifo)| fifo).collect();
        fifos.into_iter().for_each(|fifo| self.unlink(fifo, &mut each));
    }

    fn unlink(&mut self, fifo: Fifo, mut each: impl FnMut(Task)) {
        let mut at = fifo.head;
        while at != NONE {
            let waiter = &mut self.waiters[at as usize];
            each(waiter.task.take());
            let next = std::mem::replace(&mut waiter.next, self.free);
            self.free = at;
            at = next;
        }
        self.len -= fifo.len as usize;
    }

    fn store(&mut self, task: Task) -> u32 {
        let waiter = Waiter { task, next: NONE };
        match self.free {
            NONE => {
                self.waiters.push(waiter);
                self.waiters.len() as u32 - 1
            }
            index => {
                self.free = self.waiters[index as usize].next;
                self.waiters[index as usize] = waiter;
                index
            }
        }
    }
}

/// Multiply and fold with a random seed: peers may choose the keys and must not be able to make
/// them collide; SipHash would cost more than the lookup.
#[derive(Clone, Debug)]
struct Mixing {
    seed: u64,
}

impl Mixing {
    fn new() -> Mixing {
        Mixing { seed: RandomState::new().hash_one(0u8) }
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mix;
    fn build_hasher(&self) -> Mix {
        Mix(self.seed)
    }
}

struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let product =
            u128::from(self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// A task that starts later.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) entry: Entry,
    pub(crate) priority: Priority,
    pub(crate) task: Task,
    /// Counts it if its queue is full.
    pub(crate) full: Counter,
}

/// Tasks that start later: at a time, with a free buffer, or when a descriptor can be read.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) timed: Wheel<Delayed>,
    pub(crate) for_buffer: VecDeque<Delayed>,
    pub(crate) for_input: Vec<(Arc<OwnedFd>, Delayed)>,
    limit: usize,
}

impl Later {
    pub(crate) fn new(limits: &Limits) -> Later {
        let timed = Wheel::new(limits.tick, limits.delayed, 0);
        let (for_buffer, for_input) = (VecDeque::new(), Vec::new());
        Later { timed, for_buffer, for_input, limit: limits.delayed }
    }

    pub(crate) fn len(&self) -> usize {
        self.timed.len() + self.for_buffer.len() + self.for_input.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more may wait.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    /// Adds a task for which there is room.
    pub(crate) fn start_after(&mut self, delayed: Delayed, delay: Nanos, now: Nanos) {
        if self.timed.is_empty() {
            // Advances an idle wheel first, so that the new timer is placed at a low level.
            self.timed.poll(now);
        }
        self.timed.insert(now.saturating_add(delay), delayed);
    }

    /// Visits every task, and forgets those for which `keep` says so.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Delayed) -> bool) {
        self.timed.retain(&mut keep);
        self.for_buffer.retain_mut(&mut keep);
        self.for_input.retain_mut(|(_, delayed)| keep(delayed));
    }
}

/// The deadlines of an engine's blocks, by node.
#[derive(Debug)]
pub(crate) struct Deadlines {
    wheel: Wheel<u32>,
    keys: HashMap<u32, Key, Mixing>,
}

impl Deadlines {
    pub(crate) fn new(tick: Nanos) -> Deadlines {
        Deadlines { wheel: Wheel::new(tick, 0, 0), keys: HashMap::with_hasher(Mixing::new()) }
    }

    /// Replaces the deadline of a node's block.
    pub(crate) fn set(&mut self, node: u32, at: Option<Nanos>, now: Nanos) {
        self.clear(node);
        if let Some(at) = at {
            if self.wheel.is_empty() {
                // Advances an idle wheel first, so that the new timer is placed at a low level.
                self.wheel.poll(now);
            }
            self.keys.insert(node, self.wheel.insert(at, node));
        }
    }

    /// Removes the deadline of a node's block, if it has one. A change asks for every block that
    /// comes or goes, and few blocks have one: where none has, a test in the caller is all.
    #[inline]
    pub(crate) fn clear(&mut self, node: u32) {
        if !self.keys.is_empty() {
            self.remove(node);
        }
    }

    #[inline(never)]
    fn remove(&mut self, node: u32) {
        if let Some(key) = self.keys.remove(&node) {
            self.wheel.cancel(key);
        }
    }

    /// The next node whose deadline has come.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<u32> {
        let node = self.wheel.poll(now)?;
        self.keys.remove(&node);
        Some(node)
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(blocked: &mut Blocked, node: u32, key: u64) -> usize {
        let mut n = 0;
        blocked.wake(Entry(node), key, |_| n += 1);
        n
    }

    #[test]
    fn keys_and_nodes_are_apart_and_bounds_hold() {
        let limits = Limits { blocked: 5, blocked_per_key: 2, ..Limits::default() };
        let mut blocked = Blocked::new(&limits);
        assert!(blocked.block(Entry(1), 7, None, 0).is_ok());
        assert!(blocked.block(Entry(1), 7, None, 0).is_ok());
        assert!(blocked.block(Entry(1), 7, None, 0).is_err(), "two per key");
        assert!(blocked.block(Entry(2), 7, None, 0).is_ok());
        assert!(blocked.block(Entry(1), 8, None, 2).is_err(), "woken ones count");
        assert!(blocked.block(Entry(1), 8, None, 1).is_ok());
        assert_eq!(woken(&mut blocked, 1, 7), 2);
        assert_eq!(woken(&mut blocked, 1, 7), 0);
        assert_eq!(blocked.len(), 2);
        let mut all = 0;
        blocked.wake_all(Entry(1), |_| all += 1);
        assert_eq!((all, blocked.len()), (1, 1));
    }

    #[test]
    fn a_long_life_does_not_grow() {
        let limits = Limits { blocked: 8, ..Limits::default() };
        let mut blocked = Blocked::new(&limits);
        let (map, slab) = (blocked.queues.capacity(), blocked.waiters.capacity());
        for round in 0..10_000u64 {
            for i in 0..8 {
                assert!(blocked.block(Entry(0), round * 8 + i, None, 0).is_ok());
            }
            for i in 0..8 {
                assert_eq!(woken(&mut blocked, 0, round * 8 + i), 1);
            }
        }
        assert_eq!((blocked.queues.capacity(), blocked.waiters.capacity()), (map, slab));
    }
}
