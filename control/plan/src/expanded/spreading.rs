//! Spreading by hash as one F-node with a port for each entry of its table.
//!
//! The result of a hash is not a field, so an entry is an opaque atom: a flow does not restrict it and
//! can take any. Packets that are not hashed use entry 0.

use weever_graph::configure::{From, NewEdge, Subgraph, To};
use weever_graph::nic::{FlowType, RssFields, RssModel};
use weever_graph::{ConfigError, ConfigValue, Graph, Node, NodeKind, Port, Predicate};

use super::filters::before;
use super::queues::node_of;
use crate::config::{Configuration, Rss};
use crate::nic::Nic;

/// The label of a packet's entry.
const ENTRY: &str = "RssEntry";

/// The names of the config nodes that spread.
pub(super) fn nodes(prg: &Graph) -> Vec<String> {
    let spreads = |n: &&Node| matches!(&n.kind, NodeKind::Config(spec) if spec.rss.is_some());
    prg.iter().map(|(_, n)| n).filter(spreads).map(|n| n.name.clone()).collect()
}

/// The node in the place of the config node `name`.
pub(super) fn node(
    graph: &Graph,
    name: &str,
    nic: &Nic,
    rss: &Rss,
) -> Result<ConfigValue, ConfigError> {
    let missing = || ConfigError::NoNode(name.into());
    let id = graph.find(name).ok_or_else(missing)?;
    let mut node = Node::new(format!("{name}_hash"), NodeKind::Function);
    let mut edges: Vec<NewEdge> = before(graph, id)
        .into_iter()
        .map(|port| NewEdge { from: From::Old(port), to: To::New(0) })
        .collect();
    for (queue, predicate) in ports(nic, rss) {
        let to = node_of(graph, queue).ok_or_else(missing)?;
        edges.push(NewEdge { from: From::New(0, node.ports.len()), to: To::Old(to) });
        let name = format!("q{queue}");
        node.ports.push(Port { name, predicate, ..Port::default() });
    }
    Ok(ConfigValue::Subgraph(Subgraph { nodes: vec![node], edges }))
}

/// A node for each context, with ports that lead to its queues.
pub(super) fn contexts(
    graph: &Graph,
    nic: &Nic,
    configuration: &Configuration,
) -> Result<Vec<Node>, ConfigError> {
    let context = |number: usize| {
        let name = format!("context{number}");
        let mut node = Node::new(name.clone(), NodeKind::Function);
        for (queue, predicate) in ports(nic, &configuration.context(nic, number as u32)) {
            let to = node_of(graph, queue).ok_or_else(|| ConfigError::NoNode(name.clone()))?;
            let name = format!("q{queue}");
            node.ports.push(Port { name, predicate, targets: vec![to], ..Port::default() });
        }
        Ok(node)
    };
    (0..configuration.contexts.len()).map(context).collect()
}

/// Every queue with the condition under which packets go there.
fn ports(nic: &Nic, rss: &Rss) -> Vec<(u32, Predicate)> {
    let (Some(model), Some(first)) = (&nic.rss, rss.table.first()) else {
        return vec![(nic.default_queue, Predicate::True)];
    };
    let hashed = hashed(model, rss);
    let mut queues: Vec<u32> = Vec::new();
    for queue in &rss.table {
        if !queues.contains(queue) {
            queues.push(*queue);
        }
    }
    let port = |queue: u32| {
        let entry =
            |(i, _): (usize, &u32)| Predicate::Atom { label: ENTRY.into(), value: i.to_string() };
        let own = rss.table.iter().enumerate().filter(|(_, q)| **q == queue).map(entry);
        let by_hash = Predicate::And(vec![hashed.clone(), Predicate::Or(own.collect())]);
        let unhashed = Predicate::Not(Box::new(hashed.clone()));
        match queue == *first {
            true => (queue, Predicate::Or(vec![by_hash, unhashed])),
            false => (queue, by_hash),
        }
    };
    queues.into_iter().map(port).collect()
}

/// The packets of which any field is hashed.
fn hashed(model: &RssModel, rss: &Rss) -> Predicate {
    let of_ip = FlowType::ALL.into_iter().filter(|t| t.ip_version().is_some());
    let some = of_ip.filter(|t| rss.fields_of(model, *t) != RssFields::None);
    Predicate::Or(some.map(exactly).collect())
}

/// Packets of the type that are of no more specific one.
fn exactly(flow_type: FlowType) -> Predicate {
    let all = |t: FlowType| {
        Predicate::And(t.implies().map(|(f, v)| Predicate::eq(f, v)).collect::<Vec<_>>())
    };
    let narrower = |t: &FlowType| {
        flow_type.protocol().is_none()
            && t.protocol().is_some()
            && t.ip_version() == flow_type.ip_version()
    };
    let mut parts = vec![all(flow_type)];
    let others = FlowType::ALL.into_iter().filter(narrower);
    parts.extend(others.map(|t| Predicate::Not(Box::new(all(t)))));
    Predicate::And(parts)
}
