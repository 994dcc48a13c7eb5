//! Random graphs over blocks whose decisions are a hash of the packet and the node.

use std::collections::HashSet;

use weever_blocks_api::{
    Block, BlockType, Build, BuildError, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, Priority,
    Registry, Shortcut, ShortcutType, State, StateKind, bits,
};
use weever_graph::{
    Attr, Edge, Effects, Graph, Node, NodeId, NodeKind, Op, Port, Verified, verify,
};
use weever_packet::{Buffer, HugePages, Pool, PoolCache, PoolConfig};

const fn port(name: &'static str) -> PortDoc {
    PortDoc { name, doc: "" }
}

const SEED: ParamDoc = ParamDoc { name: "seed", default: "0", doc: "" };
const BOOLEAN: &[PortDoc] = &[port("false"), port("true")];

const PLAIN: BlockType = BlockType {
    name: "Two",
    summary: "",
    ports: BOOLEAN,
    spawns: &[],
    notifies: &[],
    effects: Effects::NONE,
    state: StateKind::None,
    params: &[SEED],
    counters: &["seen"],
    make: |build| make(build, Kind::Plain),
};
static TWO: BlockType = PLAIN;
static ONE: BlockType = BlockType { name: "One", ports: &[port("out")], ..PLAIN };
static THREE: BlockType =
    BlockType { name: "Three", ports: &[port("x"), port("y"), port("z")], ..PLAIN };
static NEEDY: BlockType = BlockType { name: "Needy", effects: Effects::NEEDS_BUFFER, ..PLAIN };
static EATER: BlockType =
    BlockType { name: "Eater", make: |build| make(build, Kind::Eater), ..PLAIN };
static SENDER: BlockType =
    BlockType { name: "Sender", make: |build| make(build, Kind::Sender), ..PLAIN };
/// Sends everything by link 0.
static ECHO: BlockType =
    BlockType { name: "Echo", ports: &[], make: |_| Ok(Box::new(Echo)), ..PLAIN };
/// Starts a new task with everything.
static PASS_ON: BlockType = BlockType {
    name: "PassOn",
    ports: &[],
    spawns: &["on"],
    make: |_| Ok(Box::new(PassOn)),
    ..PLAIN
};
static MOVER: BlockType = BlockType {
    name: "Mover",
    spawns: &["low", "move"],
    make: |build| make(build, Kind::Mover),
    ..PLAIN
};
static PARENT: BlockType = BlockType {
    name: "Parent",
    spawns: &["fresh"],
    make: |build| make(build, Kind::Parent),
    ..PLAIN
};
static BLOCKER: BlockType = BlockType {
    name: "Blocker",
    effects: Effects::BLOCKS,
    make: |build| make(build, Kind::Blocker),
    ..PLAIN
};
static WAKER: BlockType = BlockType {
    name: "Waker",
    notifies: &["wake"],
    make: |build| make(build, Kind::Waker),
    ..PLAIN
};

/// Counts every packet that it and those before it have seen.
static KEEPER: BlockType = BlockType {
    name: "Keeper",
    ports: &[port("out")],
    counters: &["kept"],
    make: |_| Ok(Box::new(Keeper(0))),
    ..PLAIN
};

/// Lets a packet wait for key 7 the first time it sees it.
static GATE: BlockType = BlockType {
    name: "Gate",
    ports: &[port("out")],
    effects: Effects::BLOCKS,
    counters: &[],
    make: |_| Ok(Box::new(Gate(HashSet::new()))),
    ..PLAIN
};
/// Wakes what waits for key 7.
static BELL: BlockType = BlockType {
    name: "Bell",
    ports: &[port("out")],
    notifies: &["open"],
    counters: &[],
    make: |_| Ok(Box::new(Bell)),
    ..PLAIN
};
/// A [`KEEPER`] of which there is one.
static ONLY: BlockType = BlockType { name: "Only", state: StateKind::SingleHomed, ..KEEPER };

static QUICK: BlockType =
    BlockType { name: "Quick", counters: &[], make: |_| Ok(Box::new(Decide(QUICK_SEED))), ..PLAIN };
static SWIFT: BlockType = BlockType {
    name: "Swift",
    effects: Effects::NEEDS_BUFFER,
    make: |_| Ok(Box::new(Decide(SWIFT_SEED))),
    ..QUICK
};
const QUICK_SEED: u64 = 11;
const SWIFT_SEED: u64 = 12;

static SHORTCUT: ShortcutType = ShortcutType {
    name: "QuickAndSwift",
    summary: "",
    ways: &[
        &[("Quick", "true"), ("Swift", "false")],
        &[("Quick", "false")],
        // Swift is an end of this one, where there is a Swift.
        &[("Quick", "true")],
    ],
    make: |_| Ok(Box::new(QuickAndSwift)),
};

pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(&[
            &TWO, &ONE, &ECHO, &PASS_ON, &THREE, &NEEDY, &EATER, &SENDER, &MOVER, &PARENT,
            &BLOCKER, &WAKER, &KEEPER, &GATE, &BELL, &ONLY, &QUICK, &SWIFT,
        ])
        .with_shortcuts(&[&SHORTCUT])
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Eater,
    Sender,
    Mover,
    Parent,
    Blocker,
    Waker,
}

fn make(build: &Build<'_>, kind: Kind) -> Result<Box<dyn Block>, BuildError> {
    let ports = build.block_type.ports.len();
    let (blocked, held) = (HashSet::new(), None);
    Ok(Box::new(TestBlock { kind, seed: build.param("seed")?, ports, blocked, held }))
}

struct TestBlock {
    kind: Kind,
    seed: u64,
    ports: usize,
    /// Packets that have blocked here once: they do not again.
    blocked: HashSet<Vec<u8>>,
    /// The last packet taken; freed when the next one comes.
    held: Option<Buffer>,
}

/// SplitMix64's finaliser.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(mix(seed), |h, b| mix(h ^ u64::from(*b)))
}

/// A boolean of a packet's hash.
struct Decide(u64);

impl Block for Decide {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            ports.enable(usize::from(decide(self.0, burst, i)), 1 << i);
        }
    }
}

fn decide(seed: u64, burst: &Burst, task: usize) -> bool {
    hash(seed, burst.get(task).map_or(&[], Buffer::data)) & 1 == 1
}

/// Leaves one packet in eight to the blocks.
struct QuickAndSwift;

impl Shortcut for QuickAndSwift {
    fn run(&mut self, burst: &mut Burst, input: Mask, ways: &mut [Mask]) {
        for i in bits(input) {
            assert!(burst.get(i).is_some(), "a shortcut gets packets only");
            if hash(13, burst.get(i).map_or(&[], Buffer::data)) & 7 != 0 {
                let way = match (decide(QUICK_SEED, burst, i), decide(SWIFT_SEED, burst, i)) {
                    (true, false) => 0,
                    (false, _) => 1,
                    (true, true) => 2,
                };
                ways[way] |= 1 << i;
            }
        }
    }
}

struct Echo;

impl Block for Echo {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(0, input);
    }
}

struct Gate(HashSet<Vec<u8>>);

impl Block for Gate {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            match burst.get(i).map(|b| self.0.insert(b.data().to_vec())) {
                Some(true) => cx.block(i, 7),
                _ => ports.enable(0, 1 << i),
            }
        }
    }
}

struct Bell;

impl Block for Bell {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        cx.notify(0, 7);
        ports.enable(0, input);
    }
}

struct Keeper(u64);

impl Block for Keeper {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        self.0 += u64::from(input.count_ones());
        cx.count(0, self.0);
        ports.enable(0, input);
    }

    fn export_state(&mut self) -> Option<State> {
        Some(Box::new(self.0))
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        self.0 = *state.downcast::<u64>()?;
        Ok(())
    }
}

struct PassOn;

impl Block for PassOn {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

impl Block for TestBlock {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        cx.count(0, u64::from(input.count_ones()));
        let mut claimed = 0;
        for i in bits(input) {
            let bytes = burst.get(i).map(|b| b.data().to_vec()).unwrap_or_default();
            let decision = hash(self.seed, &bytes);
            if self.takes(cx, i, &bytes, decision) {
                claimed |= 1 << i;
            } else {
                ports.enable(decision as usize % self.ports, 1 << i);
            }
        }
        match self.kind {
            Kind::Eater => cx.consume(claimed),
            Kind::Sender => cx.transmit((self.seed % 2) as u16, claimed),
            Kind::Mover => cx.spawn(1, claimed),
            _ => {}
        }
    }

    fn collect(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, claimed: Mask) {
        for i in bits(claimed) {
            // Every other packet is left for the engine to free.
            if let Some(buffer) =
                burst.get(i).is_some_and(|b| b.data()[0] & 1 == 0).then(|| burst.take(i)).flatten()
                && let Some(old) = self.held.replace(buffer)
            {
                cx.free(old);
            }
        }
    }
}

impl TestBlock {
    /// Whether task `i` is taken away here; for blockers, parents and wakers, does what they do.
    fn takes(&mut self, cx: &mut Cx<'_>, i: usize, bytes: &[u8], decision: u64) -> bool {
        let chance = decision >> 32 & 3;
        match self.kind {
            Kind::Plain => false,
            Kind::Eater | Kind::Sender => chance == 0,
            // Some move everything, so that whole batches are handed over.
            Kind::Mover => self.seed & 6 == 0 || chance < 2,
            Kind::Parent => {
                if chance == 0 {
                    spawn_child(cx, bytes, decision);
                }
                false
            }
            Kind::Blocker => {
                let blocks = chance < 3 && self.blocked.insert(bytes.to_vec());
                if blocks {
                    cx.block(i, decision % 2);
                }
                blocks
            }
            Kind::Waker => {
                cx.notify(0, decision % 2);
                false
            }
        }
    }
}

/// A packet's last byte is its generation; the third has no children, nor have tasks without a
/// packet.
fn spawn_child(cx: &mut Cx<'_>, bytes: &[u8], decision: u64) {
    let Some((generation, _)) = bytes.split_last().filter(|(g, _)| **g < 2) else { return };
    let child = (decision & 4 == 0).then(|| cx.alloc()).flatten().map(|mut buffer| {
        buffer.append(&decision.to_le_bytes());
        buffer.append(&[generation + 1]);
        buffer
    });
    let priority = if decision & 8 == 0 { Priority::High } else { Priority::Low };
    let delay = if decision & 16 == 0 { 0 } else { decision >> 8 & 0xff };
    cx.spawn_new(0, child, delay, priority);
}

/// A packet of generation 0.
pub(crate) fn packet(pool: &mut PoolCache, id: u64) -> Buffer {
    let mut buffer = pool.alloc().expect("the pool is large enough for the test");
    assert!(buffer.append(&id.to_be_bytes()) && buffer.append(&[0]));
    buffer
}

pub(crate) fn pool(frames: u32) -> Pool {
    let config = PoolConfig { frames, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).expect("a small pool")
}

/// A node of a random graph. Numbers are reduced to what is possible where it stands.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) kind: u8,
    pub(crate) targets: Vec<u16>,
    pub(crate) spawn: u16,
    pub(crate) seed: u64,
}

/// Kinds below this have no state.
pub(crate) const STATELESS: u8 = 17;
pub(crate) const KINDS: u8 = 21;
/// Where a shortcut begins, and where it goes on.
pub(crate) const QUICK_KINDS: [u8; 2] = [21, 22];

fn shape(kind: u8) -> (NodeKind, &'static str) {
    match kind {
        0..=2 => (NodeKind::Function, "Two"),
        3 => (NodeKind::Function, "One"),
        4 | 5 => (NodeKind::Function, "Three"),
        6 => (NodeKind::Function, "Needy"),
        7 => (NodeKind::Function, "Eater"),
        8 => (NodeKind::Function, "Sender"),
        9 => (NodeKind::Operator(Op::Nand), ""),
        10 => (NodeKind::Operator(Op::Nor), ""),
        11 | 12 => (NodeKind::Operator(Op::And), ""),
        13 | 14 => (NodeKind::Operator(Op::Or), ""),
        15 => (NodeKind::Function, "Mover"),
        16 => (NodeKind::Function, "Parent"),
        17 | 18 => (NodeKind::Function, "Blocker"),
        21 => (NodeKind::Function, "Quick"),
        22 => (NodeKind::Function, "Swift"),
        _ => (NodeKind::Function, "Waker"),
    }
}

/// Builds a graph of the specs: edges lead from earlier to later ones. `reverse` adds them to the
/// graph the other way round, so that its order is not that of adding.
pub(crate) fn graph(specs: &[NodeSpec], reverse: bool) -> Verified {
    let mut specs = specs.to_vec();
    let n = specs.len();
    // Spawn edges lead forwards, so that every run ends; the last node has nowhere to spawn to.
    if matches!(shape(specs[n - 1].kind).1, "Mover" | "Parent") {
        specs[n - 1].kind = 0;
    }
    let specs = &specs;
    let id = |i: usize| NodeId(if reverse { n - 1 - i } else { i } as u32);
    let mut nodes: Vec<Node> = Vec::with_capacity(n);
    for (i, spec) in specs.iter().enumerate() {
        nodes.push(random_node(specs, i, spec, &id));
    }
    if reverse {
        nodes.reverse();
    }
    let mut graph = Graph::new("random");
    nodes.into_iter().for_each(|node| {
        graph.add(node);
    });
    verify(graph).expect("random graphs are sound")
}

fn random_node(
    specs: &[NodeSpec],
    i: usize,
    spec: &NodeSpec,
    id: &dyn Fn(usize) -> NodeId,
) -> Node {
    let (kind, implementation) = shape(spec.kind);
    let mut node = Node::new(format!("n{i}"), kind.clone());
    let operator = |k: u8| matches!(shape(k).0, NodeKind::Operator(_));
    let names: Vec<&str> = match kind {
        NodeKind::Operator(_) => vec!["false", "true"],
        _ => {
            // A node with a parameter of its own is not on the usual way.
            if !QUICK_KINDS.contains(&spec.kind) || spec.seed % 16 == 1 {
                node.attrs.push(Attr::parse(&format!("seed={}", spec.seed)));
            }
            node.implementation = Some(implementation.into());
            let all = registry().iter().find(|t| t.name == implementation);
            let mut names: Vec<&str> =
                all.expect("registered").ports.iter().map(|p| p.name).collect();
            // A graph may list ports in another order than the type.
            if names.len() == 3 {
                names.rotate_left(spec.seed as usize % 3);
            }
            names
        }
    };
    node.ports = names.iter().map(|n| Port { name: (*n).into(), ..Port::default() }).collect();
    let later = specs.len() - i - 1;
    for (nth, target) in spec.targets.iter().enumerate().filter(|_| later > 0) {
        let to = i + 1 + *target as usize % later;
        let port = nth % node.ports.len();
        let boolean = matches!(node.ports[port].name.as_str(), "true" | "false");
        if boolean || !operator(specs[to].kind) {
            node.ports[port].targets.push(id(to));
        }
    }
    if spec.seed & 1 == 0 && !operator(spec.kind) {
        let name = node.ports[0].name.clone();
        node.attrs.push(Attr::Drop { port: name, reason: format!("reason {i}") });
    }
    if i == 0 {
        node.attrs.extend([Attr::Source, Attr::Init]);
    }
    let to = if later == 0 { i } else { i + 1 + spec.spawn as usize % later };
    let edge = |label: &str| Edge { label: label.into(), target: id(to), predicates: Vec::new() };
    let used = registry().iter().find(|t| t.name == implementation);
    if let Some(t) = used {
        node.spawns = t.spawns.iter().map(|l| edge(l)).collect();
        node.spawns.reverse();
        let blockers = (0..specs.len()).filter(|k| shape(specs[*k].kind).1 == "Blocker");
        let blockers: Vec<usize> = blockers.collect();
        let target = blockers.get(spec.spawn as usize % blockers.len().max(1)).copied();
        let target = id(target.unwrap_or(i));
        let notify = |l: &&str| Edge { label: (*l).into(), target, predicates: Vec::new() };
        node.notifies = t.notifies.iter().map(notify).collect();
    }
    node
}
