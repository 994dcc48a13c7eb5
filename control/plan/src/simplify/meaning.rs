//! The meaning of a graph's predicates for real packets, malformed ones included.
//!
//! The algebra of flows knows well-formed packets: one of UDP has ports. A datagram that was cut short
//! has none, and neither `dst port 7` nor `dst port != 7` is true of it. So here every field behind the
//! Ethernet header is *there or not*, which is a label of its own; and behind an extension header of
//! IPv6 may stand any transport, about which nothing is assumed. A [`PacketSet`] is a bounded disjunction:
//! one that does not fit becomes larger, never smaller.

use weever_graph::{Entry, Field, Predicate, TableSpec};

use crate::flow::{Conj, Kinds, as_atom, conjunctions, conjunctions_of_not};

/// Pieces of the complement of one test.
const MAX_PIECES: usize = 256;

/// The packets for which `predicate` is true (or false), or a superset.
pub(super) fn meaning(predicate: &Predicate, holds: bool) -> PacketSet {
    match (predicate, holds) {
        (Predicate::True, true) | (Predicate::False, false) => PacketSet::always(),
        (Predicate::True, false) | (Predicate::False, true) => PacketSet::never(),
        (Predicate::Match { field, .. } | Predicate::Range { field, .. }, _) => {
            test(predicate, *field, holds)
        }
        (
            test @ (Predicate::Atom { .. } | Predicate::Compare { .. } | Predicate::Member { .. }),
            _,
        ) => opaque(test, holds),
        (Predicate::Not(p), _) => meaning(p, !holds),
        (Predicate::And(all), true) | (Predicate::Or(all), false) => {
            all.iter().fold(PacketSet::always(), |both, p| both.and(&meaning(p, holds)))
        }
        (Predicate::Or(any), true) | (Predicate::And(any), false) => {
            any.iter().fold(PacketSet::never(), |either, p| either.or(&meaning(p, holds)))
        }
    }
}

fn atom(label: &str, value: &str, holds: bool) -> PacketSet {
    PacketSet::of([Conj::all().having_atom(label, value, holds)])
}

fn test(predicate: &Predicate, field: Field, holds: bool) -> PacketSet {
    match field {
        Field::EthDst | Field::EthSrc | Field::EthType | Field::FrameLen => plain(predicate, holds),
        // Frames of IPv4 may claim another version.
        Field::IpVersion => opaque(predicate, holds),
        derived if derived.is_derived() => opaque(predicate, holds),
        _ => {
            let there = atom(&format!("has {field}"), "yes", holds);
            match holds {
                false => plain(predicate, false).or(&there),
                true => plain(predicate, true).and(&there).or(&behind_extensions(predicate, field)),
            }
        }
    }
}

fn plain(predicate: &Predicate, holds: bool) -> PacketSet {
    let parts = match holds {
        true => conjunctions(predicate, MAX_PIECES),
        false => conjunctions_of_not(predicate, MAX_PIECES),
    };
    parts.map_or_else(|_| PacketSet::always(), PacketSet::of)
}

/// A test of unknown meaning that has the same outcome every time.
fn opaque(predicate: &Predicate, holds: bool) -> PacketSet {
    let (label, value) = as_atom(predicate);
    atom(&label, &value, holds)
}

/// The conditions that hold for a field behind extension headers.
fn behind_extensions(predicate: &Predicate, field: Field) -> PacketSet {
    match is_deep(field) {
        true => PacketSet::of([Conj::of_kinds(Kinds::IP6_OTHER)]).and(&opaque(predicate, true)),
        false => PacketSet::never(),
    }
}

fn is_deep(field: Field) -> bool {
    matches!(
        field,
        Field::L4Src | Field::L4Dst | Field::TcpFlags | Field::IcmpType | Field::IcmpCode
    )
}

/// The packets of a table that leave by each of its ports, or a superset.
pub(super) fn by_entries(table: &TableSpec, ports: usize, runs: &PacketSet) -> Vec<PacketSet> {
    let mut out = vec![PacketSet::never(); ports];
    let mut missed = runs.clone();
    for entry in &table.entries {
        let hit = matched(table, entry);
        let deep = table.fields.iter().zip(&entry.keys).any(|(f, k)| k.mask != 0 && is_deep(*f));
        let hidden = Conj::of_kinds(Kinds::IP6_OTHER);
        if let Some(port) = out.get_mut(entry.port as usize)
            && (runs.meets(&hit) || (deep && runs.meets(&hidden)))
        {
            let mut caught = runs.and(&PacketSet::of([hit.clone()]));
            if deep {
                caught = caught.or(&runs.and(&PacketSet::of([hidden])));
            }
            *port = std::mem::replace(port, PacketSet::never()).or(&caught);
            missed = missed.minus(&hit);
        }
    }
    if let Some(port) = out.get_mut(table.miss as usize) {
        *port = std::mem::replace(port, PacketSet::never()).or(&missed);
    }
    out
}

fn matched(table: &TableSpec, entry: &Entry) -> Conj {
    let keys = table.fields.iter().zip(&entry.keys).filter(|(_, k)| k.mask != 0);
    keys.fold(Conj::all(), |conj, (field, key)| {
        conj.having(crate::flow::Values::masked(*field, key.mask, key.value))
    })
}

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
