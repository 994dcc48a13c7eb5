//! A small generator of pseudo-random numbers, the same on every run for one seed.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with probability `p`; always for 1 and above, never for 0 and below.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        // The upper 53 bits make an exact double in [0, 1).
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// A number in `0..end`; 0 if `end` is. Draws nothing when there is no choice.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end <= 1 { 0 } else { self.next() % end }
    }

    /// A number in `1..=most`; 1 if `most` is 0.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        (self.next() % u64::from(most.max(1))) as u32 + 1
    }
}
