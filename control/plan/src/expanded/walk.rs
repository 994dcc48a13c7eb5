//! Where a flow's packets get to, by walking the expanded graph.

use std::collections::BTreeSet;

use weever_graph::{Graph, NodeId, Predicate};

use crate::flow::{Conj, TooComplex, conjunctions};

/// How many conjunctions a path's condition may have.
const MAX_PARTS: usize = 4096;

/// The queues that some packet of `flow` gets to in a graph that [`expand`](super::expand) made:
/// depth first, through every port whose predicate can hold beside the flow's and those of the
/// ports passed before.
///
/// # Errors
/// [`TooComplex`] if a path's condition becomes too long. This is for tests and pictures.
pub fn queues_of(graph: &Graph, flow: &Predicate) -> Result<BTreeSet<u32>, TooComplex> {
    let mut found = BTreeSet::new();
    let Some(source) = graph.iter().find(|(_, n)| n.has(&weever_graph::Attr::Source)) else {
        return Ok(found);
    };
    let start = conjunctions(flow, MAX_PARTS)?;
    let mut open: Vec<(NodeId, Vec<Conj>)> = vec![(source.0, start)];
    while let Some((id, condition)) = open.pop() {
        let node = graph.node(id);
        if let Some(queues) = node.queues {
            found.insert(queues.all.lo);
            continue;
        }
        for port in &node.ports {
            let passed = both(&condition, &port.predicate)?;
            if !passed.is_empty() {
                open.extend(port.targets.iter().map(|t| (*t, passed.clone())));
            }
        }
    }
    Ok(found)
}

/// The packets of `condition` that also fulfil `predicate`.
fn both(condition: &[Conj], predicate: &Predicate) -> Result<Vec<Conj>, TooComplex> {
    if *predicate == Predicate::True {
        return Ok(condition.to_vec());
    }
    let parts = conjunctions(predicate, MAX_PARTS)?;
    let pairs = condition.iter().flat_map(|c| parts.iter().map(move |p| c.and(p)));
    let mut both: Vec<Conj> = Vec::new();
    for conj in pairs.filter(|c| !c.is_empty()) {
        // Negated filters overlap; without this, a path's condition doubles at every filter.
        if !both.iter().any(|b| conj.implies(b)) {
            both.retain(|b| !b.implies(&conj));
            both.push(conj);
        }
        if both.len() > MAX_PARTS {
            return Err(TooComplex { limit: MAX_PARTS });
        }
    }
    Ok(both)
}
