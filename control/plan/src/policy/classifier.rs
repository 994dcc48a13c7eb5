//! The class of a flow.

use crate::flow::{ClassId, Conj, Flow, MAX_PARTS};

/// Gives flows their classes.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// The classes, by descending precedence.
    pub(super) classes: Vec<(ClassId, u32, Vec<Conj>)>,
    /// The classes that are dropped.
    pub(super) dropped: Vec<usize>,
    pub(super) rest: ClassId,
}

impl Classifier {
    /// Sets the flow's class and weight. The class is the first one that contains all of its packets; a
    /// flow without one gets the default class, after the last.
    pub fn classify(&self, flow: &mut Flow) {
        let has = |conjs: &[Conj]| flow.parts.iter().all(|p| conjs.iter().any(|c| p.implies(c)));
        let found = self.classes.iter().find(|(.., conjs)| has(conjs));
        (flow.class, flow.weight) = found.map_or((self.rest, flow.weight), |(id, w, _)| (*id, *w));
        flow.yields = self.yields(flow);
    }

    /// Whether a dropped class precedes the flow's class and contains some of its packets.
    pub fn yields(&self, flow: &Flow) -> bool {
        let own = self.classes.iter().position(|(id, ..)| *id == flow.class);
        let before = self.dropped.iter().filter(|at| own.is_none_or(|own| **at < own));
        let mut theirs = before.flat_map(|at| &self.classes[*at].2);
        theirs.any(|theirs| flow.parts.iter().any(|part| !part.disjoint(theirs)))
    }
}

/// The packets that two classes have both.
pub(super) fn shared(one: &[Conj], other: &[Conj]) -> Vec<Conj> {
    let both = one.iter().flat_map(|c| other.iter().map(|t| c.and(t)));
    both.filter(|c| !c.is_empty()).collect()
}

/// Whether the part of a dropped class that belongs to an earlier class can be a flow, which must
/// consist of few enough parts.
pub fn can_be_kept(kept: &[Conj], dropped: &[Conj]) -> bool {
    shared(dropped, kept).len() <= MAX_PARTS
}
