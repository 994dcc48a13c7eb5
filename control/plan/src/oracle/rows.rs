//! An open hash that gives up: the tables of some NICs refuse rules before they are full.

use std::collections::HashMap;

use crate::flow::Conj;
use crate::map::mix;

/// The rows of such a table. The hash is not the NIC's own, but it fails as often: double hashing with
/// an odd step and a bounded number of probes.
#[derive(Debug)]
pub(crate) struct Rows {
    used: Vec<bool>,
    probes: u32,
    of_entry: HashMap<u32, usize>,
}

impl Rows {
    pub(crate) fn new(rows: u32, probes: u32) -> Rows {
        Rows { used: vec![false; rows.max(1) as usize], probes, of_entry: HashMap::new() }
    }

    /// A row for a rule that matches `conj`, unless the hash gives up.
    pub(crate) fn find(&self, conj: &Conj) -> Option<usize> {
        let hash = conj.tests().fold(conj.kinds().hash_word(), |h, t| {
            mix(mix(h, t.value as u64), (t.value >> 64) as u64)
        });
        let step = (hash >> 32 << 1 | 1) as usize;
        let rows = self.used.len();
        let row = |i: u32| (hash as usize).wrapping_add(step.wrapping_mul(i as usize)) % rows;
        (0..self.probes).map(row).find(|r| !self.used[*r])
    }

    pub(crate) fn insert(&mut self, entry: u32, conj: &Conj) {
        if let Some(row) = self.find(conj) {
            self.used[row] = true;
            self.of_entry.insert(entry, row);
        }
    }

    pub(crate) fn remove(&mut self, entry: u32) {
        if let Some(row) = self.of_entry.remove(&entry) {
            self.used[row] = false;
        }
    }
}
