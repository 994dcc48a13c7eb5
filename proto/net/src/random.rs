//! Randomness for protocols: a generator that a seed determines, so that a simulation repeats, and
//! a keyed hash whose values nobody without the key can foretell.

/// SplitMix64: good enough for delays and starting points, not for secrets by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// A generator from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `max`, both included.
    pub const fn up_to(&mut self, max: u64) -> u64 {
        match max {
            u64::MAX => self.next_u64(),
            _ => ((self.next_u64() as u128 * (max as u128 + 1)) >> 64) as u64,
        }
    }
}

/// SipHash-1-3 of some words: the family that keeps hash tables safe from chosen keys.
pub fn keyed_hash(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let last = (words.len() as u64 * 8) << 56;
    for &word in words.iter().chain(&[last]) {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

const fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

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
        let seen: std::collections::HashSet<u64> = (0..1000).map(|_| random.up_to(3)).collect();
        assert_eq!(seen, (0..=3).collect());
        assert_eq!(random.up_to(0), 0);
    }
}
