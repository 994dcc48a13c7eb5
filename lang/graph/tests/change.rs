//! Change sets: `diff` finds one, `apply` carries it out, and a step that is wrong changes nothing.

use proptest::prelude::*;
use weever_graph::change::{Change, EdgeName, Handover, Outlet, Waiting};
use weever_graph::{
    Attr, ChangeError, ChangeSet, Edge, Graph, Node, NodeId, NodeKind, Op, Port, Span, apply, diff,
};

#[derive(Clone, Debug)]
struct Plan {
    present: bool,
    kind: u8,
    attrs: Vec<u8>,
    edges: Vec<(u8, u8)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let edges = prop::collection::vec((0..6u8, any::<u8>()), 0..5);
    let attrs = prop::collection::vec(0..8u8, 0..4);
    (prop::bool::weighted(0.7), 0..4u8, attrs, edges)
        .prop_map(|(present, kind, attrs, edges)| Plan { present, kind, attrs, edges })
}

/// Any graph, sound or not: changes are about names.
fn graph(name: &str, plans: &[Plan]) -> Graph {
    let present: Vec<usize> = (0..plans.len()).filter(|i| plans[*i].present).collect();
    let mut graph = Graph::new(name);
    for (place, i) in present.iter().enumerate() {
        let plan = &plans[*i];
        let (kind, ports): (_, &[&str]) = match plan.kind {
            0 => (NodeKind::Operator(Op::And), &["false", "true"]),
            1 => (NodeKind::Function, &["false", "true"]),
            2 => (NodeKind::Function, &["out"]),
            _ => (NodeKind::Function, &["x", "y", "out"]),
        };
        let mut node = Node::new(format!("n{i}"), kind);
        node.span = Span { start: place as u32, end: 99 };
        node.attrs = plan.attrs.iter().map(attr).collect();
        node.ports = ports.iter().map(|p| Port { name: (*p).into(), ..Port::default() }).collect();
        for (at, to) in &plan.edges {
            let target = NodeId(u32::from(*to) % present.len() as u32);
            let edge = Edge { label: format!("e{at}"), target, predicates: Vec::new() };
            let known = |edges: &[Edge]| edges.contains(&edge);
            match at {
                4 if !known(&node.spawns) => node.spawns.push(edge),
                5 if !known(&node.notifies) => node.notifies.push(edge),
                _ => {
                    let port = *at as usize % node.ports.len();
                    let targets = &mut node.ports[port].targets;
                    if !targets.contains(&target) {
                        targets.push(target);
                    }
                }
            }
        }
        graph.add(node);
    }
    graph
}

fn attr(n: &u8) -> Attr {
    match n {
        0 => Attr::Source,
        1 => Attr::Drop { port: "out".into(), reason: "because".into() },
        n => Attr::Param { key: format!("k{}", n % 3), value: format!("{n}") },
    }
}

/// Nodes and edges in an order of their own, without places in the source.
fn canonical(graph: &Graph) -> String {
    let name = |id: NodeId| graph.node(id).name.clone();
    let mut nodes: Vec<String> = graph
        .iter()
        .map(|(_, node)| {
            let mut edges = Vec::new();
            for port in &node.ports {
                edges.extend(port.targets.iter().map(|t| format!("{}>{}", port.name, name(*t))));
            }
            edges.extend(node.spawns.iter().map(|e| format!("s{}>{}", e.label, name(e.target))));
            edges.extend(node.notifies.iter().map(|e| format!("n{}>{}", e.label, name(e.target))));
            edges.sort();
            let ports: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
            format!("{} {:?} {:?} {ports:?} {edges:?}", node.name, node.kind, node.attrs)
        })
        .collect();
    nodes.sort();
    format!("{} {:?} {nodes:#?}", graph.name, graph.helpers)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_differs_is_what_has_to_be_done(
        a in prop::collection::vec(plan(), 1..10),
        b in prop::collection::vec(plan(), 1..10),
    ) {
        let (a, b) = (graph("g", &a), graph("h", &b));
        let changed = apply(&a, &diff(&a, &b)).expect("a difference can be applied");
        prop_assert_eq!(canonical(&changed), canonical(&b));
        prop_assert!(diff(&changed, &b).is_empty());
        prop_assert!(diff(&a, &a).is_empty());
    }
}

fn node(name: &str, ports: &[&str]) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.ports = ports.iter().map(|p| Port { name: (*p).into(), ..Port::default() }).collect();
    node
}

fn two() -> Graph {
    let mut g = Graph::new("two");
    let b = g.add(node("Last", &[]));
    let mut first = node("First", &["out"]);
    first.ports[0].targets.push(b);
    g.add(first);
    g
}

fn out(from: &str, to: &str) -> EdgeName {
    EdgeName::new(from, Outlet::port("out"), to)
}

#[test]
fn a_node_is_put_into_an_edge() {
    let capture = node("Capture", &["out"]);
    let g = apply(&two(), &ChangeSet::new().splice(capture, "out", out("First", "Last"))).unwrap();
    let edges: Vec<String> =
        g.dataflow().map(|(p, t)| format!("{}>{}", g.node(p.node).name, g.node(t).name)).collect();
    assert_eq!(edges, ["First>Capture", "Capture>Last"]);
    let back =
        ChangeSet::new().remove("Capture", Waiting::To("Last".into())).bind(out("First", "Last"));
    assert_eq!(canonical(&apply(&g, &back).unwrap()), canonical(&two()));
}

#[test]
fn replacing_keeps_the_edges_of_ports_that_stay() {
    let mut other = node("First", &["late", "out"]);
    other.implementation = Some("Other".into());
    let g = apply(&two(), &ChangeSet::new().replace(other, Handover::Keep)).unwrap();
    let first = g.node(g.find("First").unwrap());
    assert_eq!(first.implementation_name(), "Other");
    assert_eq!(first.ports[1].targets.len(), 1);
    let set = ChangeSet::new().set("First", "rate", "7").set("First", "rate", "8");
    let g = apply(&g, &set).unwrap();
    assert_eq!(g.node(g.find("First").unwrap()).param("rate"), Some("8"));
}

/// Tasks that wait at a renamed node go on there, if it is certain which one that is.
#[test]
fn tasks_of_a_node_that_is_renamed_go_with_it() {
    let graph = |names: &[&str], implementation: &str| {
        let mut graph = Graph::new("g");
        let first = graph.add(node("First", &["out"]));
        for name in names {
            let mut one = node(name, &[]);
            one.implementation = Some(implementation.into());
            let target = graph.add(one);
            let edge = Edge { label: (*name).into(), target, predicates: Vec::new() };
            graph.node_mut(first).spawns.push(edge);
        }
        graph
    };
    let waiting = |old: &Graph, new: &Graph| -> Vec<(String, Waiting)> {
        let changes = diff(old, new).changes.into_iter();
        let removed = changes.filter_map(|change| match change {
            Change::Remove { node, waiting } => Some((node, waiting)),
            _ => None,
        });
        removed.collect()
    };
    let to = |from: &str, to: &str| vec![(from.to_owned(), Waiting::To(to.into()))];
    let dropped = |from: &str| (from.to_owned(), Waiting::Drop);
    let one = graph(&["Old"], "Lookup");
    assert_eq!(waiting(&one, &graph(&["New"], "Lookup")), to("Old", "New"));
    assert_eq!(waiting(&one, &graph(&["New"], "Other")), [dropped("Old")]);
    assert_eq!(waiting(&one, &graph(&["New", "Newer"], "Lookup")), [dropped("Old")]);
    let two = graph(&["Old", "Older"], "Lookup");
    assert_eq!(waiting(&two, &graph(&["New"], "Lookup")), [dropped("Old"), dropped("Older")]);
    // A node that stays inherits no tasks.
    assert_eq!(waiting(&two, &graph(&["Old"], "Lookup")), [dropped("Older")]);
    let next = graph(&["New"], "Lookup");
    assert_eq!(diff(&apply(&one, &diff(&one, &next)).unwrap(), &next), ChangeSet::new());
}

#[test]
fn a_step_that_is_wrong_names_the_node() {
    let set = |f: fn(ChangeSet) -> ChangeSet| apply(&two(), &f(ChangeSet::new())).unwrap_err();
    let text = |f| set(f).to_string();
    assert!(text(|c| c.remove("first", Waiting::Drop)).contains("did you mean `First`?"));
    assert!(text(|c| c.insert(node("Last", &[]))).contains("`Last` already"));
    assert!(text(|c| c.bind(out("First", "Last"))).contains("`First.out` → `Last`"));
    assert!(text(|c| c.unbind(out("First", "First"))).contains("no edge"));
    assert!(
        text(|c| c.bind(out("Last", "First"))).contains("`Last` has no port `out`; it has none")
    );
    let spawn = |c: ChangeSet| {
        let edge = EdgeName::new("First", Outlet::spawn("x"), "Last");
        c.splice(node("Capture", &["out"]), "out", edge)
    };
    assert!(matches!(set(spawn), ChangeError::NotDataflow { .. }));
    let gone =
        |c: ChangeSet| c.remove("First", Waiting::To("Last".into())).remove("Last", Waiting::Drop);
    assert!(text(gone).contains("cannot go to `Last`"));
}
