//! A rule's place among the rules of its table.

use std::collections::BTreeSet;

use weever_graph::nic::{TableModel, TableOrder};

use super::Refusal;
use super::locations::Locations;
use crate::map::{Entry, NewEntry};

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
        TableOrder::MoreSpecific => {
            let said = crate::config::Rule::of(model, rule.flow_type, &rule.conj);
            -i64::from(said.bits())
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
