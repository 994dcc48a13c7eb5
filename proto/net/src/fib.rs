//! Longest-prefix match: which of many prefixes an address begins with.
//!
//! A multibit trie with fixed strides (Srinivasan and Varghese, "Fast Address Lookups Using
//! Controlled Prefix Expansion"): 16 bits, then 8 at a time. Prefixes are expanded to the ends of
//! their strides when it is built, so that a lookup reads one number per level and compares
//! nothing. A /24 of IPv4 is found in two reads, a host in three; an IPv6 /64 in seven. The trie is
//! built once from all of its prefixes and does not change: a change of routes builds another.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::addr::{Address, Prefix};

/// Bits of the first step.
const ROOT_BITS: u8 = 16;
/// Bits of each later step.
const STEP_BITS: u8 = 8;
const STEP: usize = 1 << STEP_BITS;
/// Nothing begins like this.
const NONE: u32 = 0;
/// Set in a number that leads to the next step; clear in one that is a position plus one.
const DEEPER: u32 = 1 << 31;

/// A set of prefixes with a value each.
#[derive(Clone, Debug)]
pub struct Fib<A, V> {
    /// The root's numbers, then those of one step after another.
    slots: Box<[u32]>,
    values: Box<[V]>,
    family: PhantomData<A>,
}

impl<A: Address, V> Fib<A, V> {
    /// The set of these. Where several have the same prefix, the first one counts.
    pub fn new(entries: impl IntoIterator<Item = (Prefix<A>, V)>) -> Self {
        let mut entries: Vec<(Prefix<A>, V)> = entries.into_iter().collect();
        entries.iter_mut().for_each(|(prefix, _)| *prefix = prefix.network());
        // Stable, so the first of equals stays first; and short ones before those within them.
        entries.sort_by_key(|(prefix, _)| (prefix.prefix_len(), prefix.addr()));
        entries.dedup_by_key(|(prefix, _)| *prefix);
        let mut slots = vec![NONE; 1 << ROOT_BITS];
        for (at, (prefix, _)) in entries.iter().enumerate() {
            insert(&mut slots, *prefix, at as u32 + 1);
        }
        let values = entries.into_iter().map(|(_, value)| value).collect();
        Self { slots: slots.into(), values, family: PhantomData }
    }

    /// The value of the longest prefix that `ip` begins with.
    #[inline]
    pub fn get(&self, ip: A) -> Option<&V> {
        let mut slot = self.slots[ip.chunk(0, ROOT_BITS)];
        let mut at = ROOT_BITS;
        while slot & DEEPER != 0 {
            slot = self.slots[(slot & !DEEPER) as usize + ip.chunk(at, STEP_BITS)];
            at += STEP_BITS;
        }
        self.values.get(slot.wrapping_sub(1) as usize)
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Enters a prefix that is no shorter than any before it, so that its range is not divided yet.
fn insert<A: Address>(slots: &mut Vec<u32>, prefix: Prefix<A>, value: u32) {
    let (mut base, mut at, mut bits) = (0, 0, ROOT_BITS);
    while prefix.prefix_len() > at + bits {
        let slot = base + prefix.addr().chunk(at, bits);
        base = deeper(slots, slot);
        (at, bits) = (at + bits, STEP_BITS);
    }
    let free = at + bits - prefix.prefix_len();
    let first = base + prefix.addr().chunk(at, bits);
    slots[first..first + (1 << free)].fill(value);
}

/// Where the next step from `slot` begins; it is made if there is none, and inherits.
fn deeper(slots: &mut Vec<u32>, slot: usize) -> usize {
    if slots[slot] & DEEPER == 0 {
        let (base, inherited) = (slots.len(), slots[slot]);
        slots.resize(base + STEP, inherited);
        slots[slot] = base as u32 | DEEPER;
    }
    (slots[slot] & !DEEPER) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::string::String;

    /// The definition, prefix by prefix.
    fn linear<A: Address>(prefixes: &[Prefix<A>], ip: A) -> Option<usize> {
        let covering = (0..prefixes.len()).filter(|i| prefixes[*i].contains(ip));
        covering.rev().max_by_key(|i| prefixes[*i].prefix_len())
    }

    fn agrees<A: Address>(prefixes: Vec<Prefix<A>>, asked: Vec<A>) -> Result<(), TestCaseError> {
        let fib = Fib::new(prefixes.iter().copied().zip(0usize..));
        let inside = prefixes.iter().map(|prefix| prefix.addr());
        let edges = prefixes.iter().map(|prefix| prefix.network().addr());
        for ip in asked.into_iter().chain(inside).chain(edges) {
            prop_assert_eq!(fib.get(ip).copied(), linear(&prefixes, ip), "{}", ip);
        }
        Ok(())
    }

    /// Addresses that share long prefixes with each other.
    fn near<A: Address>(bits: Vec<(u128, u8)>) -> Vec<A> {
        let mut all: Vec<u128> = Vec::new();
        for (random, keep) in bits {
            let kept = u128::MAX.checked_shr(keep.into()).unwrap_or(0);
            let base = all.last().copied().unwrap_or(random);
            all.push(base & !kept | random & kept);
        }
        all.into_iter().map(A::from_left).collect()
    }

    fn case(bits: u8) -> impl Strategy<Value = (Vec<(u128, u8)>, Vec<u8>)> {
        (vec((any::<u128>(), 0..=bits), 0..40), vec(0..=bits, 40))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn ipv4_is_as_the_definition((bits, lens) in case(32), asked in vec(any::<u32>(), 20)) {
            let addrs: Vec<Ipv4Addr> = near(bits);
            let prefixes = addrs.iter().zip(lens).filter_map(|(a, len)| Prefix::new(*a, len));
            let asked = asked.into_iter().map(Ipv4Addr::from_bits).chain(addrs.clone());
            agrees(prefixes.collect(), asked.collect())?;
        }

        #[test]
        fn ipv6_is_as_the_definition((bits, lens) in case(128), asked in vec(any::<u128>(), 20)) {
            let addrs: Vec<Ipv6Addr> = near(bits);
            let prefixes = addrs.iter().zip(lens).filter_map(|(a, len)| Prefix::new(*a, len));
            let asked = asked.into_iter().map(Ipv6Addr::from_bits).chain(addrs.clone());
            agrees(prefixes.collect(), asked.collect())?;
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_the_first_of_equals() {
        let named = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "10.1.2.9/16"];
        let fib = Fib::new(named.map(|text| (text.parse().unwrap(), String::from(text))));
        for (ip, wanted) in [
            ("9.9.9.9", "0.0.0.0/0"),
            ("10.200.0.1", "10.0.0.0/8"),
            ("10.1.2.4", "10.1.0.0/16"),
            ("10.1.2.3", "10.1.2.3/32"),
        ] {
            let ip: Ipv4Addr = ip.parse().unwrap();
            assert_eq!(fib.get(ip).map(String::as_str), Some(wanted), "{ip}");
        }
        assert_eq!(fib.len(), 4);
    }

    #[test]
    fn nothing_matches_nothing() {
        let fib: Fib<Ipv6Addr, ()> = Fib::new([]);
        assert!(fib.is_empty() && fib.get(Ipv6Addr::LOCALHOST).is_none());
    }
}
