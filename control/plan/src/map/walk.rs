//! The placement of a conjunction's packets, given the entries that some of them meet.

use super::entry::Work;
use super::placement::{Placement, PlacementSum};
use super::spreading::Spreading;
use crate::config::{Configuration, Target};
use crate::flow::Conj;
use crate::nic::Nic;

/// More entries than this under one conjunction are treated approximately.
pub(crate) const MAX_EXACT: usize = 32;
/// The pieces into which a difference is cut at most.
const MAX_PIECES: usize = 256;
/// The intersections that placing one conjunction may take before it is placed roughly.
const MAX_STEPS: usize = 4096;

/// An entry that overlaps the conjunction to be placed.
pub(crate) struct MatchedEntry<'a> {
    pub(crate) conj: &'a Conj,
    pub(crate) to: Destination<'a>,
}

/// The destination of an entry's packets.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    Queue(u32),
    Spread(&'a Spreading),
    Nowhere,
}

impl Destination<'_> {
    /// The placement of the packets of `conj`, all of which the entry takes.
    fn place(&self, conj: &Conj) -> Placement {
        match self {
            Destination::Queue(queue) => Placement::One(*queue),
            Destination::Spread(spreading) => spreading.place(conj),
            Destination::Nowhere => Placement::nowhere(),
        }
    }

    fn add(&self, mix: &mut PlacementSum, pieces: &[Conj], of: &Conj) {
        let share = || pieces.iter().map(|p| of.share_of(p)).sum();
        match self {
            Destination::Queue(queue) => mix.add(*queue, share()),
            Destination::Nowhere => mix.drop(share()),
            Destination::Spread(spreading) => {
                pieces.iter().for_each(|p| mix.merge(&spreading.place(p), of.share_of(p)));
            }
        }
    }
}

/// The placement of the packets of `conj` on a NIC with this configuration: the result of a walk of the
/// expanded graph, regardless of other registered flows. A queue is listed if and only if some packet
/// gets there, within the bounds of the walk.
pub fn place_configured(nic: &Nic, configuration: &Configuration, conj: &Conj) -> Placement {
    let spreading = Spreading::new(nic, &configuration.rss);
    let contexts = (0..configuration.contexts.len() as u32)
        .map(|c| Spreading::new(nic, &configuration.context(nic, c)));
    let contexts: Vec<Spreading> = contexts.collect();
    let mut met: Vec<((usize, i64, usize), Conj, Target)> = Vec::new();
    for (t, (table, rules)) in nic.tables.iter().zip(&configuration.rules).enumerate() {
        for (i, rule) in rules.iter().enumerate() {
            let matches = rule.matches(&table.model);
            if !matches.disjoint(conj) {
                met.push(((t, rule.rank(table.model.order), i), matches, rule.target));
            }
        }
    }
    met.sort_by_key(|(turn, ..)| *turn);
    let met: Vec<MatchedEntry<'_>> = met
        .iter()
        .map(|(_, conj, target)| MatchedEntry { conj, to: destination(*target, &contexts) })
        .collect();
    place(conj, &met, &spreading, false, &Work::default())
}

pub(super) fn destination(target: Target, contexts: &[Spreading]) -> Destination<'_> {
    match target {
        Target::Queue(queue) => Destination::Queue(queue),
        // A context that is not configured takes packets nowhere.
        Target::Context(at) => {
            contexts.get(at as usize).map_or(Destination::Nowhere, Destination::Spread)
        }
        Target::Drop => Destination::Nowhere,
    }
}

/// Places `conj`; `met` are the entries that overlap it, in the order of their precedence.
///
/// Exact: a queue is in the placement if and only if some packet gets there, unless more than
/// [`MAX_EXACT`] entries overlap, a difference takes more than [`MAX_PIECES`] pieces, or all of them
/// take more than [`MAX_STEPS`] steps. Then, and if `rough`, queues may be listed that no packet
/// reaches, but never one missed.
pub(crate) fn place(
    conj: &Conj,
    met: &[MatchedEntry<'_>],
    spreading: &Spreading,
    rough: bool,
    work: &Work,
) -> Placement {
    let Some(first) = met.first() else { return spreading.place(conj) };
    if conj.implies(first.conj) {
        return first.to.place(conj);
    }
    if !rough && met.len() <= MAX_EXACT {
        let mut steps = 0;
        let placement = place_exactly(conj, met, spreading, &mut steps);
        work.spend(steps);
        if let Some(placement) = placement {
            work.spend(placement.steps());
            return placement;
        }
    }
    let placement = place_roughly(conj, met, spreading);
    work.spend(met.len() + placement.steps());
    placement
}

/// Nothing if it takes more than [`MAX_STEPS`].
fn place_exactly(
    conj: &Conj,
    met: &[MatchedEntry<'_>],
    spreading: &Spreading,
    steps: &mut usize,
) -> Option<Placement> {
    let mut sum = PlacementSum::default();
    for (i, entry) in met.iter().enumerate() {
        let pieces = rest(&conj.and(entry.conj), &met[..i], steps)?;
        *steps += pieces.len();
        if !pieces.is_empty() {
            entry.to.add(&mut sum, &pieces, conj);
        }
    }
    let left = rest(conj, met, steps)?;
    *steps += left.len();
    for piece in &left {
        sum.merge(&spreading.place(piece), conj.share_of(piece));
    }
    Some(sum.finish())
}

/// Assumes that every entry, and the spreading, gets all packets that it matches.
fn place_roughly(conj: &Conj, met: &[MatchedEntry<'_>], spreading: &Spreading) -> Placement {
    let mut sum = PlacementSum::default();
    for entry in met {
        entry.to.add(&mut sum, &[conj.and(entry.conj)], conj);
        // Nothing is left for those behind it.
        if conj.implies(entry.conj) {
            return sum.finish();
        }
    }
    sum.merge(&spreading.place(conj), 1.0);
    sum.finish()
}

/// The part of `conj` that none of the `entries` takes, in pieces.
fn rest(conj: &Conj, entries: &[MatchedEntry<'_>], steps: &mut usize) -> Option<Vec<Conj>> {
    let mut pieces = vec![conj.clone()];
    for entry in entries {
        *steps += pieces.len();
        if *steps > MAX_STEPS {
            return None;
        }
        if pieces.iter().all(|p| p.disjoint(entry.conj)) {
            continue;
        }
        let mut left = Vec::new();
        for piece in &pieces {
            if piece.disjoint(entry.conj) {
                left.push(piece.clone());
            } else if let Some(outside) = piece.minus(entry.conj, MAX_PIECES) {
                left.extend(outside);
            } else {
                left.push(piece.clone());
            }
        }
        if left.len() <= MAX_PIECES {
            pieces = left;
        }
    }
    Some(pieces)
}
