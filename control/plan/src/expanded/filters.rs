//! A table as a chain of filters, each an F-node with `false` and `true`.

use weever_graph::configure::{From, NewEdge, Subgraph, To};
use weever_graph::nic::FlowType;
use weever_graph::{
    ConfigError, ConfigValue, Graph, Node, NodeId, NodeKind, Port, PortId, Predicate,
};

use super::queues::node_of;
use crate::config::{Rule, Target};
use crate::nic::Table;

/// The names of the config nodes that are tables.
pub(super) fn tables(prg: &Graph) -> Vec<String> {
    let is_table = |n: &&Node| matches!(&n.kind, NodeKind::Config(spec) if spec.table.is_some());
    prg.iter().map(|(_, n)| n).filter(is_table).map(|n| n.name.clone()).collect()
}

/// Every port that leads to `id`.
pub(super) fn before(graph: &Graph, id: NodeId) -> Vec<PortId> {
    graph.dataflow().filter(|(_, target)| *target == id).map(|(port, _)| port).collect()
}

/// The rules in the order of evaluation, then the targets of the table's port `default`.
pub(super) fn chain(
    graph: &Graph,
    table: &Table,
    rules: &[Rule],
    contexts: &[Node],
) -> Result<ConfigValue, ConfigError> {
    let missing = || ConfigError::NoNode(table.name.clone());
    let id = graph.find(&table.name).ok_or_else(missing)?;
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|i| (rules[*i].rank(table.model.order), *i));
    let mut nodes: Vec<Node> = order.iter().map(|i| filter(table, *i, &rules[*i])).collect();
    let mut edges = Vec::new();
    // The contexts stand behind the filters, each table with its own.
    let first_context = nodes.len();
    for context in contexts {
        let mut context =
            Node { name: format!("{}_{}", table.name, context.name), ..context.clone() };
        for (at, port) in context.ports.iter_mut().enumerate() {
            for to in std::mem::take(&mut port.targets) {
                edges.push(NewEdge { from: From::New(nodes.len(), at), to: To::Old(to) });
            }
        }
        nodes.push(context);
    }
    let mut from: Vec<From> = before(graph, id).into_iter().map(From::Old).collect();
    for (at, i) in order.iter().enumerate() {
        edges.extend(from.iter().map(|from| NewEdge { from: *from, to: To::New(at) }));
        let hit = match rules[*i].target {
            Target::Queue(queue) => Some(To::Old(node_of(graph, queue).ok_or_else(missing)?)),
            Target::Context(context) => Some(To::New(first_context + context as usize)),
            // Its packets end here.
            Target::Drop => None,
        };
        edges.extend(hit.map(|to| NewEdge { from: From::New(at, 1), to }));
        from = vec![From::New(at, 0)];
    }
    let node = graph.node(id);
    let default = node.port("default").map(|p| node.ports[p].targets.as_slice());
    for to in default.unwrap_or_default() {
        edges.extend(from.iter().map(|from| NewEdge { from: *from, to: To::Old(*to) }));
    }
    Ok(ConfigValue::Subgraph(Subgraph { nodes, edges }))
}

fn filter(table: &Table, position: usize, rule: &Rule) -> Node {
    let mut node = Node::new(format!("{}_{position}", table.name), NodeKind::Function);
    let hit = condition(table, rule);
    let miss = Predicate::Not(Box::new(hit.clone()));
    for (name, predicate) in [("false", miss), ("true", hit)] {
        node.ports.push(Port { name: name.into(), predicate, ..Port::default() });
    }
    node
}

/// The condition that all packets of a rule fulfil, written out.
fn condition(table: &Table, rule: &Rule) -> Predicate {
    let of_type = rule.flow_type.into_iter().flat_map(FlowType::implies);
    let mut all: Vec<Predicate> = of_type.map(|(f, v)| Predicate::eq(f, v)).collect();
    for (m, key) in table.model.matches.iter().zip(&rule.keys).filter(|(_, k)| k.mask != 0) {
        all.push(Predicate::Match { field: m.field, mask: key.mask, value: key.value });
    }
    Predicate::And(all)
}
