//! Finds the conjunctions that may overlap a given one without looking at the others.
//!
//! Conjunctions that test the same bits of the same fields, for the same kinds of packets, share a
//! *slot*. To look up `q` in a slot with many items, the bits that both test are hashed: one hash table
//! (a *probe*) per combination of masks in use, made when it is first needed. With five-tuples on both
//! sides a look-up is one hash. The items of small slots are looked at one by one, and so are those of
//! all slots once the probes have their share of memory: thousands of masks would need millions of
//! probes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use weever_graph::Field;

use crate::flow::{Conj, Kinds, Values};

const NONE: u32 = u32::MAX;
/// A slot with fewer items has no probes.
const FEW_ITEMS: usize = 16;
/// The places in the lists of all probes (8 bytes each) and in all routes, at most.
const MAX_PLACES: usize = 1 << 23;

/// The bits that a conjunction tests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    kinds: Kinds,
    masks: Vec<(Field, u128)>,
}

/// The items of one shape.
struct Slot {
    shape: Shape,
    items: Vec<u32>,
    probes: Vec<Probe>,
    /// Whether routes lead through it, once it has had many items.
    routed: bool,
}

/// The items of a slot by the hash of some of their bits.
struct Probe {
    common: Vec<(Field, u128)>,
    heads: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// The items of equal hash, as lists through this vector.
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

/// The slots in which to look for conjunctions of one shape.
struct Route {
    shape: Shape,
    /// How many routed slots it was made for, and the slots with their probes.
    slots: usize,
    stops: Vec<(u32, u32)>,
}

/// An index over conjunctions, which stay with their owner and are known by a number.
#[derive(Default)]
pub(crate) struct Index {
    slots: Vec<Slot>,
    by_shape: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// The slot of each item, or `NONE`, and its position there.
    slot_of: Vec<(u32, u32)>,
    /// The slots without routes, and those with.
    small: Vec<u32>,
    routed: Vec<u32>,
    routes: Vec<Route>,
    route_by_shape: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// Places in use, of [`MAX_PLACES`].
    places: usize,
}

/// The keys are hashes already.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0, u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// Folds a 64-bit multiplication; enough to spread addresses and ports that count upwards. It is
/// not keyed: flows come from this host's own sockets and detector, which are bounded.
pub(crate) fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product as u64) ^ (product >> 64) as u64
}

fn mix_wide(state: u64, word: u128) -> u64 {
    let low = mix(state, word as u64);
    if word >> 64 == 0 { low } else { mix(low, (word >> 64) as u64) }
}

/// The bits that decide a look-up: of a range, the bits that all its values share.
fn index_mask(values: &Values) -> u128 {
    values.mask
}

fn shape_hash(conj: &Conj) -> u64 {
    let tests = conj.tests().filter(|t| index_mask(t) != 0);
    tests.fold(mix(conj.kinds().hash_word(), 1), |h, t| {
        mix_wide(mix(h, t.field as u64), index_mask(t))
    })
}

impl Shape {
    fn of(conj: &Conj) -> Shape {
        let masks = conj.tests().map(|t| (t.field, index_mask(t))).filter(|(_, m)| *m != 0);
        Shape { kinds: conj.kinds(), masks: masks.collect() }
    }

    fn is_of(&self, conj: &Conj) -> bool {
        let masks = conj.tests().map(|t| (t.field, index_mask(t))).filter(|(_, m)| *m != 0);
        self.kinds == conj.kinds() && self.masks.iter().copied().eq(masks)
    }

    /// The bits that both test.
    fn common(&self, other: &Shape) -> Vec<(Field, u128)> {
        let both = self.masks.iter().filter_map(|(field, mask)| {
            let theirs = other.masks.iter().find(|(f, _)| f == field)?.1;
            Some((*field, mask & theirs)).filter(|(_, m)| *m != 0)
        });
        both.collect()
    }
}

fn hash_of(conj: &Conj, bits: &[(Field, u128)]) -> u64 {
    let mut tests = conj.tests();
    let mut hash = 0;
    for (field, mask) in bits {
        let value = tests.find(|t| t.field == *field).map_or(0, |t| t.value);
        hash = mix_wide(hash, value & mask);
    }
    hash
}

impl Probe {
    fn insert(&mut self, item: u32, conj: &Conj) {
        let hash = hash_of(conj, &self.common);
        let head = self.heads.insert(hash, item).unwrap_or(NONE);
        if self.links.len() <= item as usize {
            self.links.resize(item as usize + 1, Link { prev: NONE, next: NONE });
        }
        self.links[item as usize] = Link { prev: NONE, next: head };
        if head != NONE {
            self.links[head as usize].prev = item;
        }
    }

    fn remove(&mut self, item: u32, conj: &Conj) {
        let Link { prev, next } = self.links[item as usize];
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
        if prev != NONE {
            self.links[prev as usize].next = next;
            return;
        }
        let hash = hash_of(conj, &self.common);
        if next == NONE {
            self.heads.remove(&hash);
        } else {
            self.heads.insert(hash, next);
        }
    }
}

impl Index {
    /// Adds an item.
    pub(crate) fn insert(&mut self, item: u32, conj: &Conj) {
        let at = self.slot_for(conj);
        if self.slot_of.len() <= item as usize {
            self.slot_of.resize(item as usize + 1, (NONE, NONE));
        }
        let slot = &mut self.slots[at as usize];
        self.slot_of[item as usize] = (at, slot.items.len() as u32);
        slot.items.push(item);
        for probe in &mut slot.probes {
            let before = probe.links.len();
            probe.insert(item, conj);
            self.places += probe.links.len() - before;
        }
        if !slot.routed && slot.items.len() >= FEW_ITEMS && self.places < MAX_PLACES {
            slot.routed = true;
            self.small.retain(|s| *s != at);
            self.routed.push(at);
        }
    }

    /// Removes an item, which must be present with this conjunction.
    pub(crate) fn remove(&mut self, item: u32, conj: &Conj) {
        let (slot, at) = std::mem::replace(&mut self.slot_of[item as usize], (NONE, NONE));
        let slot = &mut self.slots[slot as usize];
        slot.items.swap_remove(at as usize);
        if let Some(moved) = slot.items.get(at as usize) {
            self.slot_of[*moved as usize].1 = at;
        }
        for probe in &mut slot.probes {
            probe.remove(item, conj);
        }
    }

    /// Appends to `found` the items that may overlap `conj`, in no particular order. Those of routed
    /// slots agree with it in the bits that both test, up to collisions; ranges were not looked at.
    pub(crate) fn candidates<'c>(
        &mut self,
        conj: &Conj,
        conj_of: impl Fn(u32) -> &'c Conj,
        found: &mut Vec<u32>,
    ) {
        let meets = |slot: &&Slot| !slot.shape.kinds.and(conj.kinds()).is_empty();
        let all = |slots: &[Slot], of: &[u32], found: &mut Vec<u32>| {
            let slots = of.iter().map(|s| &slots[*s as usize]).filter(meets);
            slots.for_each(|slot| found.extend(&slot.items));
        };
        all(&self.slots, &self.small, found);
        if self.routed.is_empty() {
            return;
        }
        let Some(route) = self.route_for(conj, conj_of) else {
            return all(&self.slots, &self.routed, found);
        };
        for (slot, probe) in &self.routes[route].stops {
            let slot = &self.slots[*slot as usize];
            let Some(probe) = slot.probes.get(*probe as usize) else {
                found.extend(&slot.items);
                continue;
            };
            if slot.items.is_empty() {
                continue;
            }
            let mut at = probe.heads.get(&hash_of(conj, &probe.common)).copied().unwrap_or(NONE);
            while at != NONE {
                found.push(at);
                at = probe.links[at as usize].next;
            }
        }
    }

    /// Places that probes and routes take, at most [`MAX_PLACES`].
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    fn slot_for(&mut self, conj: &Conj) -> u32 {
        // Shapes with colliding hashes take the next free number.
        let mut hash = shape_hash(conj);
        loop {
            match self.by_shape.get(&hash) {
                Some(slot) if self.slots[*slot as usize].shape.is_of(conj) => return *slot,
                Some(_) => hash = hash.wrapping_add(1),
                None => break,
            }
        }
        let slot = self.slots.len() as u32;
        let shape = Shape::of(conj);
        self.slots.push(Slot { shape, items: Vec::new(), probes: Vec::new(), routed: false });
        self.small.push(slot);
        self.by_shape.insert(hash, slot);
        slot
    }

    /// The route of the conjunctions of this shape; nothing if there is no room for another.
    fn route_for<'c>(&mut self, conj: &Conj, conj_of: impl Fn(u32) -> &'c Conj) -> Option<usize> {
        let mut hash = shape_hash(conj);
        let route = loop {
            match self.route_by_shape.get(&hash) {
                Some(r) if self.routes[*r as usize].shape.is_of(conj) => break *r as usize,
                Some(_) => hash = hash.wrapping_add(1),
                None if self.places >= MAX_PLACES => return None,
                None => {
                    let new = self.routes.len();
                    self.routes.push(Route { shape: Shape::of(conj), slots: 0, stops: Vec::new() });
                    self.route_by_shape.insert(hash, new as u32);
                    break new;
                }
            }
        };
        while self.routes[route].slots < self.routed.len() {
            self.extend(route, &conj_of);
        }
        Some(route)
    }

    /// Takes the next routed slot into a route, unless no packet is of both kinds.
    fn extend<'c>(&mut self, route: usize, conj_of: &impl Fn(u32) -> &'c Conj) {
        let route = &mut self.routes[route];
        let at = self.routed[route.slots];
        route.slots += 1;
        self.places += 1;
        let slot = &mut self.slots[at as usize];
        if slot.shape.kinds.and(route.shape.kinds).is_empty() {
            return;
        }
        let common = slot.shape.common(&route.shape);
        let probe = match slot.probes.iter().position(|p| p.common == common) {
            Some(probe) => probe as u32,
            None if self.places >= MAX_PLACES => NONE,
            None => {
                let mut probe = Probe { common, heads: HashMap::default(), links: Vec::new() };
                slot.items.iter().for_each(|item| probe.insert(*item, conj_of(*item)));
                self.places += probe.links.len();
                slot.probes.push(probe);
                slot.probes.len() as u32 - 1
            }
        };
        route.stops.push((at, probe));
    }
}
