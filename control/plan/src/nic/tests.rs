use weever_graph::nic::{
    Actions, Capacity, Ethtool, Exposure, Failure, FieldMatch, FlowType, Granularity, Location,
    MaskScope, QueueRange, Queues, RssHash, RssModel, TableModel, TableOrder,
};
use weever_graph::nic::{FormsByType, KnownForms};
use weever_graph::{Attr, ConfigSpec, Field, Graph, Node, NodeId, NodeKind, Port};

use super::*;

fn table() -> TableModel {
    let ethtool = Ethtool {
        flow_types: vec![FlowType::Udp4],
        matches: Vec::new(),
        location: Location::Any,
        limit: Some(2),
        locations: None,
        drop: false,
        context: false,
    };
    TableModel {
        matches: vec![FieldMatch { field: Field::L4Dst, granularity: Granularity::Whole }],
        flow_types: vec![FlowType::Udp4],
        without: Vec::new(),
        forms: KnownForms::ALL,
        unclaimed: FormsByType::default(),
        mask_scope: MaskScope::Rule,
        capacity: Capacity { entries: 16, shared_with: None, costs: Vec::new() },
        order: TableOrder::Insertion,
        fails: Failure::Never,
        actions: Actions { queues: Some(QueueRange { lo: 0, hi: 7 }), ..Actions::default() },
        linux: Exposure::Ethtool(ethtool),
    }
}

fn port(name: &str, targets: &[NodeId]) -> Port {
    Port { name: name.into(), targets: targets.to_vec(), ..Port::default() }
}

fn node(graph: &mut Graph, name: &str, spec: ConfigSpec, ports: Vec<Port>) -> NodeId {
    graph.add(Node { ports, ..Node::new(name, NodeKind::Config(spec)) })
}

fn with_table(table: TableModel) -> ConfigSpec {
    ConfigSpec { table: Some(Box::new(table)), ..ConfigSpec::default() }
}

fn rss() -> ConfigSpec {
    let queues = QueueRange { lo: 0, hi: 3 };
    let hash = RssHash::Toeplitz { key_len: 40, symmetric: false };
    let rss =
        RssModel { hash, entries: 128, unhashed: None, queues, types: Vec::new(), contexts: 0 };
    ConfigSpec { rss: Some(Box::new(rss)), ..ConfigSpec::default() }
}

/// `in → A → B → Rss → Queue`, and ids of A, B, Rss and Queue.
fn example(a: TableModel, b: TableModel) -> (Graph, [NodeId; 4]) {
    let mut g = Graph::new("nic");
    let mut queue = Node::new("Queue", NodeKind::Function);
    let linux = Some(QueueRange { lo: 0, hi: 5 });
    queue.queues = Some(Queues { all: QueueRange { lo: 0, hi: 7 }, linux });
    let queue = g.add(queue);
    let rss = node(&mut g, "Rss", rss(), vec![port("queues", &[queue])]);
    let ports = vec![port("queues", &[queue]), port("default", &[rss])];
    let b = node(&mut g, "B", with_table(b), ports);
    let ports = vec![port("default", &[b]), port("queues", &[queue]), port("drop", &[])];
    let a = node(&mut g, "A", with_table(a), ports);
    let mut source = Node::new("in", NodeKind::Function);
    source.attrs.push(Attr::Source);
    source.ports.push(port("out", &[a]));
    g.add(source);
    (g, [a, b, rss, queue])
}

fn shared(with: &str) -> TableModel {
    let mut table = table();
    table.capacity.shared_with = Some(with.into());
    table
}

fn refused(change: impl Fn(&mut Graph, [NodeId; 4])) -> String {
    let (mut graph, ids) = example(table(), table());
    change(&mut graph, ids);
    Nic::of(&graph).unwrap_err().to_string()
}

#[test]
fn a_pipeline_is_read_in_order() {
    let nic = Nic::of(&example(table(), shared("A")).0).unwrap();
    let names: Vec<_> = nic.tables.iter().map(|t| (t.name.as_str(), t.pool)).collect();
    assert_eq!(names, [("A", 0), ("B", 0)]);
    assert_eq!((nic.queues.count(), nic.default_queue), (8, 0));
    assert_eq!(nic.rss.unwrap().entries, 128);
}

#[test]
fn what_is_no_pipeline_is_an_error_that_names_the_node() {
    let said = refused(|g, [.., queue]| g.node_mut(queue).queues = None);
    assert!(said.contains("`nic` declares no queues"), "{said}");
    let said = refused(|g, [a, ..]| g.node_mut(a).attrs.push(Attr::Source));
    assert!(said.contains("`A` and `in` are both marked"), "{said}");
    let said = refused(|g, [a, ..]| g.node_mut(a).kind = NodeKind::Function);
    assert!(said.contains("`A` does not fit the pipeline"), "{said}");
    let said = refused(|g, [_, b, ..]| drop(g.node_mut(b).ports.pop()));
    assert!(said.contains("`B`") && said.contains("no port `default`"), "{said}");
    let said = refused(|g, [a, b, ..]| g.node_mut(b).ports[1].targets = vec![a]);
    assert!(said.contains("in a circle"), "{said}");
    let said = refused(|g, [a, b, ..]| g.node_mut(a).ports[1].targets = vec![b]);
    assert!(said.contains("does not lead to `Queue`"), "{said}");
    let said = refused(|g, [a, b, ..]| g.node_mut(a).ports[0].targets = vec![a, b]);
    assert!(said.contains("leads to 2 nodes"), "{said}");
    let said = refused(|g, [a, ..]| g.node_mut(a).ports[2].name = "odd".into());
    assert!(said.contains("its port `odd`"), "{said}");
}

#[test]
fn impossible_tables_are_named() {
    let mut empty = table();
    empty.capacity.entries = 0;
    let said = Nic::of(&example(table(), empty).0).unwrap_err().to_string();
    assert!(said.contains("`B` is impossible"), "{said}");
    let said = Nic::of(&example(table(), shared("C")).0).unwrap_err().to_string();
    assert!(said.contains("shares its capacity with `C`"), "{said}");
}

#[test]
fn tables_that_share_in_a_circle_have_one_pool() {
    let nic = Nic::of(&example(shared("B"), shared("A")).0).unwrap();
    assert_eq!(nic.tables.iter().map(|t| t.pool).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn linux_hides_tables_and_queues() {
    let mut hidden = table();
    hidden.linux = Exposure::None;
    let (graph, _) = example(hidden, table());
    let nic = Nic::linux_of(&graph).unwrap();
    assert_eq!(nic.tables.len(), 1);
    assert_eq!((nic.tables[0].name.as_str(), nic.tables[0].pool), ("B", 0));
    assert_eq!((nic.capacity(0), nic.queues.hi), (2, 5));
    assert_eq!(nic.tables[0].model.actions.queues, Some(QueueRange { lo: 0, hi: 5 }));
}

#[test]
fn fewer_queues_narrow_actions_and_spreading() {
    let nic = Nic::of(&example(table(), table()).0).unwrap();
    let two = nic.with_queues(2).unwrap();
    let narrow = QueueRange { lo: 0, hi: 1 };
    assert_eq!(two.tables[1].model.actions.queues, Some(narrow));
    assert_eq!(two.rss.unwrap().queues, narrow);
    assert!(nic.with_queues(9).unwrap_err().to_string().contains("has 8 queues, not 9"));
    assert!(nic.with_queues(0).is_err());
}
