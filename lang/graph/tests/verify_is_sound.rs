//! Verification against a slow reference: it has reported every conflict that two nodes have in one
//! task.
//!
//! The reference walks random graphs one packet at a time, following the text of the Dragonet
//! thesis (§2.2.1), with random decisions of the F-nodes.

use proptest::prelude::*;
use proptest::sample::select;
use weever_graph::{
    Effects, Graph, GraphError, Kind, Node, NodeId, NodeKind, Op, Port, PortId, verify,
};

/// A random node: its kind, its port names, its effects, and the targets of each port.
type Plan = (NodeKind, Vec<&'static str>, Effects, Vec<Vec<usize>>);

fn plan() -> impl Strategy<Value = Plan> {
    let boolean = vec!["false", "true"];
    let operators = [Op::And, Op::Or, Op::Nand, Op::Nor].map(NodeKind::Operator).to_vec();
    let kind = prop_oneof![
        2 => select(operators).prop_map({
            let boolean = boolean.clone();
            move |kind| (kind, boolean.clone())
        }),
        2 => Just((NodeKind::Function, boolean)),
        1 => Just((NodeKind::Function, vec!["out"])),
        1 => Just((NodeKind::Function, vec!["a", "b", "c"])),
    ];
    let effects = select(vec![
        Effects::NONE,
        Effects::READS,
        Effects::WRITES,
        Effects::CONSUMES,
        Effects::BLOCKS,
    ]);
    let targets = prop::collection::vec(prop::collection::vec(1usize..6, 0..3), 3);
    (kind, effects, targets).prop_map(|((kind, names), effects, targets)| {
        let effects = if kind == NodeKind::Function { effects } else { Effects::NONE };
        (kind, names, effects, targets)
    })
}

/// Node 0 is the only start; edges lead to later nodes.
fn graph(plans: &[Plan]) -> Graph {
    let mut graph = Graph::new("random");
    for (i, (kind, names, effects, _)) in plans.iter().enumerate() {
        let mut node = Node::new(format!("n{i}"), kind.clone());
        node.effects = Some(*effects);
        let port = |name: &&str| Port { name: (*name).into(), ..Port::default() };
        node.ports = names.iter().map(port).collect();
        graph.add(node);
    }
    for (i, (_, names, _, targets)) in plans.iter().enumerate() {
        for (p, name) in names.iter().enumerate() {
            for step in &targets[p] {
                let target = NodeId(u32::try_from(i + step).unwrap());
                let fits = target.index() < plans.len()
                    && (matches!(*name, "true" | "false")
                        || graph.node(target).kind == NodeKind::Function);
                let known = &mut graph.node_mut(NodeId(i as u32)).ports[p].targets;
                if fits && !known.contains(&target) {
                    known.push(target);
                }
            }
        }
    }
    graph
}

/// One task from node 0: which ports it enabled, and which nodes ran.
struct Run {
    ports: Vec<Option<usize>>,
    ran: Vec<bool>,
}

fn operator(graph: &Graph, op: Op, id: NodeId, run: &Run) -> Option<usize> {
    let mut operands: Vec<NodeId> =
        graph.dataflow().filter(|(_, t)| *t == id).map(|(p, _)| p.node).collect();
    operands.dedup();
    let outcome = |from: &NodeId| {
        let port = run.ports[from.index()]?;
        graph.node(*from).ports[port].targets.contains(&id).then_some(port)
    };
    let values: Vec<Option<usize>> = operands.iter().map(outcome).collect();
    let (any, all) = (|v| values.contains(&Some(v)), |v| values.iter().all(|o| *o == Some(v)));
    if operands.is_empty() {
        return None;
    }
    let (stop, swap) = match op {
        Op::And => (0, false),
        Op::Nand => (0, true),
        Op::Or => (1, false),
        Op::Nor => (1, true),
    };
    let value = if any(stop) { Some(stop) } else { all(1 - stop).then_some(1 - stop) };
    value.map(|v| if swap { 1 - v } else { v })
}

fn run(graph: &Graph, mut choices: u64) -> Run {
    let mut run = Run { ports: vec![None; graph.len()], ran: vec![false; graph.len()] };
    for (id, node) in graph.iter() {
        if let NodeKind::Operator(op) = node.kind {
            if id.0 == 0 {
                // A task that starts at an operator decides it in any way.
                run.ports[0] = Some((choices & 1) as usize);
            } else {
                run.ports[id.index()] = operator(graph, op, id, &run);
            }
        } else if id.0 == 0 || enabled_edges(graph, &run, id).next().is_some() {
            run.ran[id.index()] = true;
            run.ports[id.index()] = Some((choices % 3) as usize % node.ports.len());
        }
        choices = choices.rotate_right(5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    run
}

fn enabled_edges<'a>(
    graph: &'a Graph,
    run: &'a Run,
    to: NodeId,
) -> impl Iterator<Item = PortId> + 'a {
    graph
        .dataflow()
        .filter(move |(p, t)| *t == to && run.ports[p.node.index()] == Some(p.port as usize))
        .map(|(p, _)| p)
}

fn leads(graph: &Graph, from: NodeId, to: NodeId) -> bool {
    graph.node(from).ports.iter().flat_map(|p| &p.targets).any(|t| *t == to || leads(graph, *t, to))
}

fn reported(errors: &[GraphError], kind: Kind, names: [&str; 2]) -> bool {
    let all = |e: &GraphError| names.iter().all(|n| e.message.contains(&format!("`{n}`")));
    errors.iter().any(|e| e.kind == kind && all(e))
}

/// Checks one task's run for faults that verification must have reported.
fn check_run(graph: &Graph, run: &Run, errors: &[GraphError]) {
    let effects = |id: NodeId| graph.node(id).effects.unwrap_or_default();
    let name = |id: NodeId| graph.node(id).name.as_str();
    let ran = |id: &NodeId| run.ran[id.index()];
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).filter(ran).collect();
    for (i, a) in ids.iter().enumerate() {
        for b in &ids[i + 1..] {
            if effects(*a).conflicts(effects(*b)) && !leads(graph, *a, *b) {
                let names = [name(*a), name(*b)];
                assert!(reported(errors, Kind::ConflictingEffects, names), "{names:?}: {graph:#?}");
            }
        }
    }
    for blocker in ids.iter().filter(|id| effects(**id).contains(Effects::BLOCKS)) {
        for (port, target) in graph.dataflow() {
            let enabled = run.ports[port.node.index()] == Some(port.port as usize);
            let forgotten = leads(graph, port.node, *blocker)
                && target != *blocker
                && !leads(graph, target, *blocker);
            if enabled && forgotten {
                let names = [name(*blocker), name(target)];
                assert!(reported(errors, Kind::BlockingNotCut, names), "{names:?}: {graph:#?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_task_does_was_reported(
        plans in prop::collection::vec(plan(), 1..14),
        seeds in prop::collection::vec(any::<u64>(), 40),
    ) {
        let graph = graph(&plans);
        let (errors, twice) = match verify(graph.clone()) {
            Err(errors) => (errors, None),
            Ok(verified) => {
                for (port, target) in verified.dataflow() {
                    let at = |id| verified.order().iter().position(|o| *o == id);
                    prop_assert!(at(port.node) < at(target));
                }
                let warnings = verified.warnings().filter(|w| w.kind == Kind::EnabledTwice);
                (Vec::new(), Some(warnings.map(|w| w.node).collect::<Vec<_>>()))
            }
        };
        for seed in seeds {
            let run = run(&graph, seed);
            check_run(&graph, &run, &errors);
            let functions = graph.iter().filter(|(_, n)| n.kind == NodeKind::Function);
            for (id, _) in functions.filter(|_| twice.is_some()) {
                let edges = enabled_edges(&graph, &run, id).count();
                prop_assert!(edges < 2 || twice.as_ref().is_some_and(|t| t.contains(&id)));
            }
        }
    }
}
