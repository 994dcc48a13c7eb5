//! Entries by mask: one hash table for each mask in use (design/0000 §4.1).

use weever_graph::{Entry, TableSpec};

use weever_net::random::Key;

use super::fields::{Key as PacketKey, append};

/// The result for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The id of the entry that it hit.
    pub(super) entry: Option<u32>,
    /// The port by which the packet leaves.
    pub(super) port: u32,
}

/// An entry as a group holds it.
#[derive(Clone, Copy, Debug)]
struct Slot<const W: usize> {
    words: [u64; W],
    /// Priority, then age: larger wins.
    rank: u64,
    verdict: Verdict,
}

/// The entries of one mask, in an open-addressed table with room to spare: at most half full.
#[derive(Debug)]
struct Group<const W: usize> {
    mask: [u64; W],
    /// Fields with a mask that is not empty: a packet without one of them cannot match.
    needs: u32,
    /// The best rank in the group.
    best: u64,
    slots: Box<[Option<Slot<W>>]>,
}

/// Every entry of a table.
#[derive(Debug)]
pub(super) struct Index<const W: usize> {
    /// By falling best rank, so that the search can end early.
    groups: Vec<Group<W>>,
    miss: Verdict,
    key: Key,
}

impl<const W: usize> Index<W> {
    /// `key` is a secret: senders choose the keys that are looked up.
    pub(super) fn new(spec: &TableSpec, key: Key) -> Index<W> {
        let miss = Verdict { entry: None, port: spec.miss };
        let mut by_mask: Vec<([u64; W], Vec<Slot<W>>, u32)> = Vec::new();
        for (age, entry) in spec.entries.iter().enumerate() {
            let (mask, words) = (packed(spec, entry, |k| k.mask), packed(spec, entry, |k| k.value));
            let rank = u64::from(entry.priority) << 32 | (u64::from(u32::MAX) - age as u64);
            let verdict = Verdict { entry: Some(entry.id), port: entry.port };
            let slot = Slot { words, rank, verdict };
            match by_mask.iter_mut().find(|(m, ..)| *m == mask) {
                Some((_, slots, _)) => slots.push(slot),
                None => by_mask.push((mask, vec![slot], needs(entry))),
            }
        }
        let mut groups: Vec<Group<W>> = by_mask
            .into_iter()
            .map(|(mask, slots, needs)| Group::new(mask, needs, slots, key))
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.best));
        Index { groups, miss, key }
    }

    /// The entry that wins among those which match.
    #[inline]
    pub(super) fn find(&self, key: &PacketKey<W>) -> Verdict {
        let mut won: Option<&Slot<W>> = None;
        for group in &self.groups {
            if won.is_some_and(|slot| slot.rank >= group.best) {
                break;
            }
            if group.needs & !key.present == 0 {
                let found = group.find(&key.words, self.key);
                won = match (won, found) {
                    (Some(a), Some(b)) if a.rank >= b.rank => Some(a),
                    (a, None) => a,
                    (_, b) => b,
                };
            }
        }
        won.map_or(self.miss, |slot| slot.verdict)
    }
}

fn packed<const W: usize>(
    spec: &TableSpec,
    entry: &Entry,
    part: impl Fn(&weever_graph::Key) -> u128,
) -> [u64; W] {
    let mut words = [0; W];
    for (field, key) in spec.fields.iter().zip(&entry.keys) {
        append(&mut words, field.bits(), part(key));
    }
    words
}

fn needs(entry: &Entry) -> u32 {
    let needed = entry.keys.iter().enumerate().filter(|(_, key)| key.mask != 0);
    needed.fold(0, |all, (i, _)| all | 1 << i)
}

impl<const W: usize> Group<W> {
    fn new(mask: [u64; W], needs: u32, entries: Vec<Slot<W>>, key: Key) -> Group<W> {
        let size = (entries.len() * 2).next_power_of_two();
        let best = entries.iter().map(|slot| slot.rank).max().unwrap_or(0);
        let slots = vec![None; size].into_boxed_slice();
        let mut group = Group { mask, needs, best, slots };
        entries.into_iter().for_each(|slot| group.insert(slot, key));
        group
    }

    fn insert(&mut self, slot: Slot<W>, key: Key) {
        let mut at = hash(&slot.words, key);
        loop {
            let place = self.place(at);
            match &self.slots[place] {
                Some(there) if there.words != slot.words => at += 1,
                Some(there) if there.rank >= slot.rank => return,
                _ => {
                    self.slots[place] = Some(slot);
                    return;
                }
            }
        }
    }

    #[inline]
    fn find(&self, words: &[u64; W], key: Key) -> Option<&Slot<W>> {
        let masked: [u64; W] = std::array::from_fn(|i| words[i] & self.mask[i]);
        let mut at = hash(&masked, key);
        loop {
            match &self.slots[self.place(at)] {
                Some(slot) if slot.words == masked => return Some(slot),
                Some(_) => at += 1,
                None => return None,
            }
        }
    }

    #[inline]
    fn place(&self, at: usize) -> usize {
        at & (self.slots.len() - 1)
    }
}

/// A multiplicative hash of both halves of each product, keyed: a sender that knew the entries could
/// otherwise choose packets that all run through the longest row of taken slots.
#[inline]
fn hash<const W: usize>(words: &[u64; W], key: Key) -> usize {
    let mixed = words.iter().fold(key[0], |h, word| {
        let product = u128::from(h ^ word) * u128::from(key[1] | 1);
        product as u64 ^ (product >> 64) as u64
    });
    (mixed ^ mixed >> 32) as usize
}
