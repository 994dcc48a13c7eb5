//! Which parts of a datagram have come.

/// Eight bytes, the unit of fragment offsets.
pub(super) const UNIT: usize = 8;
/// Words for every unit of the longest datagram.
const WORDS: usize = 65_536 / UNIT / 64;

/// A bit per unit that has come, and one per unit with which a fragment began.
///
/// A bitmap has no worst case: no order of arrival and no size of fragments costs more than another.
pub(super) struct Map {
    come: [u64; WORDS],
    starts: [u64; WORDS],
}

/// How a fragment lies to those that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Where nothing was.
    Fresh,
    /// Exactly where another one was.
    Same,
    /// Partly where others were.
    Overlap,
}

impl Map {
    pub(super) const fn new() -> Self {
        Self { come: [0; WORDS], starts: [0; WORDS] }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// How `units` units from `first` on lie to the others.
    pub(super) fn fit(&self, first: usize, units: usize) -> Fit {
        let come = count(&self.come, first, units);
        if come == 0 {
            return Fit::Fresh;
        }
        let end = first + units;
        let bounded = !bit(&self.come, end) || bit(&self.starts, end);
        let one = bit(&self.starts, first) && count(&self.starts, first, units) == 1;
        if come == units && one && bounded { Fit::Same } else { Fit::Overlap }
    }

    pub(super) fn add(&mut self, first: usize, units: usize) {
        each_word(first, units, |word, mask| self.come[word] |= mask);
        self.starts[first / 64] |= 1 << (first % 64);
    }

    /// Whether the first `units` units have all come.
    pub(super) fn is_whole(&self, units: usize) -> bool {
        count(&self.come, 0, units) == units
    }

    /// Whether anything has come at or behind unit `from`.
    pub(super) fn reaches(&self, from: usize) -> bool {
        count(&self.come, from, WORDS * 64 - from.min(WORDS * 64)) > 0
    }
}

fn bit(words: &[u64; WORDS], at: usize) -> bool {
    words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

fn count(words: &[u64; WORDS], first: usize, units: usize) -> usize {
    let mut sum = 0;
    each_word(first, units, |word, mask| sum += (words[word] & mask).count_ones() as usize);
    sum
}

/// Calls `f` with every word that the range touches and the bits of it that are in the range.
fn each_word(first: usize, units: usize, mut f: impl FnMut(usize, u64)) {
    let (mut at, end) = (first, (first + units).min(WORDS * 64));
    while at < end {
        let (word, low) = (at / 64, at % 64);
        let high = (end - word * 64).min(64);
        let mask = (u64::MAX >> (64 - (high - low))) << low;
        f(word, mask);
        at = (word + 1) * 64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_what_a_set_would(ranges in proptest::collection::vec((0usize..8192, 1usize..300), 0..20), probe in (0usize..8192, 1usize..300)) {
            let (mut map, mut set) = (Map::new(), std::vec![false; 8192]);
            for (first, units) in ranges {
                map.add(first, units.min(8192 - first));
                set[first..(first + units).min(8192)].fill(true);
            }
            let end = (probe.0 + probe.1).min(8192);
            let come = set[probe.0..end].iter().filter(|&&b| b).count();
            prop_assert_eq!(count(&map.come, probe.0, probe.1), come);
            prop_assert_eq!(map.reaches(probe.0), set[probe.0..].contains(&true));
            let whole = set[..end].iter().all(|&b| b);
            prop_assert_eq!(map.is_whole(end), whole);
        }
    }
}
