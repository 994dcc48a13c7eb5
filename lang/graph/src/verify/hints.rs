//! Warnings and notes about how nodes are connected.

use std::collections::BTreeMap;

use super::index::FindingList;
use super::index::Index;
use crate::{Attr, Graph, Kind, Node, NodeId, NodeKind, Op, PortId};

pub(crate) fn init_with_input(graph: &Graph, index: &Index, report: &mut FindingList) {
    for (id, node) in graph.iter().filter(|(_, n)| n.has(&Attr::Init)) {
        if !index.incoming[id.index()].is_empty() {
            let message = format!("`{}` is `init`, but dataflow edges lead to it", node.name);
            report.add(Kind::InitWithInput, id, message, "start it by a spawn edge instead");
        }
    }
}

pub(crate) fn operands(graph: &Graph, index: &Index, report: &mut FindingList) {
    for (id, node) in graph.iter().filter(|(_, n)| matches!(n.kind, NodeKind::Operator(_))) {
        let incoming = &index.incoming[id.index()];
        if incoming.is_empty() {
            let message = format!("operator `{}` has no operands", node.name);
            report.add(Kind::NoOperands, id, message, "connect a node's `true` and `false` to it");
        }
        for (source, connected) in outcomes_connected(graph, incoming) {
            if let [only] = connected[..]
                && shows(node, only == "true")
            {
                half_operand(graph, id, source, only, report);
            }
        }
    }
}

/// Per operand, the outcomes by which it is connected.
fn outcomes_connected<'g>(graph: &'g Graph, incoming: &[PortId]) -> BTreeMap<NodeId, Vec<&'g str>> {
    let mut outcomes: BTreeMap<NodeId, Vec<&str>> = BTreeMap::new();
    for port in incoming {
        let source = graph.node(port.node);
        let name = source.ports[port.port as usize].name.as_str();
        // The future ports of a config node are unknown.
        let open = matches!(source.kind, NodeKind::Config(_));
        if !open && matches!(name, "true" | "false") {
            outcomes.entry(port.node).or_default().push(name);
        }
    }
    outcomes
}

/// Whether anything follows the outcome that an operator cannot reach without the other outcome of an
/// operand with only one connected outcome (`true` or `false`).
fn shows(operator: &Node, only_true: bool) -> bool {
    let swapped = matches!(operator.kind, NodeKind::Operator(Op::Nand | Op::Nor));
    let hidden = if only_true == swapped { "true" } else { "false" };
    operator.ports.iter().any(|p| p.name == hidden && !p.targets.is_empty())
}

fn half_operand(
    graph: &Graph,
    operator: NodeId,
    source: NodeId,
    only: &str,
    report: &mut FindingList,
) {
    let (name, source) = (&graph.node(operator).name, &graph.node(source).name);
    let message = format!("`{name}` sees only the `{only}` of its operand `{source}`");
    report.add(Kind::HalfOperand, operator, message, "the other outcome leaves it undecided");
}

/// Every unreachable node lies behind a root that nothing starts, so the roots are reported. A
/// graph that declares no start at all is a fragment whose roots are its entries.
pub(crate) fn unreachable(graph: &Graph, index: &Index, report: &mut FindingList) {
    if index.declared_starts.is_empty() {
        return;
    }
    let is_of_feature = |id: &NodeId| graph.node(*id).attrs.iter().any(Attr::marks_feature);
    let starts = |id: &NodeId| index.declared_starts.binary_search(id).is_ok();
    for id in index.roots().filter(|id| !starts(id) && !is_of_feature(id)) {
        let message =
            format!("no edge leads to `{}` and no task starts there", graph.node(id).name);
        let remedy = "connect it, or give it the attribute \"source\" or \"init\"";
        report.add(Kind::Unreachable, id, message, remedy);
    }
}

/// A port where packets end ought to give a reason. `out` alone means that nothing is left to do, and
/// an operator's outcome may have no consequence. In a fragment, ports may be joined to others yet.
pub(crate) fn dead_ends(graph: &Graph, index: &Index, report: &mut FindingList) {
    if index.declared_starts.is_empty() {
        return;
    }
    let executes = |kind: &NodeKind| matches!(kind, NodeKind::Function | NodeKind::Table(_));
    for (id, node) in graph.iter().filter(|(_, node)| executes(&node.kind)) {
        let ends = node.ports.iter().filter(|port| port.targets.is_empty() && port.name != "out");
        let ends = ends.map(|port| port.name.as_str());
        let ends: Vec<&str> =
            ends.filter(|port| node.drop_reason(port).is_none() && !node.ends_at(port)).collect();
        let Some(first) = ends.first() else { continue };
        let (name, ports) = (&node.name, ends.join("`, `"));
        let message = match ends.len() {
            1 => format!("port `{ports}` of `{name}` leads nowhere, for no stated reason"),
            _ => format!("ports `{ports}` of `{name}` lead nowhere, for no stated reason"),
        };
        let remedy = match ends.len() {
            1 => format!("connect it, or write `attr \"drop {first}: REASON\"`"),
            _ => format!("connect them, or write `attr \"drop {first}: REASON\"` and so on"),
        };
        report.add(Kind::DeadEnd, id, message, &remedy);
    }
}
