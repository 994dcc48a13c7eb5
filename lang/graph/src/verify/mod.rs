//! Verification: whether a graph has a meaning, and in which order its nodes run.
//!
//! The checks are those of the language (Dragonet thesis §2.2; design/0000 §4.2). A node whose
//! [`effects`](crate::Node::effects) are not known counts as having none: set them from the
//! implementations before you verify.

mod condition;
mod hints;
mod index;
mod shape;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use shape::check_table;

use std::sync::Arc;

use crate::{Finding, Graph, GraphError, Kind, NodeId, Severity};
use index::FindingList;
use index::Index;

/// A graph that may be executed. The only way to get one is [`verify`].
///
/// Clones share it.
#[derive(Clone, Debug)]
pub struct Verified(Arc<Checked>);

#[derive(Debug, PartialEq)]
struct Checked {
    graph: Graph,
    order: Vec<NodeId>,
    findings: Vec<Finding>,
}

impl PartialEq for Verified {
    fn eq(&self, other: &Verified) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Verified {
    /// Every node after all nodes that lead to it; ties in the order of adding.
    pub fn order(&self) -> &[NodeId] {
        &self.0.order
    }

    /// Probable mistakes.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.0.findings.iter().filter(|f| f.severity() == Severity::Warning)
    }

    /// Notes worth reading.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.0.findings.iter().filter(|f| f.severity() == Severity::Note)
    }
}

impl std::ops::Deref for Verified {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.0.graph
    }
}

/// Checks a configured graph. Takes ownership, so that it cannot change afterwards.
///
/// # Errors
/// Every error found, sorted by node. Checks that need an order are left out while there is a
/// cycle or an edge to nowhere.
pub fn verify(graph: Graph) -> Result<Verified, Vec<GraphError>> {
    let mut report = FindingList::new(&graph);
    let order = check_structure(&graph, &mut report);
    shape::configured(&graph, &mut report);
    if let Some((index, order)) = &order {
        shape::operands(&graph, index, &mut report);
        tasks::check(&graph, index, order, &mut report);
    }
    let findings = report.into_result()?;
    let order = order.map(|(_, order)| order).unwrap_or_default();
    Ok(Verified(Arc::new(Checked { graph, order, findings })))
}

/// The checks that hold before config nodes have values: everything but operand ports, effects
/// and blocking. Errors first, then warnings, then notes.
pub fn verify_unconfigured(graph: &Graph) -> Vec<Finding> {
    let mut report = FindingList::new(graph);
    check_structure(graph, &mut report);
    report.into_findings()
}

fn check_structure(graph: &Graph, report: &mut FindingList) -> Option<(Index, Vec<NodeId>)> {
    shape::names(graph, report);
    shape::ports(graph, report);
    shape::tables(graph, report);
    shape::attributes(graph, report);
    if shape::dangling(graph, report) {
        return None;
    }
    let index = Index::new(graph);
    hints::init_with_input(graph, &index, report);
    hints::operands(graph, &index, report);
    hints::unreachable(graph, &index, report);
    hints::dead_ends(graph, &index, report);
    match index::topological(graph, &index) {
        Ok(order) => Some((index, order)),
        Err(cycle) => {
            report_cycle(graph, &cycle, report);
            None
        }
    }
}

fn report_cycle(graph: &Graph, cycle: &[NodeId], report: &mut FindingList) {
    let names: Vec<&str> = cycle.iter().map(|id| graph.node(*id).name.as_str()).collect();
    let (path, first) = (names.join("` → `"), names[0]);
    let message = format!("dataflow edges form a cycle: `{path}` → `{first}`");
    let remedy = "replace one of these edges by a spawn edge";
    report.add(Kind::Cycle, cycle[0], message, remedy);
}
