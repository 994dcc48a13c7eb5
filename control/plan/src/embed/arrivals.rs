//! From a configuration to the packets that can arrive at each queue, and to the part of them on which a
//! queue's graph depends: plans change with every flow, and graphs should not.

use std::collections::BTreeSet;

use weever_graph::{Field, Graph, NodeKind, Predicate};

use super::Arrival;
use crate::config::{Configuration, Rss, Target};
use crate::flow::{Conj, Kinds};
use crate::map::place;
use crate::nic::Nic;

/// The conjunctions by which a queue's packets are described at most; more are joined.
const MAX_PARTS: usize = 32;
/// The most pieces into which the packets that no rule takes are cut.
const MAX_PIECES: usize = 32;
/// The most preceding rules that are subtracted from the packets of a rule.
const MAX_BEFORE: usize = 64;

/// The packets that can arrive at each queue of a NIC with this configuration, by ascending queue;
/// queues that nothing reaches are left out.
///
/// Exact while few rules overlap. Beyond that, and where a hash decides, more packets may be listed
/// than arrive, but never fewer.
pub fn arrivals(nic: &Nic, configuration: &Configuration) -> Vec<Arrival> {
    let rules = in_order(nic, configuration);
    let mut found: Vec<Arrival> = Vec::new();
    for (at, (conj, target)) in rules.iter().enumerate() {
        let before: Vec<&Conj> = rules[..at].iter().map(|(c, _)| c).take(MAX_BEFORE).collect();
        for piece in rest(conj, &before) {
            aim(nic, configuration, *target, piece, &mut found);
        }
    }
    let all: Vec<&Conj> = rules.iter().map(|(c, _)| c).collect();
    for piece in rest(&Conj::all(), &all) {
        spread(nic, &configuration.rss, &piece, &mut found);
    }
    found.sort_by_key(|a| a.queue);
    found
}

/// Adds the packets that a rule takes to the arrivals of the rule's queue.
pub(super) fn aim(
    nic: &Nic,
    configuration: &Configuration,
    target: Target,
    piece: Conj,
    found: &mut Vec<Arrival>,
) {
    match target {
        Target::Queue(queue) => arrive(found, queue, piece),
        Target::Context(context) => {
            spread(nic, &configuration.context(nic, context), &piece, found);
        }
        Target::Drop => {}
    }
}

/// The rules in the order of evaluation.
pub(super) fn in_order(nic: &Nic, configuration: &Configuration) -> Vec<(Conj, Target)> {
    let mut rules = Vec::new();
    for (t, (table, of_table)) in nic.tables.iter().zip(&configuration.rules).enumerate() {
        for (i, rule) in of_table.iter().enumerate() {
            let turn = (t, rule.rank(table.model.order), i);
            rules.push((turn, rule.matches(&table.model), rule.target));
        }
    }
    rules.sort_by_key(|(turn, ..)| *turn);
    rules.into_iter().map(|(_, conj, target)| (conj, target)).collect()
}

/// The packets of `conj` that none of `taken` takes; a superset if exactness needs too many pieces.
fn rest(conj: &Conj, taken: &[&Conj]) -> Vec<Conj> {
    let mut pieces = vec![conj.clone()];
    for other in taken {
        let cut = |piece: &Conj| match piece.disjoint(other) {
            true => Some(vec![piece.clone()]),
            false => piece.minus(other, MAX_PIECES),
        };
        let left: Option<Vec<Vec<Conj>>> = pieces.iter().map(cut).collect();
        if let Some(left) = left.map(|l| l.concat()).filter(|l| l.len() <= MAX_PIECES) {
            pieces = left;
        }
    }
    pieces
}

/// Adds the packets that no rule takes to the queues to which the hash may send them. No field shows
/// which entry a packet uses, but the hashed kinds of packets are known.
pub(super) fn spread(nic: &Nic, rss: &Rss, piece: &Conj, found: &mut Vec<Arrival>) {
    let no_rules = Configuration { rss: rss.clone(), ..Configuration::default() };
    let mut kinds: Vec<(u32, Kinds)> = Vec::new();
    for kind in piece.kinds().each() {
        for (queue, _) in place(nic, &no_rules, &piece.clone().of(kind)).shares() {
            match kinds.iter_mut().find(|(q, _)| *q == queue) {
                Some((_, of_queue)) => *of_queue = of_queue.or(kind),
                None => kinds.push((queue, kind)),
            }
        }
    }
    for (queue, kinds) in kinds {
        arrive(found, queue, piece.clone().of(kinds));
    }
}

pub(super) fn arrive(found: &mut Vec<Arrival>, queue: u32, conj: Conj) {
    if conj.is_empty() {
        return;
    }
    let at = found.iter().position(|a| a.queue == queue).unwrap_or_else(|| {
        found.push(Arrival { queue, parts: Vec::new() });
        found.len() - 1
    });
    let parts = &mut found[at].parts;
    if parts.iter().any(|p| conj.implies(p)) {
        return;
    }
    parts.retain(|p| !p.implies(&conj));
    parts.push(conj);
    if parts.len() > MAX_PARTS {
        let hull = parts.iter().skip(1).fold(parts[0].clone(), |hull, p| hull.hull(p));
        *parts = vec![hull];
    }
}

/// With more rules than this, they are no longer taken off each other.
const MAX_EXACT: usize = 128;

/// The fields that predicates and tables of a graph look at.
pub fn tested(graph: &Graph) -> BTreeSet<Field> {
    let mut fields = BTreeSet::new();
    for (_, node) in graph.iter() {
        if let NodeKind::Table(table) = &node.kind {
            fields.extend(&table.fields);
        }
        node.ports.iter().for_each(|port| collect(&port.predicate, &mut fields));
    }
    fields
}

fn collect(predicate: &Predicate, into: &mut BTreeSet<Field>) {
    match predicate {
        Predicate::Match { field, .. } | Predicate::Range { field, .. } => {
            into.insert(*field);
        }
        Predicate::Not(inner) => collect(inner, into),
        Predicate::And(parts) | Predicate::Or(parts) => {
            parts.iter().for_each(|part| collect(part, into));
        }
        Predicate::True
        | Predicate::False
        | Predicate::Atom { .. }
        | Predicate::Compare { .. }
        | Predicate::Member { .. } => {}
    }
}

/// Like [`arrivals`], but restricted to `fields`, so that it stays the same while flows come and go
/// that differ in others. More packets may be listed than arrive, but never fewer.
pub fn needs(nic: &Nic, configuration: &Configuration, fields: &BTreeSet<Field>) -> Vec<Arrival> {
    let mut needs: Vec<Arrival> = Vec::new();
    if configuration.rules.iter().map(Vec::len).sum::<usize>() <= MAX_EXACT {
        for Arrival { queue, parts } in arrivals(nic, configuration) {
            parts.iter().for_each(|part| arrive(&mut needs, queue, coarse(part, fields)));
        }
    } else {
        for (conj, target) in in_order(nic, configuration) {
            aim(nic, configuration, target, coarse(&conj, fields), &mut needs);
        }
        spread(nic, &configuration.rss, &Conj::all(), &mut needs);
    }
    needs.sort_by_key(|need| need.queue);
    needs
}

/// The part of one conjunction that concerns `fields`.
fn coarse(conj: &Conj, fields: &BTreeSet<Field>) -> Conj {
    let tests = conj.tests().filter(|values| fields.contains(&values.field));
    tests.fold(Conj::of_kinds(conj.kinds()), |coarse, values| coarse.having(values.clone()))
}

/// The packets that arrive before a change or after it: graphs for both can be in use during the
/// change.
pub fn either(before: &[Arrival], after: &[Arrival]) -> Vec<Arrival> {
    let mut both = before.to_vec();
    for Arrival { queue, parts } in after {
        parts.iter().for_each(|part| arrive(&mut both, *queue, part.clone()));
    }
    both.sort_by_key(|need| need.queue);
    both
}
