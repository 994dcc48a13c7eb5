//! Small graphs, simplified.

use weever_graph::{
    Attr, Effects, Field, Graph, Node, NodeId, NodeKind, Op, Port, Predicate, Verified, verify,
};

use super::{ForeignPackets, HandOver, QueueFacts, Simplified, simplify};
use crate::flow::Conj;

const READS: Effects = Effects::READS;

fn atom(label: &str, holds: bool) -> Predicate {
    let atom = Predicate::Atom { label: label.into(), value: "yes".into() };
    if holds { atom } else { Predicate::Not(Box::new(atom)) }
}

fn add(
    graph: &mut Graph,
    name: &str,
    effects: Effects,
    ports: &[(&str, Predicate, &[NodeId])],
) -> NodeId {
    let mut node = Node::new(name, NodeKind::Function);
    node.effects = Some(effects);
    for (name, predicate, targets) in ports {
        let (name, predicate) = ((*name).into(), predicate.clone());
        node.ports.push(Port { name, predicate, targets: targets.to_vec(), ..Port::default() });
    }
    graph.add(node)
}

fn validator(graph: &mut Graph, name: &str, effects: Effects, to: NodeId) -> NodeId {
    let ports = [("false", atom(name, false), &[to][..]), ("true", atom(name, true), &[to])];
    add(graph, name, effects, &ports)
}

/// in → classify → (ip: length, sum → both → take | arp: answer)
fn host() -> Verified {
    let mut graph = Graph::new("host");
    let consumes = READS.union(Effects::CONSUMES);
    let take = add(&mut graph, "take", consumes, &[]);
    let answer = add(&mut graph, "answer", consumes, &[]);
    let mut both = Node::new("both", NodeKind::Operator(Op::And));
    for (name, targets) in [("false", vec![]), ("true", vec![take])] {
        both.ports.push(Port { name: name.into(), targets, ..Port::default() });
    }
    both.attrs.push(Attr::Drop { port: "false".into(), reason: "not sound".into() });
    let both = graph.add(both);
    let length = validator(&mut graph, "length", READS, both);
    let sum = validator(&mut graph, "sum", READS.union(Effects::MARKS), both);
    graph.node_mut(sum).attrs.push(Attr::Offload);
    let is = |value| Predicate::eq(Field::EthType, value);
    let other = Predicate::Not(Box::new(Predicate::Or(vec![is(0x0800), is(0x0806)])));
    let ports = [
        ("ip", is(0x0800), &[length, sum][..]),
        ("arp", is(0x0806), &[answer]),
        ("no", other, &[]),
    ];
    let classify = add(&mut graph, "classify", READS, &ports);
    let source = add(&mut graph, "in", READS, &[("out", Predicate::True, &[classify])]);
    graph.node_mut(source).attrs.push(Attr::Source);
    verify(graph).unwrap()
}

fn simplified(arriving: &[Conj], vouched: &Predicate, foreign: ForeignPackets) -> Simplified {
    let simplified =
        simplify(&host(), &QueueFacts { foreign, ..QueueFacts::of(arriving, vouched) });
    verify(simplified.graph.clone()).unwrap();
    simplified
}

fn names(of: &Simplified) -> Vec<&str> {
    of.graph.iter().map(|(_, n)| n.name.as_str()).collect()
}

fn ip() -> Vec<Conj> {
    vec![Conj::all().with(Field::EthType, 0x0800)]
}

fn targets<'g>(of: &'g Simplified, node: &str, port: &str) -> Vec<&'g str> {
    let node = of.graph.node(of.graph.find(node).unwrap());
    let port = &node.ports[node.port(port).unwrap()];
    port.targets.iter().map(|t| of.graph.node(*t).name.as_str()).collect()
}

#[test]
fn a_classifier_that_is_sure_becomes_an_edge() {
    let only_ip = simplified(&ip(), &Predicate::True, ForeignPackets::Never);
    assert_eq!(names(&only_ip), ["take", "both", "length", "sum", "in"]);
    assert_eq!(targets(&only_ip, "in", "out"), ["length", "sum"]);
    assert_eq!(only_ip.report.folded, ["classify"]);
    assert_eq!((only_ip.report.before.steps, only_ip.report.after.steps), (7, 5));
    assert_eq!((only_ip.report.before.depth, only_ip.report.after.depth), (5, 4));
}

#[test]
fn strangers_go_to_the_whole_graph_where_the_classifier_tells_them() {
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let guarded = simplified(&ip(), &Predicate::True, foreign);
    assert_eq!(targets(&guarded, "classify", "arp"), ["RxForeign"]);
    // It needs no edges for packets that the whole graph drops as well.
    assert_eq!(targets(&guarded, "classify", "no"), Vec::<&str>::new());
    assert_eq!(guarded.report.foreign, [("classify".to_string(), "arp".to_string())]);
    let foreign = guarded.graph.node(guarded.graph.find("RxForeign").unwrap());
    let whole = guarded.graph.node(foreign.spawns[0].target);
    assert_eq!((whole.name.as_str(), whole.param("worker")), ("RxWhole", Some("0")));
}

#[test]
fn what_the_nic_has_verified_is_not_verified_again() {
    for foreign in [ForeignPackets::Never, ForeignPackets::HandOver(HandOver::default())] {
        let verified = simplified(&[Conj::all()], &atom("sum", true), foreign);
        assert_eq!(verified.report.folded, ["sum"]);
        assert_eq!(targets(&verified, "length", "true"), ["both"]);
    }
    // A plan makes no statement about checksums; a guarantee without its mark keeps the node.
    let said = simplified(&ip(), &atom("length", true), ForeignPackets::Never);
    assert_eq!(said.report.folded, ["classify", "length"]);
}

#[test]
fn an_operator_with_one_operand_left_goes_unless_it_counts_drops() {
    let both = Predicate::And(vec![atom("length", true), atom("sum", true)]);
    let left = simplified(&ip(), &both, ForeignPackets::Never);
    // One of the two is needed to say when the other's outcome counts.
    assert!(left.graph.find("both").is_some() && left.report.folded.len() == 2, "{left:?}");
}

#[test]
fn nothing_arrives_nothing_runs() {
    let idle = simplified(&[], &Predicate::True, ForeignPackets::Never);
    assert_eq!(names(&idle), Vec::<&str>::new());
}

#[test]
fn where_nothing_is_expected_everybody_is_a_stranger() {
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let idle = simplified(&[], &Predicate::True, foreign);
    assert_eq!(names(&idle), ["in", "RxWhole", "RxForeign"]);
    assert_eq!(targets(&idle, "in", "out"), ["RxForeign"]);
}

#[test]
fn the_entrance_of_strangers_leads_where_the_source_leads() {
    let graph = HandOver::default().with_entrance(&host(), "RxQueue");
    let whole = graph.node(graph.find("RxWhole").unwrap());
    assert_eq!(whole.ports[0].targets, [graph.find("classify").unwrap()]);
    assert_eq!(whole.implementation_name(), "RxQueue");
}

/// in → sum (fills `sum`) → mark → out
fn sending() -> Verified {
    let mut graph = Graph::new("send");
    let out = add(&mut graph, "out", READS.union(Effects::CONSUMES), &[]);
    let writes = READS.union(Effects::WRITES);
    let mark = add(&mut graph, "mark", writes, &[("out", Predicate::True, &[out])]);
    let ports = [("no", Predicate::True, &[][..]), ("out", atom("sum", true), &[mark])];
    let sum = add(&mut graph, "sum", writes, &ports);
    for id in [mark, sum] {
        graph.node_mut(id).attrs.push(Attr::Offload);
    }
    let source = add(&mut graph, "in", READS, &[("out", Predicate::True, &[sum])]);
    graph.node_mut(source).attrs.push(Attr::Source);
    verify(graph).unwrap()
}

#[test]
fn what_all_links_fill_in_is_left_to_them() {
    let graph = sending();
    let folded = |filled: &Predicate| {
        let arriving = [Conj::all()];
        let given = QueueFacts { filled, ..QueueFacts::of(&arriving, &Predicate::True) };
        simplify(&graph, &given).report.folded
    };
    assert_eq!(folded(&atom("sum", true)), ["sum"]);
    assert_eq!(folded(&Predicate::And(vec![atom("other", true), atom("sum", true)])), ["sum"]);
    assert!(folded(&atom("other", true)).is_empty());
    assert!(folded(&Predicate::True).is_empty());
    // What is vouched for on receipt does nothing for what is sent.
    let arriving = [Conj::all()];
    let report = simplify(&graph, &QueueFacts::of(&arriving, &atom("sum", true))).report;
    assert!(report.folded.is_empty());
}
