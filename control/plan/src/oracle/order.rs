//! A rule's place among the rules of its table: its priority or its location.

use std::collections::BTreeSet;
use std::ops::Range;

use weever_graph::nic::{TableModel, TableOrder};

use super::Refusal;
use crate::map::{Entry, NewEntry};

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

/// Sets priority, location and rank of `rule` so that narrower rules which it overlaps come before
/// it, and wider ones after. `others` are the rules of the table that overlap it.
pub(crate) fn place<'a>(
    model: &TableModel,
    locations: &Locations,
    rule: &mut NewEntry,
    others: impl Iterator<Item = &'a Entry>,
) -> Result<(), Refusal> {
    let bits: u32 = rule.conj.tests().map(|t| t.mask.count_ones()).sum();
    // Bounds of the rank: above all narrower ones, below all wider ones.
    let (mut after, mut before) = (None::<i64>, None::<i64>);
    let mut taken = BTreeSet::new();
    for Entry { rule: other, .. } in others {
        taken.insert(other.priority);
        if other.conj.implies(&rule.conj) {
            after = after.max(Some(other.rank));
        } else if rule.conj.implies(&other.conj) {
            before = Some(before.map_or(other.rank, |b| b.min(other.rank)));
        }
    }
    let count = locations.count();
    rule.location = match model.order {
        TableOrder::Location => {
            let from = after.map_or(0, |a| a as u32 + 1);
            let to = before.map_or(count, |b| b as u32);
            let narrow = before.is_some() || (after.is_none() && bits >= 48);
            locations.find(from..to, narrow).ok_or(Refusal::NoPlaceBetween)?
        }
        _ => locations.find(0..count, true).ok_or(Refusal::NoLocation { locations: count })?,
    };
    rule.rank = match model.order {
        TableOrder::Location => i64::from(rule.location),
        TableOrder::Insertion if before.is_some() => return Err(Refusal::NoPlaceBetween),
        TableOrder::Insertion => 0,
        TableOrder::MoreSpecific | TableOrder::MoreFields => {
            crate::config::Rule::of(model, rule.flow_type, &rule.conj).rank(model.order)
        }
        TableOrder::Priority { lo, hi } => {
            let priority = priority((lo, hi), bits, (after, before), &taken)?;
            rule.priority = priority;
            -i64::from(priority)
        }
    };
    Ok(())
}

/// The priority that fits the rule's specificity, within the bounds that its neighbours leave;
/// preferably one that no overlapping rule has. Equal ranks go by age, so a new rule may be equal to a
/// narrower one but not to a wider one.
fn priority(
    (lo, hi): (u32, u32),
    bits: u32,
    (after, before): (Option<i64>, Option<i64>),
    taken: &BTreeSet<u32>,
) -> Result<u32, Refusal> {
    let most = after.map_or(i64::from(hi), |rank| -rank);
    let least = before.map_or(i64::from(lo), |rank| -rank + 1);
    let (least, most) = (least.max(i64::from(lo)), most.min(i64::from(hi)));
    if least > most {
        return Err(Refusal::NoPlaceBetween);
    }
    let fits = i64::from(lo) + (i64::from(hi) - i64::from(lo)) * i64::from(bits.min(128)) / 128;
    let fits = fits.clamp(least, most) as u32;
    let free = |p: &u32| !taken.contains(p);
    let above = (fits..=most as u32).find(free);
    let below = (least as u32..fits).rev().find(free);
    let nearest = above.into_iter().chain(below).min_by_key(|p| p.abs_diff(fits));
    Ok(nearest.unwrap_or(fits))
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
