//! Keys and random numbers: one root key per host, a subkey for each use, and generators that
//! reveal nothing about their key.
//!
//! [`Secret`] is the root. Each use (transaction ids, initial sequence numbers, a hash table's
//! seed) takes a subkey of its own by name, so that values revealed by one use tell nothing about
//! another. [`Random`] is SipHash-2-4 of a counter under a key: its output may go on the wire.
//! [`keyed_hash`] is SipHash-1-3, for tables whose keys a peer chooses.

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::{SipHasher13, SipHasher24};
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};

/// A key of SipHash.
pub type Key = [u64; 2];

/// The root key of a host: 128 bits that never leave it. Its [`Debug`](fmt::Debug) form hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(Key);

impl Secret {
    /// A root key from 128 random bits.
    pub const fn new(root: Key) -> Self {
        Self(root)
    }

    /// A root key that a seed determines, for simulations and tests, which have to repeat.
    pub const fn from_seed(seed: u64) -> Self {
        Self([seed, !seed])
    }

    /// The subkey for one use. `purpose` names the use and is unique in the host; the same purpose
    /// gives the same subkey. SipHash-2-4 with 128 bits of output is a pseudorandom function: a
    /// subkey tells nothing about the root or about other subkeys.
    pub fn key(&self, purpose: &str) -> Key {
        let mut hasher = SipHasher128::new_with_keys(self.0[0], self.0[1]);
        hasher.write(purpose.as_bytes());
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    /// The generator for one use; see [`key`](Self::key).
    pub fn random(&self, purpose: &str) -> Random {
        Random::keyed(self.key(purpose))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A generator whose past and future outputs cannot be computed from those that were seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Random {
    key: Key,
    count: u64,
}

impl Random {
    /// A generator with this key.
    pub const fn keyed(key: Key) -> Self {
        Self { key, count: 0 }
    }

    /// A generator that a seed determines. A seed of 64 bits can be searched for: use
    /// [`Secret::random`] where the output must stay unpredictable.
    pub const fn new(seed: u64) -> Self {
        Self::keyed([seed, 0])
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.key[0], self.key[1]);
        hasher.write_u64(self.count);
        self.count = self.count.wrapping_add(1);
        hasher.finish()
    }

    /// A number from 0 to `max`, both included.
    pub fn up_to(&mut self, max: u64) -> u64 {
        match max {
            u64::MAX => self.next_u64(),
            _ => ((u128::from(self.next_u64()) * (u128::from(max) + 1)) >> 64) as u64,
        }
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Random(.., {} drawn)", self.count)
    }
}

/// SipHash-1-3 of some words under `key`: the family that keeps hash tables safe from chosen keys.
#[inline]
pub fn keyed_hash(key: Key, words: &[u64]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    words.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::format;
    use std::vec::Vec;

    #[test]
    #[allow(deprecated, reason = "the standard library's SipHash is an independent oracle")]
    fn hashes_as_the_standard_library_with_its_default_key() {
        // `DefaultHasher` is SipHash-1-3 with a key of zeros.
        for words in [&[][..], &[1], &[1, 2, 3], &[u64::MAX, 0, 7, 9]] {
            let mut theirs = std::collections::hash_map::DefaultHasher::new();
            for word in words {
                theirs.write(&word.to_le_bytes());
            }
            assert_eq!(keyed_hash([0, 0], words), theirs.finish());
        }
    }

    #[test]
    fn numbers_stay_within_bounds_and_reach_them() {
        let mut random = Random::new(3);
        let seen: HashSet<u64> = (0..1000).map(|_| random.up_to(3)).collect();
        assert_eq!(seen, (0..=3).collect());
        assert_eq!(random.up_to(0), 0);
    }

    #[test]
    fn each_purpose_has_its_own_subkey() {
        let secret = Secret::from_seed(7);
        let keys = ["", "a", "b", "ab", "tcp isn"].map(|purpose| secret.key(purpose));
        assert_eq!(keys.iter().flatten().collect::<HashSet<_>>().len(), 10);
        assert_eq!(secret.key("a"), Secret::from_seed(7).key("a"));
        assert_ne!(secret.key("a"), Secret::from_seed(8).key("a"));
        assert!(!keys.iter().flatten().any(|half| [7, !7].contains(half)));
    }

    /// An output of a 64-bit state generator such as SplitMix64 can be inverted to its state; of
    /// this one no output is the key, the counter, or a fixed function of the output before.
    #[test]
    fn outputs_do_not_determine_each_other() {
        let (mut a, mut b) = (Random::keyed([1, 2]), Random::keyed([1, 3]));
        let outputs: Vec<u64> = (0..100).map(|_| a.next_u64()).collect();
        assert!(outputs.windows(2).all(|pair| pair[0].wrapping_sub(pair[1]) != outputs[0]));
        assert!((0..100).all(|_| !outputs.contains(&b.next_u64())));
    }

    #[test]
    fn no_log_shows_a_key() {
        let secret = Secret::new([0x1234_5678_9abc_def0, 42]);
        let shown = format!("{secret:?} {:?}", secret.random("x"));
        assert_eq!(shown, "Secret(..) Random(.., 0 drawn)");
    }
}
