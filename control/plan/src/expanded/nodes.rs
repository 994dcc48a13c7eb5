//! The nodes that a configuration becomes: a node for each queue, a chain of filters for a table, each an
//! F-node with `false` and `true`, and one F-node with a port for each entry of a hash's table.
//!
//! The result of a hash is not a field, so an entry is an opaque atom: a flow does not restrict it and
//! can take any. Packets that are not hashed use entry 0, or go to a queue of their own.

use std::collections::BTreeSet;

use weever_graph::configure::{From, NewEdge, Subgraph, To};
use weever_graph::nic::{FlowType, QueueRange, Queues, RssFields, RssModel, Work};
use weever_graph::{
    ConfigError, ConfigValue, Graph, Node, NodeId, NodeKind, Port, PortId, Predicate,
};

use crate::config::{Configuration, Rss, Rule, Target};
use crate::nic::{Feature, Nic, Table};

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

/// A feature that is on: what it vouches for packet by packet holds of packets that leave by a port of
/// their own.
pub(super) fn feature(graph: &Graph, feature: &Feature) -> Result<ConfigValue, ConfigError> {
    let missing = || ConfigError::NoNode(feature.name.clone());
    let id = graph.find(&feature.name).ok_or_else(missing)?;
    let (mut always, mut each) = (Vec::new(), Vec::new());
    for work in &feature.model.work {
        match work {
            Work::Vouches { always: false, predicate } => each.push(predicate.clone()),
            Work::Vouches { predicate, .. } | Work::Fills(predicate) => {
                always.push(predicate.clone());
            }
            Work::Drops(predicate) => always.push(Predicate::Not(Box::new(predicate.clone()))),
            _ => {}
        }
    }
    let mut node = Node::new(format!("{}_on", feature.name), NodeKind::Function);
    let mut port = |name: &str, predicate| {
        node.ports.push(Port { name: name.into(), predicate, ..Port::default() });
    };
    if each.is_empty() {
        port("out", all(&always));
    } else {
        port("vouched", all(&[always.clone(), each].concat()));
        port("open", all(&always));
    }
    let before = before(graph, id).into_iter().map(From::Old);
    let mut edges: Vec<NewEdge> = before.map(|from| NewEdge { from, to: To::New(0) }).collect();
    let behind = graph.node(id).ports.first().map(|p| p.targets.as_slice()).unwrap_or_default();
    for to in behind {
        let ports = 0..node.ports.len();
        edges.extend(ports.map(|at| NewEdge { from: From::New(0, at), to: To::Old(*to) }));
    }
    Ok(ConfigValue::Subgraph(Subgraph { nodes: vec![node], edges }))
}

fn all(predicates: &[Predicate]) -> Predicate {
    match predicates {
        [] => Predicate::True,
        [one] => one.clone(),
        all => Predicate::And(all.to_vec()),
    }
}

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
    let unhashed_at = model.unhashed.filter(|q| nic.queues.contains(*q)).unwrap_or(*first);
    let mut queues: Vec<u32> = Vec::new();
    for queue in rss.table.iter().chain([&unhashed_at]) {
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
        match queue == unhashed_at {
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

/// The ports by which a rule or a hash sends packets to a queue of its choice.
const CHOOSING: [&str; 2] = ["queues", "queue"];

/// The queues that the configuration names, and the default one.
pub(super) fn used(nic: &Nic, configuration: &Configuration) -> BTreeSet<u32> {
    let rules = configuration.rules.iter().flatten().filter_map(|r| match r.target {
        Target::Queue(queue) => Some(queue),
        Target::Context(_) | Target::Drop => None,
    });
    let contexts = configuration.contexts.iter().flatten().copied();
    let spread = configuration.rss.table.iter().copied();
    let unhashed =
        nic.rss.iter().filter_map(|rss| rss.unhashed).filter(|q| nic.queues.contains(*q));
    rules.chain(spread).chain(contexts).chain(unhashed).chain([nic.default_queue]).collect()
}

/// The graph with a node for each of `queues`. Where a rule or a hash chooses, every one of them can be
/// chosen; elsewhere the node for all queues represents the default one.
pub(super) fn one_node_each(prg: &Graph, queues: &BTreeSet<u32>, default: u32) -> Graph {
    let mut graph = prg.clone();
    let Some((all, template)) = prg.iter().find(|(_, n)| n.queues.is_some()) else { return graph };
    let single = |queue: u32| {
        let all = QueueRange { lo: queue, hi: queue };
        let name = format!("{}{queue}", template.name);
        Node { name, queues: Some(Queues { all, linux: None }), ..template.clone() }
    };
    // The first takes the place of the node for all, so that no id moves.
    let mut ids = Vec::new();
    for (i, queue) in queues.iter().enumerate() {
        if i == 0 {
            *graph.node_mut(all) = single(*queue);
            ids.push(all);
        } else {
            ids.push(graph.add(single(*queue)));
        }
    }
    let sources: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in sources {
        for port in &mut graph.node_mut(id).ports {
            if port.targets.contains(&all) {
                port.targets.retain(|t| *t != all);
                let chosen = CHOOSING.contains(&port.name.as_str());
                let at = queues.iter().position(|q| *q == default);
                port.targets.extend(at.filter(|_| !chosen).map_or(&ids[..], |at| &ids[at..=at]));
            }
        }
    }
    graph
}

/// The node of `queue` in a graph with one for each.
fn node_of(graph: &Graph, queue: u32) -> Option<NodeId> {
    let is = |n: &Node| n.queues.is_some_and(|q| q.all.lo == queue && q.all.hi == queue);
    graph.iter().find(|(_, n)| is(n)).map(|(id, _)| id)
}
