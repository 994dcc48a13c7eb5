//! Sets of packets as bounded disjunctions. A set that does not fit becomes larger, never smaller.

use crate::flow::Conj;

/// More conjunctions than this are joined into one.
const MAX_PARTS: usize = 24;

/// A set of packets, or one that contains it. No part is empty; without parts it is empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PacketSet(Vec<Conj>);

impl PacketSet {
    pub(super) fn never() -> PacketSet {
        PacketSet(Vec::new())
    }

    pub(super) fn always() -> PacketSet {
        PacketSet(vec![Conj::all()])
    }

    pub(super) fn of(parts: impl IntoIterator<Item = Conj>) -> PacketSet {
        let mut all = PacketSet::never();
        parts.into_iter().for_each(|p| all.absorb(p));
        all.bounded()
    }

    pub(super) fn is_never(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn or(mut self, other: &PacketSet) -> PacketSet {
        other.0.iter().for_each(|p| self.absorb(p.clone()));
        self.bounded()
    }

    pub(super) fn and(&self, other: &PacketSet) -> PacketSet {
        let pairs = self.0.iter().flat_map(|a| other.0.iter().map(move |b| a.and(b)));
        PacketSet::of(pairs)
    }

    /// The packets of `self` that are surely not in `other`, or a superset.
    pub(super) fn minus(self, other: &Conj) -> PacketSet {
        if self.0.iter().all(|p| p.disjoint(other)) {
            return self;
        }
        let cut = |p: Conj| p.minus(other, MAX_PARTS).unwrap_or_else(|| vec![p]);
        PacketSet::of(self.0.into_iter().flat_map(cut))
    }

    /// Whether some packet of it can be in `conj`.
    pub(super) fn meets(&self, conj: &Conj) -> bool {
        self.0.iter().any(|p| !p.disjoint(conj))
    }

    fn absorb(&mut self, conj: Conj) {
        if conj.is_empty() || self.0.iter().any(|p| conj.implies(p)) {
            return;
        }
        self.0.retain(|p| !p.implies(&conj));
        self.0.push(conj);
    }

    fn bounded(self) -> PacketSet {
        if self.0.len() <= MAX_PARTS {
            return self;
        }
        PacketSet(self.0.into_iter().reduce(|a, b| a.hull(&b)).into_iter().collect())
    }
}
