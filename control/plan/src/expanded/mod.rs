//! The reference meaning of a configuration: the PRG with a node for every filter, as the Dragonet
//! queue management paper draws it (§3.1), and a depth-first walk of it (§3.3).
//!
//! The planner does not use this graph: it grows with every rule, and a walk visits all of them. The
//! flow map is tested against it, and pictures show it. [`expand`] makes it by giving every config node
//! of the PRG its value through [`weever_graph::configure()`], which applies the locality rule to each;
//! [`queues_of`] walks it.

mod nodes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use weever_graph::{ConfigError, ConfigValue, Graph, NodeId, Predicate, configure};

use crate::config::{Configuration, Rule, Target};
use crate::flow::{Conj, TooComplex, conjunctions};
use crate::nic::Nic;

/// The PRG of `nic` with the configuration in the place of its config nodes. Queues that nothing
/// can reach are left out.
///
/// `nic` may be a view of the PRG with fewer tables or queues; a table that it does not have stays
/// empty.
///
/// # Errors
/// [`ConfigError`] if `prg` is not the graph that `nic` was read from.
pub fn expand(prg: &Graph, nic: &Nic, configuration: &Configuration) -> Result<Graph, ConfigError> {
    let mut graph = nodes::one_node_each(prg, &nodes::used(nic, configuration), nic.default_queue);
    for name in nodes::tables(prg) {
        let at = nic.tables.iter().position(|t| t.name == name);
        let value = match at.and_then(|i| Some((&nic.tables[i], configuration.rules.get(i)?))) {
            Some((table, rules)) => {
                let spreads = |r: &Rule| matches!(r.target, Target::Context(_));
                let contexts = match rules.iter().any(spreads) {
                    true => nodes::contexts(&graph, nic, configuration)?,
                    false => Vec::new(),
                };
                nodes::chain(&graph, table, rules, &contexts)?
            }
            None => ConfigValue::Choice("default".into()),
        };
        configure(&mut graph, &name, value)?;
    }
    let settings = nic.settings(configuration);
    for feature in &nic.features {
        let set = settings.iter().find(|setting| setting.feature == feature.name);
        let value = match set.map_or(feature.model.starts_on, |setting| setting.on) {
            true => nodes::feature(&graph, feature)?,
            false => ConfigValue::Choice("out".into()),
        };
        configure(&mut graph, &feature.name, value)?;
    }
    for name in nodes::nodes(prg) {
        let value = nodes::node(&graph, &name, nic, &configuration.rss)?;
        configure(&mut graph, &name, value)?;
    }
    Ok(graph)
}

/// How many conjunctions a path's condition may have.
const MAX_PARTS: usize = 4096;

/// The queues that some packet of `flow` gets to in a graph that [`expand`] made:
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
