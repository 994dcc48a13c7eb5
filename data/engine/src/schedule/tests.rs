use weever_block::Env;
use weever_graph::{Attr, Graph, Node, NodeId, NodeKind, Op, Port, Verified, verify};

use super::program::EntryCode;
use crate::testkit::registry;
use crate::{CompileError, Schedule};

fn node(graph: &mut Graph, name: &str, implementation: &str, ports: &[(&str, &[u32])]) {
    let mut node = Node::new(name, NodeKind::Function);
    node.implementation = Some(implementation.into());
    node.ports = ports.iter().map(|(name, to)| port(name, to)).collect();
    graph.add(node);
}

fn port(name: &str, to: &[u32]) -> Port {
    let targets = to.iter().map(|t| NodeId(*t)).collect();
    Port { name: name.into(), targets, ..Port::default() }
}

fn compile(graph: &Verified) -> Result<Schedule, CompileError> {
    Schedule::compile(graph, &registry(), &Env::new())
}

/// Two sources; the operator is reached from both, `only` from the second alone.
fn graph() -> Graph {
    let mut g = Graph::new("g");
    node(&mut g, "last", "One", &[("out", &[])]);
    let mut or = Node::new("or", NodeKind::Operator(Op::Or));
    or.ports = vec![port("false", &[]), port("true", &[0])];
    g.add(or);
    node(&mut g, "first", "Two", &[("false", &[1]), ("true", &[1])]);
    node(&mut g, "only", "One", &[("out", &[0])]);
    node(&mut g, "second", "Two", &[("false", &[3]), ("true", &[1])]);
    g
}

#[test]
fn an_entry_has_the_nodes_it_reaches_in_topological_order() -> Result<(), CompileError> {
    let schedule = compile(&verify(graph()).expect("sound"))?;
    let entries: Vec<&str> = schedule.entries().map(|(_, name)| name).collect();
    assert_eq!(entries, ["first", "second"]);
    let steps = |name: &str| -> Vec<&str> {
        schedule.entry(name).map(|e| schedule.steps(e).collect()).unwrap_or_default()
    };
    assert_eq!(steps("first"), ["first", "or", "last"]);
    assert_eq!(steps("second"), ["second", "or", "only", "last"]);
    assert_eq!(schedule.entry("last"), None);
    Ok(())
}

#[test]
fn declared_starts_are_entries_even_with_edges_to_them() -> Result<(), CompileError> {
    let mut g = graph();
    g.node_mut(NodeId(3)).attrs.push(Attr::Source);
    let schedule = compile(&verify(g).expect("sound"))?;
    let only = schedule.entry("only").map(|e| schedule.steps(e).collect::<Vec<_>>());
    assert_eq!(only, Some(vec!["only", "last"]));
    Ok(())
}

#[test]
fn a_node_without_an_implementation_is_named() {
    let mut g = graph();
    g.node_mut(NodeId(3)).implementation = Some("Nonsense".into());
    let error = compile(&verify(g).expect("sound")).expect_err("no such type");
    assert!(error.to_string().contains("only") && error.to_string().contains("Nonsense"));
}

#[test]
fn a_port_that_the_type_lacks_is_named() {
    let mut g = graph();
    g.node_mut(NodeId(3)).ports.push(port("extra", &[]));
    let error = compile(&verify(g).expect("sound")).expect_err("no such port");
    assert!(error.to_string().contains("only") && error.to_string().contains("extra"));
}

fn codes(schedule: &Schedule) -> impl Iterator<Item = &EntryCode> {
    schedule.plan.program.entries.iter().map(|entry| &*entry.code)
}

#[test]
fn a_run_begins_where_the_compiler_finds_one_and_ways_that_tasks_do_not_take_are_closed()
-> Result<(), CompileError> {
    let mut g = Graph::new("g");
    node(&mut g, "quick", "Quick", &[("false", &[1]), ("true", &[1, 3])]);
    let mut or = Node::new("or", NodeKind::Operator(Op::Or));
    or.ports = vec![port("false", &[]), port("true", &[2])];
    g.add(or);
    node(&mut g, "last", "One", &[("out", &[])]);
    node(&mut g, "swift", "Swift", &[("false", &[1]), ("true", &[])]);
    let ways = |g: &Graph| -> Result<Vec<bool>, CompileError> {
        let schedule = compile(&verify(g.clone()).expect("sound"))?;
        assert_eq!(
            schedule.shortcuts.len(),
            codes(&schedule).map(|code| code.shortcuts.len()).sum::<usize>()
        );
        Ok(codes(&schedule).flat_map(|code| code.ways.iter().map(Option::is_some)).collect())
    };
    assert_eq!(ways(&g)?, [true, true, true]);
    g.node_mut(NodeId(3)).implementation = Some("Two".into());
    assert_eq!(ways(&g)?, [false, true, true], "no Swift behind Quick");
    g.node_mut(NodeId(0)).attrs.push(Attr::parse("seed=1"));
    assert_eq!(ways(&g)?, [] as [bool; 0], "a node with a parameter of its own");
    Ok(())
}
