//! The part of a configuration on which a queue's graph depends. Plans change with every flow, and
//! graphs should not: they do not depend on a client's address.

use std::collections::BTreeSet;

use weever_graph::{Field, Graph, NodeKind, Predicate};

use super::Arrival;
use super::arrivals::{aim, arrivals, arrive, in_order, spread};
use crate::config::Configuration;
use crate::flow::Conj;
use crate::nic::Nic;

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
        Predicate::True | Predicate::False | Predicate::Atom { .. } => {}
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
