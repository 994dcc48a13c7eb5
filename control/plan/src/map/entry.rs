//! Rules as the flow map holds them.

use weever_graph::nic::FlowType;

use super::list::List;
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
    /// The flow that it was made for; nothing once that is gone (it is *stale*).
    pub(crate) owner: Option<u32>,
    /// Counts insertions.
    pub(crate) seq: u64,
    /// The parts of flows that contain it. Its packets belong to the narrowest of these parts, and to
    /// equally narrow ones.
    pub(crate) cover: List,
}

impl Entry {
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
