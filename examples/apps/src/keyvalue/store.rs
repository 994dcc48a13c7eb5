//! The values by their keys, and how far a request was taken.

use std::collections::HashMap;

/// The store.
#[derive(Debug, Default)]
pub(super) struct Store(HashMap<Vec<u8>, (u32, Vec<u8>)>);

/// How a request at the front of some octets was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has so many octets.
    Done(usize),
    /// It is not whole.
    More,
    /// It is the last one.
    End,
}

impl Progress {
    /// The same, behind so many octets.
    pub(super) fn beyond(self, octets: usize) -> Progress {
        match self {
            Progress::Done(len) => Progress::Done(octets + len),
            other => other,
        }
    }
}

impl Store {
    pub(super) fn get(&self, key: &[u8]) -> Option<(u32, &[u8])> {
        self.0.get(key).map(|(flags, value)| (*flags, &value[..]))
    }

    pub(super) fn set(&mut self, key: &[u8], flags: u32, value: &[u8]) {
        // A key that is there keeps its memory.
        match self.0.get_mut(key) {
            Some((old, kept)) => {
                *old = flags;
                kept.clear();
                kept.extend(value);
            }
            None => drop(self.0.insert(key.to_vec(), (flags, value.to_vec()))),
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
