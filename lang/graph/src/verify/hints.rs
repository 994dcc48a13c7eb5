//! Warnings and notes about how nodes are connected.

use std::collections::BTreeMap;

use super::index::Index;
use super::report::Report;
use crate::{Attr, Graph, Kind, NodeId, NodeKind, PortId};

pub(crate) fn init_with_input(graph: &Graph, index: &Index, report: &mut Report) {
    for (id, node) in graph.iter().filter(|(_, n)| n.has(&Attr::Init)) {
        if !index.incoming[id.index()].is_empty() {
            let message = format!("`{}` is `init`, but dataflow edges lead to it", node.name);
            report.add(Kind::InitWithInput, id, message, "start it by a spawn edge instead");
        }
    }
}

pub(crate) fn operands(graph: &Graph, index: &Index, report: &mut Report) {
    for (id, node) in graph.iter().filter(|(_, n)| matches!(n.kind, NodeKind::Operator(_))) {
        let incoming = &index.incoming[id.index()];
        if incoming.is_empty() {
            let message = format!("operator `{}` has no operands", node.name);
            report.add(Kind::NoOperands, id, message, "connect a node's `true` and `false` to it");
        }
        let mut outcomes: BTreeMap<NodeId, usize> = BTreeMap::new();
        for port in incoming.iter().filter(|p| is_outcome(graph, **p)) {
            *outcomes.entry(port.node).or_default() += 1;
        }
        for (source, _) in outcomes.iter().filter(|(_, connected)| **connected == 1) {
            half_operand(graph, id, *source, report);
        }
    }
}

/// Whether the port is one of a node's two outcomes. What a config node's ports will be is open.
fn is_outcome(graph: &Graph, port: PortId) -> bool {
    let source = graph.node(port.node);
    let name = source.ports[port.port as usize].name.as_str();
    !matches!(source.kind, NodeKind::Config(_)) && matches!(name, "true" | "false")
}

fn half_operand(graph: &Graph, operator: NodeId, source: NodeId, report: &mut Report) {
    let (name, source) = (&graph.node(operator).name, &graph.node(source).name);
    let message = format!("`{name}` sees only one of the outcomes of its operand `{source}`");
    report.add(Kind::HalfOperand, operator, message, "the other leaves it undecided");
}

/// Every unreachable node lies behind a root that nothing starts, so the roots are reported. A
/// graph that declares no start at all is a fragment whose roots are its entries.
pub(crate) fn unreachable(graph: &Graph, index: &Index, report: &mut Report) {
    if index.declared_starts.is_empty() {
        return;
    }
    for id in index.roots().filter(|id| index.declared_starts.binary_search(id).is_err()) {
        let message =
            format!("no edge leads to `{}` and no task starts there", graph.node(id).name);
        let remedy = "connect it, or give it the attribute \"source\" or \"init\"";
        report.add(Kind::Unreachable, id, message, remedy);
    }
}
