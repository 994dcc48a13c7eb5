use weever_graph::{Field, NodeKind, Op, Predicate};

use crate::{Loaded, load};

fn loaded(source: &str) -> Loaded {
    load(source, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn first_error(source: &str) -> (String, Option<String>) {
    let errors = load(source, "test").expect_err("the text is wrong");
    let first = errors.diagnostics[0].clone();
    (first.message, first.help)
}

/// Names of a port's targets.
fn targets(source: &str, node: &str, port: &str) -> Vec<String> {
    let graph = loaded(source).graph;
    let node = graph.node(graph.find(node).expect(node));
    let port = &node.ports[node.port(port).expect(port)];
    port.targets.iter().map(|t| graph.node(*t).name.clone()).collect()
}

#[test]
fn full_names_and_relative_references() {
    let source = "graph g {
        node Root {}
        cluster Rx {
            cluster L2 {
                node A { port out[B .L3C ..Root ..TxD] }
                node B {}
            }
            cluster L3 { node C {} }
            node E { port out[L2A] }
        }
        cluster Tx { node D {} }
    }";
    assert_eq!(targets(source, "RxL2A", "out"), ["RxL2B", "RxL3C", "Root", "TxD"]);
    assert_eq!(targets(source, "RxE", "out"), ["RxL2A"]);
    let graph = loaded(source).graph;
    assert_eq!(graph.node(graph.find("RxL2A").unwrap()).clusters, ["Rx", "L2"]);
}

#[test]
fn true_and_false_come_first_and_swapped() {
    let graph = loaded("graph g { node N { port true miss[] port false[] } }").graph;
    let names: Vec<_> =
        graph.node(graph.find("N").unwrap()).ports.iter().map(|p| &p.name).collect();
    assert_eq!(names, ["false", "true", "miss"]);
}

#[test]
fn several_names_share_targets() {
    let source = "graph g { node N { port a b[X Y] port[X] } node X {} node Y {} }";
    assert_eq!(targets(source, "N", "a"), ["X", "Y"]);
    assert_eq!(targets(source, "N", "b"), ["X", "Y"]);
    assert_eq!(loaded(source).graph.iter().next().unwrap().1.ports.len(), 2);
}

#[test]
fn kinds_edges_and_texts_arrive() {
    let source = r#"graph g {
        helpers { (declare-sort Packet) }
        and A { port true false[] }
        config C { type { (q: UInt2) } <,4> function f port q[] }
        node N {
            effects reads moves_head
            attr "init" attr "cost=3" attr "drop p: too short"
            implementation Impl
            spawn again N [predicate "pred(EthType,ARP)"] [predicate "true"]
            notify wake N
            port p q[]
            semantics p q { (= a b) }
            constraint p "IPv4"
            predicate p "udp dst port 53"
        }
    }"#;
    let graph = loaded(source).graph;
    assert_eq!(graph.helpers.as_deref(), Some("(declare-sort Packet)"));
    let node = |name: &str| graph.node(graph.find(name).unwrap());
    assert_eq!(node("A").kind, NodeKind::Operator(Op::And));
    let NodeKind::Config(spec) = &node("C").kind else { panic!("no config") };
    assert_eq!(spec.ty.as_deref(), Some("{(q: UInt 2)} <,4>"));
    assert_eq!(spec.function.as_deref(), Some("f"));
    let n = node("N");
    assert_eq!(n.effects.unwrap().names().collect::<Vec<_>>(), ["reads", "moves_head"]);
    assert_eq!((n.param("cost"), n.drop_reason("p")), (Some("3"), Some("too short")));
    assert_eq!(n.implementation_name(), "Impl");
    assert_eq!(n.spawns[0].predicates[0], Predicate::eq(Field::EthType, 0x806));
    assert_eq!(n.spawns[0].predicates.len(), 2);
    assert_eq!(n.notifies[0].label, "wake");
    assert_eq!(n.ports[1].semantics.as_deref(), Some("(= a b)"));
    let Predicate::And(parts) = &n.ports[0].predicate else { panic!("not both") };
    assert_eq!(parts[0], Predicate::eq(Field::EthType, 0x800));
}

#[test]
fn identical_declarations_are_a_warning_and_different_ones_an_error() {
    let twice = loaded("graph g { node A { port x[] } node A { port x[] } }");
    assert_eq!(twice.graph.len(), 1);
    assert!(twice.diagnostics[0].message.contains("declared twice, with the same body"));
    let (message, _) = first_error("graph g { node A { port x[] } node A {} }");
    assert!(message.contains("different bodies"), "{message}");
}

#[test]
fn unknown_targets_are_corrected() {
    let of = |target: &str| {
        let source = format!(
            "graph g {{ node Drop {{}} cluster Rx {{ node A {{ port p[{target}] }} node Classify {{}} }} }}"
        );
        first_error(&source)
    };
    assert_eq!(of("Clasify").1.unwrap(), "did you mean `Classify`?");
    assert_eq!(of("Drop").1.unwrap(), "did you mean `.Drop`?");
    assert_eq!(of(".Dropp").1.unwrap(), "did you mean `.Drop`?");
    assert_eq!(of("..Drop").0, "too many dots: 2 of them in 1 nested clusters");
    assert_eq!(of("Xyzzy").1, None);
}

#[test]
fn boolean_nodes_have_true_and_false() {
    assert!(first_error("graph g { boolean B {} }").0.contains("exactly the ports"));
    assert!(first_error("graph g { or B { port true false x[] } }").0.contains("exactly"));
}

#[test]
fn unknown_ports_and_bad_predicates_are_reported() {
    let (message, help) = first_error("graph g { node N { port hit[] predicate hti \"true\" } }");
    assert_eq!(message, "`N` has no port `hti`");
    assert_eq!(help.unwrap(), "did you mean `hit`?");
    let source = "graph g { node N { port hit[] predicate hit \"udp prot 53\" } }";
    let errors = load(source, "test").unwrap_err();
    assert_eq!(&source[errors.diagnostics[0].span.clone()], "prot 53");
}

#[test]
fn a_cycle_is_reported_at_a_node() {
    let (message, _) = first_error("graph g { node A { port x[B] } node B { port x[A] } }");
    assert!(message.contains("cycle"), "{message}");
}

#[test]
fn features_are_read_and_impossible_ones_named() {
    let with =
        |lines: &str| format!("graph g {{ config F {{ feature {{ {lines} }} port out[] }} }}");
    let lines = "ethtool \"rx-checksum\" \"rx-gro-hw\"; starts off; joins tcp4 tcp6
        vouches each \"pred(udp.checksum,right)\"; drops \"frame.len < 60\"; takes vlan.id; stamps";
    let graph = loaded(&with(lines)).graph;
    let NodeKind::Config(spec) = &graph.node(graph.find("F").unwrap()).kind else { panic!() };
    let feature = spec.feature.as_ref().unwrap();
    assert_eq!((feature.ethtool.len(), feature.starts_on, feature.work.len()), (2, false, 5));
    let wrong = [
        ("", "the feature does nothing"),
        ("takes vlan.id; fills \"ip\"", "it works on packets that are received and"),
        ("takes l4.dst", "devices do not move l4.dst"),
        ("stamps; stamps", "this was said before"),
        ("stamps; starts on; starts off", "this was said before"),
        ("stamps; ethtool \"Rx Checksum\"", "`Rx Checksum` is no name of a feature"),
        ("vouches sometimes \"ip\"", "expected for which packets it vouches"),
        ("fills \"no such thing\"", "this is no predicate"),
    ];
    for (lines, said) in wrong {
        let (message, _) = first_error(&with(lines));
        assert!(message.contains(said), "{lines}: {message}");
    }
    let both =
        "graph g { config F { feature { stamps } rss { entries 8 queues 0 .. 3 } port out[] } }";
    assert!(first_error(both).0.contains("already"));
    assert!(
        first_error("graph g { node F { feature { stamps } } }").0.contains("config nodes only")
    );
}
