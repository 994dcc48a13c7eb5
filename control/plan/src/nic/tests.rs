use weever_graph::nic::{
    Actions, Capacity, Ethtool, Exposure, Failure, FieldMatch, FlowType, Granularity, Location,
    MaskScope, QueueRange, Queues, RssHash, RssModel, TableModel, TableOrder,
};
use weever_graph::nic::{FeatureModel, Work};
use weever_graph::nic::{FormsByType, KnownForms};
use weever_graph::{
    Attr, ConfigSpec, Effects, Field, Graph, Key, Node, NodeId, NodeKind, Port, Predicate,
};

use super::*;
use crate::config::{Configuration, Rule, Target};

fn table() -> TableModel {
    let ethtool = Ethtool {
        flow_types: vec![FlowType::Udp4],
        matches: Vec::new(),
        location: Location::Any,
        limit: Some(2),
        locations: None,
        drop: false,
        context: false,
        context_types: Vec::new(),
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

fn right(what: &str) -> Predicate {
    Predicate::Atom { label: format!("{what}.checksum"), value: "right".into() }
}

fn feature(starts_on: bool, work: Vec<Work>) -> ConfigSpec {
    let ethtool = vec!["some-feature".into()];
    let model = FeatureModel { ethtool, starts_on, work };
    ConfigSpec { feature: Some(Box::new(model)), ..ConfigSpec::default() }
}

/// Puts a feature in front of the table at `at`.
fn before(graph: &mut Graph, at: NodeId, name: &str, spec: ConfigSpec) {
    let id = node(graph, name, spec, vec![port("out", &[at])]);
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).filter(|n| *n != id).collect();
    for node in ids {
        for port in &mut graph.node_mut(node).ports {
            port.targets.iter_mut().filter(|t| **t == at).for_each(|t| *t = id);
        }
    }
}

/// A send side with one feature.
fn sending(graph: &mut Graph, spec: ConfigSpec) {
    let mut sink = Node::new("TxOut", NodeKind::Function);
    sink.attrs.push(Attr::Sink);
    let sink = graph.add(sink);
    let first = node(graph, "TxChecksum", spec, vec![port("out", &[sink])]);
    let mut start = Node::new("TxQueue", NodeKind::Function);
    start.attrs.push(Attr::parse("sends=0 .. 3"));
    start.ports.push(port("out", &[first]));
    graph.add(start);
}

#[test]
fn features_stand_anywhere_on_both_ways() {
    let (mut graph, [a, b, ..]) = example(table(), table());
    let vouches = Work::Vouches { always: false, predicate: right("udp") };
    before(&mut graph, a, "RxChecksum", feature(true, vec![vouches]));
    before(&mut graph, b, "RxTag", feature(true, vec![Work::Takes(Field::VlanId)]));
    sending(&mut graph, feature(false, vec![Work::Fills(right("udp"))]));
    let nic = Nic::of(&graph).unwrap();
    let seen: Vec<_> = nic.features.iter().map(|f| (&*f.name, f.side, f.behind)).collect();
    let receive = [("RxChecksum", Side::Receive, 0), ("RxTag", Side::Receive, 1)];
    assert_eq!(seen[..2], receive);
    assert_eq!(seen[2], ("TxChecksum", Side::Send, 2));
    assert_eq!(nic.sends, Some(QueueRange { lo: 0, hi: 3 }));
    assert_eq!(nic.tables.len(), 2);

    let vouched = nic.vouched(&[]);
    assert_eq!((vouched.each, vouched.filled), (vec![right("udp")], Vec::new()));
    // The send feature starts off; a graph with a node that does its work has it switched on.
    let mut lpg = Graph::new("host");
    let mut fill = Node::new("Fill", NodeKind::Function);
    fill.ports.push(Port { predicate: right("udp"), ..port("out", &[]) });
    assert!(nic.useful(&lpg).is_empty());
    fill.attrs.push(Attr::Offload);
    // A node that checks it on receipt has no use for it.
    let check = Node { name: "Check".into(), effects: Some(Effects::READS), ..fill.clone() };
    lpg.add(check);
    assert!(nic.useful(&lpg).is_empty());
    let used = nic.used(&lpg);
    assert_eq!((used.len(), &*used[0].feature), (1, "RxChecksum"));
    fill.effects = Some(Effects::READS.union(Effects::WRITES));
    lpg.add(fill);
    let useful = nic.useful(&lpg);
    assert_eq!((useful.len(), &*useful[0].feature, useful[0].on), (1, "TxChecksum", true));
    assert_eq!(nic.vouched(&useful).filled, [right("udp")]);

    // A plan asks for it only where the model says that its switch disturbs nothing.
    let name = useful[0].names[0].clone();
    for (fact, is_wanted) in [(None, false), (Some("resets"), false), (Some("nothing"), true)] {
        let mut nic = nic.clone();
        nic.disturbances = fact
            .map(|effect| Disturbance::parse(&format!("{name}: {effect} (f)")).unwrap())
            .into_iter()
            .collect();
        let settings = nic.with_useful(&lpg).settings(&Configuration::default());
        let wanted = if is_wanted { useful.clone() } else { Vec::new() };
        assert_eq!(settings, wanted, "{fact:?}");
    }
}

#[test]
fn facts_about_a_setting_are_given_once_and_in_known_words() {
    let said = |facts: &[&str]| {
        let (mut graph, _) = example(table(), table());
        let source = graph.iter().find(|(_, node)| node.has(&Attr::Source)).unwrap().0;
        let attrs = facts.iter().map(|fact| Attr::parse(&format!("disturbs {fact}")));
        graph.node_mut(source).attrs.extend(attrs);
        Nic::of(&graph).map(|nic| nic.disturbances.len()).map_err(|e| e.to_string())
    };
    assert_eq!(said(&["queues: resets (f)", "rings: nothing (g)"]), Ok(2));
    let twice = said(&["queues: resets (f)", "queues: nothing (g)"]).unwrap_err();
    assert!(twice.contains("says twice what `-L` disturbs"), "{twice}");
    let unknown = said(&["queues: explodes (f)"]).unwrap_err();
    assert!(unknown.contains("`explodes` is no effect"), "{unknown}");
}

#[test]
fn a_feature_that_hides_what_rules_test_is_switched_off() {
    let mut tagged = table();
    let field = FieldMatch { field: Field::VlanId, granularity: Granularity::Whole };
    tagged.matches = vec![field];
    let (mut graph, [a, b, ..]) = example(tagged.clone(), tagged);
    before(&mut graph, b, "RxTag", feature(true, vec![Work::Takes(Field::VlanId)]));
    let nic = Nic::of(&graph).unwrap();
    let rule = |mask| Rule {
        flow_type: Some(FlowType::Udp4),
        keys: vec![Key { mask, value: 0 }],
        target: Target::Queue(0),
        priority: 0,
        location: 0,
    };
    let with = |rules| Configuration { rules, ..Configuration::default() };
    let settings = |rules| nic.settings(&with(rules));
    // The first table stands in front of it.
    assert!(settings(vec![vec![rule(0xfff)], vec![rule(0)]]).is_empty());
    let off = settings(vec![vec![], vec![rule(0xfff)]]);
    assert_eq!((off.len(), off[0].on, &*off[0].names[0]), (1, false, "some-feature"));
    // Where Linux hides the first table, the second is the first.
    graph.node_mut(a).kind =
        NodeKind::Config(with_table(TableModel { linux: Exposure::None, ..table() }));
    let shown = Nic::of(&graph).unwrap().linux();
    assert_eq!((shown.tables.len(), shown.features[0].behind), (1, 0));
    assert_eq!(shown.settings(&with(vec![vec![rule(0xfff)]])), off);
}

#[test]
fn features_of_the_other_side_and_odd_send_sides_are_named() {
    let send = |spec: fn() -> ConfigSpec| refused(move |g, _| sending(g, spec()));
    let said = send(|| feature(true, vec![Work::Takes(Field::VlanId)]));
    assert!(said.contains("`TxChecksum`") && said.contains("`takes`"), "{said}");
    let said =
        refused(|g, [a, ..]| before(g, a, "F", feature(true, vec![Work::Fills(right("udp"))])));
    assert!(said.contains("`F`") && said.contains("`fills` is for the side that sends"), "{said}");
    let said = refused(|g, [a, ..]| before(g, a, "F", feature(true, Vec::new())));
    assert!(said.contains("the feature does nothing"), "{said}");
    let stamps = || feature(true, vec![Work::Stamps]);
    for range in ["", "3 .. 0", "some"] {
        let said = refused(|g, _| {
            sending(g, stamps());
            let start = g.find("TxQueue").unwrap();
            g.node_mut(start).attrs = vec![Attr::parse(&format!("sends={range}"))];
        });
        assert!(said.contains("is no range of queues"), "{said}");
    }
    let said = refused(|g, _| {
        sending(g, stamps());
        let (first, sink) = (g.find("TxChecksum").unwrap(), g.find("TxOut").unwrap());
        g.node_mut(first).ports[0].targets = vec![first];
        g.node_mut(sink).attrs.clear();
    });
    assert!(said.contains("in a circle"), "{said}");
}
