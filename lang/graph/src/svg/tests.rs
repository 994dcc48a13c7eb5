//! The properties that every picture must have.

use proptest::prelude::*;

use super::*;
use crate::testkit::{add, add_kind, add_op};
use crate::{Attr, ConfigSpec, Edge, Graph, Node, NodeId, NodeKind, Op, Port, TableSpec};

fn edge(label: &str, target: NodeId) -> Edge {
    Edge { label: label.into(), target, predicates: Vec::new() }
}

/// A little of everything.
fn example() -> Graph {
    let mut g = Graph::new("a <small> graph");
    let sink = add(&mut g, "TxQueue", &[]);
    let start = add(&mut g, "TxStart", &[("out", &[sink])]);
    let table = add_kind(
        &mut g,
        "RxSockets",
        NodeKind::Table(TableSpec::default()),
        &[("hit", &[]), ("miss", &[])],
    );
    let config = add_kind(&mut g, "RxFilter", NodeKind::Config(ConfigSpec::default()), &[]);
    let and = add_op(&mut g, "RxValid", Op::And, &[("false", &[]), ("true", &[table, config])]);
    let long = add(&mut g, "RxLength", &[("false", &[and]), ("true", &[and])]);
    let sum = add(&mut g, "RxSum", &[("false", &[and]), ("true", &[and])]);
    let queue = add(&mut g, "RxQueue", &[("out", &[long, sum])]);
    for (id, node) in [(sink, "Tx"), (start, "Tx")] {
        g.node_mut(id).clusters = vec![node.into()];
    }
    for id in [table, config, and, long, sum, queue] {
        g.node_mut(id).clusters = vec!["Rx".into()];
    }
    g.node_mut(queue).attrs.push(Attr::Source);
    g.node_mut(sink).attrs.push(Attr::Sink);
    g.node_mut(table).attrs.push(Attr::parse("drop miss: no socket"));
    g.node_mut(table).spawns = vec![edge("reply", start), edge("again", table)];
    g.node_mut(table).notifies = vec![edge("found", config)];
    g
}

fn overlap(a: Rect, b: Rect) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

fn holds(outer: Rect, inner: Rect) -> bool {
    outer.x <= inner.x
        && outer.y <= inner.y
        && inner.x + inner.width <= outer.x + outer.width
        && inner.y + inner.height <= outer.y + outer.height
}

/// Boxes nest as clusters do and overlap nowhere else; edges end at their nodes; edges that go round
/// nodes go through none; everything is within the picture.
fn check(graph: &Graph) {
    let layout = layout(graph, &Extras::default());
    let whole = Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
    let path_of = |id: usize| &graph.node(NodeId(id as u32)).clusters;
    for (i, a) in layout.nodes.iter().enumerate() {
        assert!(holds(whole, *a), "node {i} is outside");
        for b in &layout.nodes[..i] {
            assert!(!overlap(*a, *b), "node {i} is on another: {a:?} {b:?}");
        }
    }
    let frames: Vec<(Vec<String>, Rect)> = framed(graph, &layout);
    for (path, frame) in &frames {
        assert!(holds(whole, *frame));
        for (i, node) in layout.nodes.iter().enumerate() {
            let inside = path_of(i).starts_with(path);
            assert_eq!(holds(*frame, *node), inside, "node {i} and {path:?}");
            assert_eq!(overlap(*frame, *node), inside, "node {i} and {path:?}");
        }
        for (other, inner) in &frames {
            let related = other.starts_with(path) || path.starts_with(other);
            assert_eq!(overlap(*frame, *inner), related, "{path:?} and {other:?}");
            assert_eq!(holds(*frame, *inner), other.starts_with(path), "{path:?}, {other:?}");
        }
    }
    for route in &layout.routes {
        check_route(&layout, route);
    }
}

fn framed(graph: &Graph, layout: &Layout) -> Vec<(Vec<String>, Rect)> {
    // Clusters in the order in which nodes name them, as the picture has them.
    let mut paths: Vec<Vec<String>> = Vec::new();
    for (_, node) in graph.iter() {
        for depth in 1..=node.clusters.len() {
            let path = node.clusters[..depth].to_vec();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    assert_eq!(paths.len(), layout.clusters().count());
    let names = layout.clusters().zip(&paths);
    names.for_each(|((name, _), path)| assert_eq!(Some(name), path.last().map(String::as_str)));
    paths.into_iter().zip(layout.clusters().map(|(_, rect)| rect)).collect()
}

fn check_route(layout: &Layout, route: &Route) {
    let (from, to) = (layout.nodes[route.from.index()], layout.nodes[route.to.index()]);
    let (first, last) = (route.points[0], route.points[route.points.len() - 1]);
    let on = |p: Point, y: f64, node: Rect| {
        (p.y - y).abs() < 0.01 && p.x >= node.x && p.x <= node.x + node.width
    };
    assert!(on(first, from.y + from.height, from), "{route:?} does not start at {from:?}");
    assert!(on(last, to.y, to), "{route:?} does not end at {to:?}");
    if route.behind {
        return;
    }
    for pair in route.points.windows(2) {
        assert!(pair[0].y <= pair[1].y + 0.01, "{route:?} goes up");
        let (left, right) = (pair[0].x.min(pair[1].x), pair[0].x.max(pair[1].x));
        for node in &layout.nodes {
            let crosses = pair[0].y < node.y + node.height - 0.1
                && pair[1].y > node.y + 0.1
                && left < node.x + node.width
                && right > node.x;
            assert!(!crosses, "{route:?} goes through {node:?}");
        }
    }
}

#[test]
fn a_small_graph_is_drawn_whole() {
    let graph = example();
    check(&graph);
    let text = svg(&graph);
    for part in [
        "<title>a &lt;small&gt; graph</title>",
        "RxQueue: source",
        "TxQueue: sink",
        "drop: no socket",
        "RxValid.true → RxSockets",
        "spawns reply",
        "notifies found",
        "prefers-color-scheme:dark",
        ">AND</text>",
        "table, 0 entries",
        "no value yet",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn the_same_graph_gives_the_same_picture() {
    assert_eq!(svg(&example()), svg(&example()));
    // The places of all elements, whatever the colours. After an intended change: look at the picture,
    // then write down the new places.
    let layout = layout(&example(), &Extras::default());
    let rows: Vec<Vec<&str>> = rows(&layout);
    assert_eq!(
        rows,
        [
            &["TxStart", "RxQueue"][..],
            &["TxQueue"],
            &["RxLength", "RxSum"],
            &["RxValid"],
            &["RxSockets", "RxFilter"]
        ]
    );
}

/// Names by height, each row from left to right.
fn rows(layout: &Layout) -> Vec<Vec<&'static str>> {
    const NAMES: [&str; 8] =
        ["TxQueue", "TxStart", "RxSockets", "RxFilter", "RxValid", "RxLength", "RxSum", "RxQueue"];
    let mut placed: Vec<(i64, i64, &str)> =
        layout.nodes.iter().zip(NAMES).map(|(r, n)| (r.y as i64, r.x as i64, n)).collect();
    placed.sort_unstable();
    let rows = placed.chunk_by(|a, b| a.0 == b.0);
    rows.map(|row| row.iter().map(|(_, _, name)| *name).collect()).collect()
}

#[test]
fn counters_make_lines_wider_and_what_is_idle_pale() {
    let port = |p: PortId| (p.node.0 == 7).then_some(1_000_000);
    let node = |id: NodeId| (id.0 == 7).then_some(1_000_000);
    let spawn = |_: NodeId, edge: usize| (edge == 0).then_some(10);
    let extras =
        Extras { node: Some(&node), port: Some(&port), spawn: Some(&spawn), ..Extras::default() };
    let text = svg_with(&example(), &extras);
    assert!(text.contains("1.00M packets") && text.contains("stroke-width:6.7"), "{text}");
    assert!(text.contains("stroke-width:2.2"), "{text}");
    assert!(text.contains("class=\"e t i\""), "{text}");
    assert!(!svg(&example()).contains("class=\"e t i\""));
}

#[test]
fn nothing_and_little_can_be_drawn() {
    check(&Graph::new(""));
    let mut one = Graph::new("one");
    let id = add(&mut one, "", &[]);
    one.node_mut(id).spawns.push(edge("again", id));
    check(&one);
    assert!(svg(&one).ends_with("</svg>\n"));
}

#[test]
fn clusters_that_lead_to_each_other_are_drawn() {
    let mut g = Graph::new("cycle");
    let last = add(&mut g, "A2", &[]);
    let middle = add(&mut g, "B", &[("out", &[last])]);
    let first = add(&mut g, "A1", &[("out", &[middle])]);
    for (id, cluster) in [(last, "A"), (middle, "B"), (first, "A")] {
        g.node_mut(id).clusters = vec![cluster.into()];
    }
    check(&g);
    let layout = layout(&g, &Extras::default());
    assert_eq!(layout.routes.iter().filter(|route| route.behind).count(), 1);
}

#[test]
fn a_thousand_nodes_are_no_burden() {
    let mut g = Graph::new("large");
    for i in 0..1000u32 {
        let mut node = Node::new(format!("n{i}"), NodeKind::Function);
        node.clusters = vec![format!("c{}", i / 40), format!("d{}", i / 8)];
        for p in 1..4 {
            let target = i + p * p + i % 7;
            let targets = if target < 1000 { vec![NodeId(target)] } else { vec![] };
            node.ports.push(Port { name: format!("p{p}"), targets, ..Port::default() });
        }
        g.add(node);
    }
    check(&g);
}

/// A random node: cluster path, kind, steps to the targets of two ports, target of a spawn edge.
type Plan = (Vec<u8>, bool, Vec<usize>, Vec<usize>, Option<usize>);

fn plan() -> impl Strategy<Value = Plan> {
    (
        prop::collection::vec(0u8..3, 0..3),
        any::<bool>(),
        prop::collection::vec(1usize..9, 0..4),
        prop::collection::vec(1usize..9, 0..4),
        prop::option::weighted(0.2, 0usize..40),
    )
}

fn random(plans: &[Plan]) -> Graph {
    let mut g = Graph::new("random");
    let id = |i: usize| NodeId((i % plans.len()) as u32);
    for (i, (path, operator, yes, no, spawn)) in plans.iter().enumerate() {
        let kind = if *operator { NodeKind::Operator(Op::Or) } else { NodeKind::Function };
        let mut node = Node::new(format!("n{i}"), kind);
        node.clusters = path.iter().map(|c| format!("c{c}")).collect();
        for (name, steps) in [("false", no), ("true", yes)] {
            let targets = steps.iter().map(|s| i + s).filter(|t| *t < plans.len()).map(id);
            let targets = targets.collect();
            node.ports.push(Port { name: name.into(), targets, ..Port::default() });
        }
        node.spawns.extend(spawn.map(|target| edge("later", id(target))));
        g.add(node);
    }
    g
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_graph_is_drawn_without_overlaps(plans in prop::collection::vec(plan(), 1..40)) {
        let graph = random(&plans);
        check(&graph);
        prop_assert!(!svg(&graph).contains("NaN"));
    }
}
