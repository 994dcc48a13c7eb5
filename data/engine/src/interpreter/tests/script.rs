//! Small graphs whose nodes run closures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use weever_block::{Block, BlockType, Burst, Cx, Env, Mask, PortDoc, Ports, Registry, bits};
use weever_graph::{Attr, Edge, Effects, Graph, Node, NodeId, NodeKind, Op, Port, verify};
use weever_packet::Pool;

use crate::testkit::pool;
use crate::{Engine, Entry, Limits, Schedule};

const fn port(name: &'static str) -> PortDoc {
    PortDoc { name, doc: "" }
}

static SCRIPT: BlockType = BlockType {
    name: "Script",
    summary: "",
    ports: &[port("false"), port("true")],
    spawns: &["a", "b"],
    notifies: &["n"],
    effects: Effects::NONE,
    state: weever_block::StateKind::None,
    params: &[],
    counters: &[],
    make: |build| {
        let scripts = build.env.get_or_default::<Scripts>();
        let script = scripts.0.lock().expect("no test panics with it").remove(&build.node.name);
        Ok(Box::new(Scripted(script.expect("every node has a script"))))
    },
};
static NEEDY: BlockType = BlockType { name: "Needy", effects: Effects::NEEDS_BUFFER, ..SCRIPT };

type Script = Box<dyn FnMut(&mut Cx<'_>, &mut Burst, Mask, &mut Ports<'_>) + Send>;

#[derive(Default)]
struct Scripts(Mutex<HashMap<String, Script>>);

struct Scripted(Script);

impl Block for Scripted {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        (self.0)(cx, burst, input, ports);
    }
}

/// Where a node's ports and edges lead; spawn and notify edges to itself unless set.
#[derive(Default)]
pub(super) struct To {
    pub(super) no: Vec<u32>,
    pub(super) yes: Vec<u32>,
    pub(super) a: Option<u32>,
    pub(super) b: Option<u32>,
    pub(super) n: Option<u32>,
    pub(super) attrs: Vec<&'static str>,
    pub(super) needy: bool,
}

#[derive(Default)]
pub(super) struct GraphBuilder {
    graph: Graph,
    scripts: HashMap<String, Script>,
}

impl GraphBuilder {
    pub(super) fn node(
        &mut self,
        name: &str,
        to: To,
        script: impl FnMut(&mut Cx<'_>, &mut Burst, Mask, &mut Ports<'_>) + Send + 'static,
    ) -> &mut GraphBuilder {
        self.scripts.insert(name.into(), Box::new(script));
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some(if to.needy { "Needy" } else { "Script" }.into());
        self.add(node, to)
    }

    pub(super) fn operator(&mut self, name: &str, op: Op, to: To) -> &mut GraphBuilder {
        self.add(Node::new(name, NodeKind::Operator(op)), to)
    }

    fn add(&mut self, mut node: Node, to: To) -> &mut GraphBuilder {
        let me = self.graph.len() as u32;
        for (name, targets) in [("false", to.no), ("true", to.yes)] {
            let targets = targets.into_iter().map(NodeId).collect();
            node.ports.push(Port { name: name.into(), targets, ..Port::default() });
        }
        let edge = |label: &str, target: Option<u32>| Edge {
            label: label.into(),
            target: NodeId(target.unwrap_or(me)),
            predicates: Vec::new(),
        };
        if node.kind == NodeKind::Function {
            node.spawns = vec![edge("a", to.a), edge("b", to.b)];
            node.notifies = vec![edge("n", to.n)];
        }
        node.attrs = to.attrs.iter().map(|a| Attr::parse(a)).collect();
        self.graph.add(node);
        self
    }

    pub(super) fn build(&mut self, limits: Limits) -> (Engine, Pool) {
        let graph = verify(std::mem::take(&mut self.graph)).expect("the test's graph is sound");
        let env = Env::new();
        env.provide(Arc::new(Scripts(Mutex::new(std::mem::take(&mut self.scripts)))));
        let registry = Registry::new().with(&[&SCRIPT, &NEEDY]);
        let schedule = Schedule::compile(&graph, &registry, &env).expect("compiles");
        let pool = pool(256);
        (Engine::new(schedule, pool.cache(), limits), pool)
    }
}

/// The packets that the nodes of a test saw, in order: node and the packets' first bytes.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Seen>>>);

type Seen = (&'static str, Vec<u8>);

impl Log {
    /// Notes the packets that came by.
    pub(super) fn note(&self, name: &'static str, burst: &Burst, input: Mask) {
        let first = |i| burst.get(i).map_or(0, |b| b.data()[0]);
        let seen = bits(input).map(first).collect();
        self.0.lock().expect("no test panics with it").push((name, seen));
    }

    pub(super) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().expect("no test panics with it"))
    }
}

/// Injects packets whose first bytes are given.
pub(super) fn inject(engine: &mut Engine, entry: &str, packets: &[u8], now: u64) {
    let (entry, mut burst, tasks) = burst_of(engine, entry, packets);
    engine.inject(entry, &mut burst, tasks, now);
    assert_eq!(burst.occupied(), 0, "the engine takes every packet");
}

/// The same with the tasks that they start, as far as the budget goes; returns how many of these ran.
pub(super) fn receive(engine: &mut Engine, entry: &str, packets: &[u8], budget: usize) -> usize {
    let (entry, mut burst, tasks) = burst_of(engine, entry, packets);
    let ran = engine.receive(entry, &mut burst, tasks, 0, budget);
    assert_eq!(burst.occupied(), 0, "the engine takes every packet");
    ran
}

fn burst_of(engine: &mut Engine, entry: &str, packets: &[u8]) -> (Entry, Burst, Mask) {
    let entry = engine.entry(entry).expect("the test's entry");
    let mut burst = Burst::new();
    let mut tasks = 0;
    for (i, first) in packets.iter().enumerate() {
        let mut buffer = engine.pool().alloc().expect("enough frames");
        assert!(buffer.append(&[*first]));
        burst.put(i, buffer);
        tasks |= 1 << i;
    }
    (entry, burst, tasks)
}
