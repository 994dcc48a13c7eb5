//! Checks of one node at a time.

use std::collections::HashMap;

use super::index::FindingList;
use super::index::Index;
use crate::{Attr, Graph, Kind, Node, NodeId, NodeKind, TableSpec};

/// Whether every edge has a target in the graph. Nothing else can be checked until it does.
pub(crate) fn dangling(graph: &Graph, report: &mut FindingList) -> bool {
    let mut found = false;
    for (id, node) in graph.iter() {
        let flows = node.ports.iter().flat_map(|p| &p.targets);
        let others = node.spawns.iter().chain(&node.notifies).map(|e| &e.target);
        for target in flows.chain(others).filter(|t| t.index() >= graph.len()) {
            found = true;
            let message = format!("`{}` leads to node {}, which is not there", node.name, target.0);
            report.add(Kind::DanglingEdge, id, message, "add the target before the edge");
        }
    }
    found
}

pub(crate) fn names(graph: &Graph, report: &mut FindingList) {
    let mut first: HashMap<&str, NodeId> = HashMap::new();
    for (id, node) in graph.iter() {
        if first.insert(&node.name, id).is_some() {
            let message = format!("there are two nodes with the full name `{}`", node.name);
            report.add(Kind::DuplicateName, id, message, "rename one, or move it to a cluster");
        }
    }
}

pub(crate) fn ports(graph: &Graph, report: &mut FindingList) {
    for (id, node) in graph.iter() {
        duplicate_ports(id, node, report);
        match node.kind {
            NodeKind::Operator(_) => operator_ports(id, node, report),
            _ => boolean_order(id, node, report),
        }
    }
}

fn duplicate_ports(id: NodeId, node: &Node, report: &mut FindingList) {
    let mut seen = std::collections::HashSet::new();
    for port in node.ports.iter().filter(|p| !seen.insert(p.name.as_str())) {
        let message = format!("`{}` has two ports called `{}`", node.name, port.name);
        report.add(Kind::DuplicatePort, id, message, "put the targets of both into one");
    }
}

fn operator_ports(id: NodeId, node: &Node, report: &mut FindingList) {
    if !node.ports.iter().map(|p| p.name.as_str()).eq(["false", "true"]) {
        let names: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
        let message = format!("operator `{}` has the ports [{}]", node.name, names.join(" "));
        report.add(Kind::BooleanPorts, id, message, "give it `false` and `true`, in this order");
    }
}

fn boolean_order(id: NodeId, node: &Node, report: &mut FindingList) {
    let (no, yes) = (node.port("false"), node.port("true"));
    if no.is_some() && yes.is_some() && (no, yes) != (Some(0), Some(1)) {
        let message = format!("`{}` has `false` and `true`, but not as its first ports", node.name);
        report.add(Kind::BooleanPorts, id, message, "put `false` at 0 and `true` at 1");
    }
}

pub(crate) fn operands(graph: &Graph, index: &Index, report: &mut FindingList) {
    for (id, node) in graph.iter().filter(|(_, n)| matches!(n.kind, NodeKind::Operator(_))) {
        for port in &index.incoming[id.index()] {
            let source = graph.node(port.node);
            let name = source.ports[port.port as usize].name.as_str();
            if !matches!(name, "true" | "false") {
                let message =
                    format!("`{}` takes port `{name}` of `{}` as operand", node.name, source.name);
                let remedy = "connect a port called `true` or `false`";
                report.add(Kind::OperandPort, id, message, remedy);
            }
        }
    }
}

pub(crate) fn configured(graph: &Graph, report: &mut FindingList) {
    for (id, node) in graph.iter().filter(|(_, n)| matches!(n.kind, NodeKind::Config(_))) {
        let message = format!("config node `{}` has no value", node.name);
        report.add(Kind::NotConfigured, id, message, "configure it before the graph runs");
    }
}

pub(crate) fn tables(graph: &Graph, report: &mut FindingList) {
    for (id, node) in graph.iter() {
        if let NodeKind::Table(table) = &node.kind
            && let Err(what) = check_table(table, node.ports.len())
        {
            let message = format!("table `{}`: {what}", node.name);
            report.add(Kind::BadTable, id, message, "correct the table's value");
        }
    }
}

/// Whether a table's parts fit together on a node with `ports` ports; if not, the error names the part.
pub(crate) fn check_table(table: &TableSpec, ports: usize) -> Result<(), String> {
    if table.miss as usize >= ports {
        return Err(format!("a miss leaves by port {} of {ports}", table.miss));
    }
    if table.entries.len() > table.capacity {
        return Err(format!("{} entries, room for {}", table.entries.len(), table.capacity));
    }
    table.entries.iter().try_for_each(|entry| {
        let at = format!("entry {}", entry.id);
        if entry.port as usize >= ports {
            return Err(format!("{at} leaves by port {} of {ports}", entry.port));
        }
        if entry.keys.len() != table.fields.len() {
            return Err(format!(
                "{at} has {} keys for {} fields",
                entry.keys.len(),
                table.fields.len()
            ));
        }
        let stray =
            table.fields.iter().zip(&entry.keys).find(|(field, key)| {
                key.value & !key.mask != 0 || key.mask & !field.full_mask() != 0
            });
        stray.map_or(Ok(()), |(field, _)| Err(format!("{at} has bits outside {field:?}'s mask")))
    })
}

pub(crate) fn attributes(graph: &Graph, report: &mut FindingList) {
    for (id, node) in graph.iter() {
        for attr in node.attrs.iter().filter(|attr| !attr.marks_feature()) {
            if let Attr::Other(text) = attr {
                let message = format!("`{}` has the attribute \"{text}\"", node.name);
                report.add(Kind::UnknownAttribute, id, message, "it is kept, but means nothing");
            }
        }
    }
}
