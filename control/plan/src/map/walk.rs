//! Where a conjunction's packets go, given the entries that some of them meet.

use super::placement::{Placement, PlacementSum};
use super::spreading::Spreading;
use crate::flow::Conj;

/// More entries than this under one conjunction are not told apart exactly.
pub(crate) const MAX_EXACT: usize = 32;
/// The pieces into which a difference is cut at most.
const MAX_PIECES: usize = 256;

/// What the walk has to know of an entry.
pub(crate) struct MatchedEntry<'a> {
    pub(crate) conj: &'a Conj,
    pub(crate) to: Destination<'a>,
}

/// What an entry does with its packets.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    Queue(u32),
    Spread(&'a Spreading),
    Nowhere,
}

impl Destination<'_> {
    /// Where the packets of `conj` go, all of which the entry takes.
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

/// Places `conj`; `met` are the entries that overlap it, those that are asked first in front.
///
/// Exact: a queue is in the placement if and only if some packet gets there, unless more than
/// [`MAX_EXACT`] entries overlap or a difference takes more than [`MAX_PIECES`] pieces. Then
/// queues may be listed that no packet reaches, but never one missed.
pub(crate) fn place(conj: &Conj, met: &[MatchedEntry<'_>], spreading: &Spreading) -> Placement {
    let Some(first) = met.first() else { return spreading.place(conj) };
    if conj.implies(first.conj) {
        return first.to.place(conj);
    }
    let mut mix = PlacementSum::default();
    for (i, entry) in met.iter().enumerate() {
        let taken = conj.and(entry.conj);
        let before = if met.len() <= MAX_EXACT { &met[..i] } else { &[] };
        let pieces = rest(&taken, before);
        if pieces.is_empty() {
            continue;
        }
        entry.to.add(&mut mix, &pieces, conj);
    }
    let mut left = if met.len() <= MAX_EXACT { rest(conj, met) } else { vec![conj.clone()] };
    // What is covered whole by one of many entries goes no further.
    if met.len() > MAX_EXACT && met.iter().any(|m| conj.implies(m.conj)) {
        left.clear();
    }
    // Their shares are upper bounds; what the entries take is taken from the rest.
    for piece in &left {
        mix.merge(&spreading.place(piece), conj.share_of(piece));
    }
    mix.finish()
}

/// What of `conj` none of the `entries` takes.
fn rest(conj: &Conj, entries: &[MatchedEntry<'_>]) -> Vec<Conj> {
    let mut pieces = vec![conj.clone()];
    for entry in entries {
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
    pieces
}
