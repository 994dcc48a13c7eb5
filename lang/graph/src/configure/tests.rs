use super::*;
use crate::testkit::{add, add_kind};
use crate::{Edge, Entry, Field, Key, PortId, verify};

fn config(ty: &str) -> NodeKind {
    let ty = (!ty.is_empty()).then(|| ty.to_string());
    NodeKind::Config(ConfigSpec { ty, ..ConfigSpec::default() })
}

/// `start.out → [before, C, after]`, `C.a → [x, y]`, `C.b → [y]`.
fn example(ty: &str) -> Graph {
    let mut g = Graph::new("g");
    let x = add(&mut g, "x", &[]);
    let before = add(&mut g, "before", &[]);
    let c = add_kind(&mut g, "C", config(ty), &[("a", &[]), ("b", &[])]);
    let y = add(&mut g, "y", &[]);
    let after = add(&mut g, "after", &[]);
    add(&mut g, "start", &[("out", &[before, c, after])]);
    g.node_mut(c).ports[0].targets = vec![x, y];
    g.node_mut(c).ports[1].targets = vec![y];
    g
}

fn targets(g: &Graph, node: &str) -> Vec<String> {
    let node = g.node(g.find(node).unwrap());
    node.ports[0].targets.iter().map(|t| g.node(*t).name.clone()).collect()
}

fn choice(port: &str) -> ConfigValue {
    ConfigValue::Choice(port.into())
}

fn entry(port: u128, queue: u32, priority: u32) -> Entry {
    let keys = vec![Key { mask: 0xffff, value: port }, Key { mask: 0xff, value: 17 }];
    Entry { id: 7, keys, priority, port: queue }
}

fn table(entries: Vec<Entry>) -> ConfigValue {
    let fields = vec![Field::L4Dst, Field::Ip4Proto];
    ConfigValue::Table(TableSpec { fields, entries, miss: 1, capacity: 8 })
}

const FILTERS: &str = "{(proto: <Enum (TCP,UDP)>, sip: <UInt 32>, dport: <UInt 16>, prio: Int 1 7, \
                       queue: UInt 2)} <,2>";

#[test]
fn a_choice_joins_what_was_before_with_the_ports_targets_in_place() {
    let mut g = example("");
    configure(&mut g, "C", choice("a")).unwrap();
    assert_eq!(targets(&g, "start"), ["before", "x", "y", "after"]);
    assert!(g.find("C").is_none());
    assert!(verify(g).is_ok());
}

#[test]
fn ids_of_all_edges_follow_when_a_node_vanishes() {
    let mut g = example("");
    let after = g.find("after").unwrap();
    let start = g.find("start").unwrap();
    let edge = Edge { label: "s".into(), target: after, predicates: Vec::new() };
    g.node_mut(start).spawns.push(edge.clone());
    g.node_mut(start).notifies.push(edge);
    configure(&mut g, "C", choice("b")).unwrap();
    assert_eq!(targets(&g, "start"), ["before", "y", "after"]);
    let start = g.node(g.find("start").unwrap());
    assert_eq!(g.node(start.spawns[0].target).name, "after");
    assert_eq!(g.node(start.notifies[0].target).name, "after");
}

#[test]
fn a_choice_must_be_a_port_and_of_the_type() {
    let same = example("Enum (a,c)");
    let mut g = same.clone();
    let no_port = configure(&mut g, "C", choice("c")).unwrap_err();
    assert!(matches!(no_port, ConfigError::NoPort { .. }), "{no_port}");
    let outside = configure(&mut g, "C", choice("b")).unwrap_err();
    assert!(matches!(outside, ConfigError::OutsideType { .. }), "{outside}");
    assert!(matches!(configure(&mut g, "D", choice("a")), Err(ConfigError::NoNode(_))));
    assert!(matches!(configure(&mut g, "x", choice("a")), Err(ConfigError::NotConfig(_))));
    assert_eq!(g, same);
}

#[test]
fn a_table_takes_the_nodes_place() {
    let mut g = example(FILTERS);
    let id = g.find("C").unwrap();
    configure(&mut g, "C", table(vec![entry(53, 0, 1)])).unwrap();
    assert!(matches!(g.node(id).kind, NodeKind::Table(_)));
    assert_eq!(targets(&g, "C"), ["x", "y"]);
    assert!(verify(g).is_ok());
}

fn refused(ty: &str, entries: Vec<Entry>) -> String {
    configure(&mut example(ty), "C", table(entries)).unwrap_err().to_string()
}

#[test]
fn a_table_stays_within_its_type() {
    let good = entry(53, 0, 1);
    assert!(refused(FILTERS, vec![entry(53, 0, 8)]).contains("[0].prio: 8 is not of type Int 1 7"));
    assert!(refused(FILTERS, vec![good.clone(); 3]).contains("3 elements, outside <,2>"));
    let mut other = good.clone();
    other.keys[1].value = 1;
    assert!(refused(FILTERS, vec![other]).contains("[0].proto: OTHER"));
    let mut part = good.clone();
    part.keys[0] = Key { mask: 0xff00, value: 0 };
    assert!(refused(FILTERS, vec![part]).contains("masked out"));
    assert!(refused(FILTERS, vec![entry(53, 2, 1)]).contains("leaves by port 2 of 2"));
    assert!(refused("", vec![good]).contains("it has no type"));
    let whole = "{(dport: UInt 16)}";
    let mut wild = entry(0, 0, 1);
    wild.keys[0] = Key { mask: 0, value: 0 };
    assert!(refused(whole, vec![wild]).contains("nothing is not of type UInt 16"));
}

#[test]
fn a_subgraph_may_only_touch_neighbours() {
    let mut g = example("");
    let (start, x) = (g.find("start").unwrap(), g.find("x").unwrap());
    let mut filter = Node::new("filter", NodeKind::Function);
    filter.ports.push(crate::Port { name: "out".into(), ..Default::default() });
    let at_start = From::Old(PortId { node: start, port: 0 });
    let good = Subgraph {
        nodes: vec![filter],
        edges: vec![
            NewEdge { from: at_start, to: To::New(0) },
            NewEdge { from: From::New(0, 0), to: To::Old(x) },
        ],
    };
    let after = g.find("after").unwrap();
    for bad in [
        NewEdge { from: at_start, to: To::Old(after) },
        NewEdge { from: From::Old(PortId { node: x, port: 0 }), to: To::New(0) },
        NewEdge { from: From::New(0, 1), to: To::Old(x) },
        NewEdge { from: at_start, to: To::New(1) },
    ] {
        let mut value = good.clone();
        value.edges.push(bad);
        let error = configure(&mut g, "C", ConfigValue::Subgraph(value)).unwrap_err();
        assert!(matches!(error, ConfigError::NotLocal { .. }), "{error}");
    }
    configure(&mut g, "C", ConfigValue::Subgraph(good)).unwrap();
    assert_eq!(targets(&g, "start"), ["before", "filter", "after"]);
    assert_eq!(targets(&g, "filter"), ["x"]);
}

#[test]
fn a_node_with_spawn_edges_does_not_vanish() {
    let mut g = example("");
    let c = g.find("C").unwrap();
    let edge = Edge { label: "poll".into(), target: c, predicates: Vec::new() };
    g.node_mut(c).spawns.push(edge);
    let error = configure(&mut g, "C", choice("a")).unwrap_err();
    assert!(matches!(error, ConfigError::StillNeeded { .. }));
}
