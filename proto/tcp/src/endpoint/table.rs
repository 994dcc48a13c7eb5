//! Which connection a segment belongs to: open addressing over a keyed hash.

const FREE: u32 = u32::MAX;
/// A place that was used: a search goes on behind it.
const GONE: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The hash's low half, so that most others are told apart without a look at their connection.
    tag: u32,
    index: u32,
}

const EMPTY: Slot = Slot { tag: 0, index: FREE };

/// Indices by hash. At most half of the places are in use, so that a search looks at two on average.
#[derive(Debug)]
pub(crate) struct Table {
    places: Vec<Slot>,
    len: usize,
    gone: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { places: vec![EMPTY; 16], len: 0, gone: 0 }
    }

    /// The index with this hash for which `is_it` says yes.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|at| self.places[at].index)
    }

    #[inline]
    fn position(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let (mask, tag) = (self.places.len() - 1, hash as u32);
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let place = self.places[at];
            if place.index == FREE {
                return None;
            }
            if place.tag == tag && place.index != GONE && is_it(place.index) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an index that is not there. `hash_of` gives the hash of any index, for growing.
    pub(crate) fn insert(&mut self, hash: u64, index: u32, hash_of: impl Fn(u32) -> u64) {
        if 2 * (self.len + self.gone + 1) > self.places.len() {
            self.grow(hash_of);
        }
        self.put(hash, index);
        self.len += 1;
    }

    fn put(&mut self, hash: u64, index: u32) {
        let mask = self.places.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        while self.places[at].index < GONE {
            at = (at + 1) & mask;
        }
        if self.places[at].index == GONE {
            self.gone -= 1;
        }
        self.places[at] = Slot { tag: hash as u32, index };
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let size = (4 * (self.len + 1)).next_power_of_two().max(16);
        let old = std::mem::replace(&mut self.places, vec![EMPTY; size]);
        self.gone = 0;
        for place in old.into_iter().filter(|place| place.index < GONE) {
            self.put(hash_of(place.index), place.index);
        }
    }

    /// Takes an index out.
    pub(crate) fn remove(&mut self, hash: u64, index: u32) {
        if let Some(at) = self.position(hash, |other| other == index) {
            self.places[at].index = GONE;
            self.len -= 1;
            self.gone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in vec((0u32..60, any::<bool>()), 1..400)) {
            // Few distinct hashes, so that they collide.
            let hash = |index: u32| u64::from(index % 9) << 32 | u64::from(index % 4);
            let (mut table, mut model) = (Table::new(), HashMap::new());
            for (index, insert) in steps {
                if insert && !model.contains_key(&index) {
                    table.insert(hash(index), index, hash);
                    model.insert(index, ());
                } else if !insert {
                    table.remove(hash(index), index);
                    model.remove(&index);
                }
                for index in 0..60 {
                    let found = table.find(hash(index), |other| other == index);
                    prop_assert_eq!(found.is_some(), model.contains_key(&index));
                }
            }
        }
    }
}
