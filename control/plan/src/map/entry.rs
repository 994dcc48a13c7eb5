//! Rules as the flow map holds them, and the records of a change: its effects, for a policy, and its work,
//! which a search bounds without a clock.

use std::cell::Cell;

use weever_graph::nic::FlowType;

use super::Placement;
use crate::config::Target;
use crate::flow::Conj;

/// An entry to be inserted into a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewEntry {
    pub(crate) table: usize,
    pub(crate) flow_type: Option<FlowType>,
    /// The packets that it matches; never empty.
    pub(crate) conj: Conj,
    pub(crate) target: Target,
    pub(crate) priority: u32,
    pub(crate) location: u32,
    /// Its rank in its table: the lowest wins, then the earliest.
    pub(crate) rank: i64,
}

/// A rule in a table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) rule: NewEntry,
    /// The flow that it was made for; nothing once that is gone (it is *stale*), or if it is fixed.
    pub(crate) owner: Option<u32>,
    /// Whether others made it on the device.
    pub(crate) fixed: bool,
    /// Counts insertions.
    pub(crate) seq: u64,
    /// The parts of flows that contain it. Its packets belong to the narrowest of these parts, and to
    /// equally narrow ones.
    pub(crate) cover: List,
}

impl Entry {
    /// Whether its flow is gone.
    pub(crate) fn is_stale(&self) -> bool {
        self.owner.is_none() && !self.fixed
    }

    /// The sort key that decides which of two entries a packet meets first.
    pub(crate) fn turn(&self) -> (usize, i64, u64) {
        (self.rule.table, self.rule.rank, self.seq)
    }
}

/// A vector with holes that are filled again.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.items[at as usize] = Some(item);
                at
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let item = self.items.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(item)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.items.get(at as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().enumerate().filter_map(|(i, t)| Some((i as u32, t.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten()
    }

    /// One more than the highest number that was ever in use.
    pub(crate) fn slots(&self) -> u32 {
        self.items.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

/// The numbers that are handed out are valid until they are removed.
impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        self.get(at).expect("the number of an item that was not removed")
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        let item = self.items.get_mut(at as usize).and_then(Option::as_mut);
        item.expect("the number of an item that was not removed")
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct List {
    first: u32,
    more: Vec<u32>,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, more: Vec::new() }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (self.first != NONE).then_some(self.first).into_iter().chain(self.more.iter().copied())
    }

    pub(crate) fn contains(&self, item: u32) -> bool {
        self.iter().any(|i| i == item)
    }

    pub(crate) fn push(&mut self, item: u32) {
        if self.first == NONE {
            self.first = item;
        } else {
            self.more.push(item);
        }
    }

    /// Removes `item` and returns whether it was there.
    pub(crate) fn remove(&mut self, item: u32) -> bool {
        if self.first == item && item != NONE {
            self.first = self.more.pop().unwrap_or(NONE);
            return true;
        }
        let at = self.more.iter().position(|i| *i == item);
        at.map(|at| self.more.swap_remove(at)).is_some()
    }
}

/// Flows and queues that a change concerned, with how they were before the first change.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    epoch: u64,
    /// Flows, by number, with their former placement.
    pub(crate) flows: Vec<(u32, Placement)>,
    /// Whether a rule was inserted that catches packets of others than the flow it is for, even
    /// if they arrive at the same queue as before.
    pub(crate) caught_others: bool,
    /// Queues, with whether `other` reached them.
    pub(crate) other: Vec<(u32, bool)>,
}

impl Journal {
    /// Starts over.
    pub(crate) fn clear(&mut self) {
        self.epoch += 1;
        self.flows.clear();
        self.other.clear();
        self.caught_others = false;
    }

    /// Distinguishes flows that were noted from others.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn note(&mut self, flow: u32, before: Placement) {
        self.flows.push((flow, before));
    }

    pub(super) fn note_other(&mut self, queue: u32, before: bool) {
        if !self.other.iter().any(|(q, _)| *q == queue) {
            self.other.push((queue, before));
        }
    }
}

/// Steps of computation since the last start. A step is about an intersection of two conjunctions:
/// some 100 ns.
#[derive(Debug, Default)]
pub(crate) struct Work {
    steps: Cell<u64>,
}

impl Work {
    pub(crate) fn start(&self) {
        self.steps.set(0);
    }

    pub(crate) fn spend(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }
}
