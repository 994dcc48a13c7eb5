//! The free locations of a table.

use std::collections::BTreeSet;
use std::ops::Range;

/// Free locations: a gap in the middle, which narrow rules fill from below and wide ones from above,
/// and locations that were given back.
#[derive(Debug)]
pub(crate) struct Locations {
    count: u32,
    gap: Range<u32>,
    freed: BTreeSet<u32>,
}

impl Locations {
    pub(crate) fn new(count: u32) -> Locations {
        Locations { count, gap: 0..count, freed: BTreeSet::new() }
    }

    /// How many there are, taken ones included.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The lowest or the highest free location within `bounds`, or a close one.
    pub(crate) fn find(&self, bounds: Range<u32>, low: bool) -> Option<u32> {
        if bounds.is_empty() {
            return None;
        }
        let gap = self.gap.start.max(bounds.start)..self.gap.end.min(bounds.end);
        let (at_gap, freed) = if low {
            (gap.start, self.freed.range(bounds).next())
        } else {
            (gap.end.saturating_sub(1), self.freed.range(bounds).next_back())
        };
        let at_gap = (!gap.is_empty()).then_some(at_gap);
        let freed = freed.copied();
        if low {
            freed.into_iter().chain(at_gap).min()
        } else {
            freed.into_iter().chain(at_gap).max()
        }
    }

    /// Takes a location that [`Locations::find`] gave.
    pub(crate) fn take(&mut self, location: u32) {
        if self.freed.remove(&location) || !self.gap.contains(&location) {
            return;
        }
        // Of the two parts of the gap, the larger stays the gap.
        let (below, above) = (self.gap.start..location, location + 1..self.gap.end);
        let (keep, rest) = if below.len() >= above.len() { (below, above) } else { (above, below) };
        self.gap = keep;
        self.freed.extend(rest);
    }

    pub(crate) fn give_back(&mut self, location: u32) {
        self.freed.insert(location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_from_below_and_wide_from_above() {
        let mut free = Locations::new(4);
        let mut take = |bounds: Range<u32>, low| {
            let at = free.find(bounds, low)?;
            free.take(at);
            Some(at)
        };
        assert_eq!(take(0..4, true), Some(0));
        assert_eq!(take(0..4, false), Some(3));
        assert_eq!(take(2..3, true), Some(2));
        assert_eq!(take(0..4, true), Some(1));
        assert_eq!(take(0..4, true), None);
        free.give_back(2);
        assert_eq!(free.find(0..2, true), None);
        assert_eq!(free.find(0..4, false), Some(2));
    }
}
