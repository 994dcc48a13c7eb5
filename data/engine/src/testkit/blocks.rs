//! The blocks: deciders, and those that take packets away, wait, wake and keep count; a row of blocks,
//! and the compiler of runs past them.

use std::collections::HashSet;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Build, BuildError, Burst, CompiledRun, Cx, Env, Mask, NodeWay, ParamDoc,
    PortDoc, Ports, Priority, Registry, RunCompiler, RunProgram, RunStart, Shortcut, State,
    StateKind, Ways, bits,
};
use weever_graph::{Effects, NodeId, NodeKind};
use weever_packet::Buffer;

use super::hash;

const fn port(name: &'static str) -> PortDoc {
    PortDoc { name, doc: "" }
}

const SEED: ParamDoc = ParamDoc { name: "seed", default: "0", doc: "" };
const BOOLEAN: &[PortDoc] = &[port("false"), port("true")];

pub(super) const PLAIN: BlockType = BlockType {
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
/// Wakes the tasks that wait for key 7.
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

pub(crate) fn registry() -> Registry {
    Registry::new()
        .with(&[
            &TWO, &ONE, &ECHO, &PASS_ON, &THREE, &NEEDY, &EATER, &SENDER, &MOVER, &PARENT,
            &BLOCKER, &WAKER, &KEEPER, &GATE, &BELL, &ONLY, &QUICK, &SWIFT,
        ])
        .with_compiler(&QuickAndSwift)
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
            // Some later.
            Kind::Mover => cx.spawn_later(1, claimed, self.seed >> 8 & 0x3f),
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
    /// Whether task `i` is taken away here; for blockers, parents and wakers, acts as they do.
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

/// Compiles a run at each Quick: past the first Swift behind its port `true`, if there is one, and past Quick alone.
#[derive(Clone, Copy, Debug)]
struct QuickAndSwift;

impl RunCompiler for QuickAndSwift {
    fn compile(&self, start: &RunStart<'_>) -> Option<CompiledRun> {
        let node = start.graph.node(start.node);
        if !is(start, start.node, &QUICK) || node.param("seed").is_some() {
            return None;
        }
        let port = |name| Some((start.node, node.port(name)? as u32));
        let (no, yes) = (port("false")?, port("true")?);
        // A way that tasks do not reach the end of is closed by the engine.
        let past = behind(start, yes.1).find_map(|id| {
            let left = start.graph.node(id).port("false")?;
            is(start, id, &SWIFT).then_some((id, left as u32))
        });
        let both: NodeWay = past.map_or(NodeWay::new(), |past| vec![yes, past]);
        // Swift is an end of the last one, where there is a Swift.
        Some(CompiledRun {
            ways: vec![both, vec![no], vec![yes]],
            counters: Vec::new(),
            program: Arc::new(*self),
        })
    }

    fn before(&self, _: &RunStart<'_>) -> u64 {
        0
    }
}

fn is(start: &RunStart<'_>, id: NodeId, block: &'static BlockType) -> bool {
    (start.type_of)(id).is_some_and(|found| found.name == block.name)
}

/// The nodes behind a port, and behind the operators there.
fn behind<'a>(start: &'a RunStart<'a>, port: u32) -> impl Iterator<Item = NodeId> + 'a {
    let first = &start.graph.node(start.node).ports[port as usize].targets;
    let mut ahead: Vec<NodeId> = first.iter().rev().copied().collect();
    std::iter::from_fn(move || {
        let id = ahead.pop()?;
        let node = start.graph.node(id);
        if matches!(node.kind, NodeKind::Operator(_)) {
            ahead.extend(node.ports.iter().flat_map(|port| &port.targets));
        }
        Some(id)
    })
}

impl RunProgram for QuickAndSwift {
    fn executor(&self, _: &Env) -> Result<Box<dyn Shortcut>, BuildError> {
        Ok(Box::new(*self))
    }
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
impl Shortcut for QuickAndSwift {
    fn run(&mut self, _: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        for i in bits(input) {
            assert!(burst.get(i).is_some(), "a run gets packets only");
            if hash(13, burst.get(i).map_or(&[], Buffer::data)) & 7 != 0 {
                let way = match (decide(QUICK_SEED, burst, i), decide(SWIFT_SEED, burst, i)) {
                    (true, false) => 0,
                    (false, _) => 1,
                    (true, true) => 2,
                };
                ways.take(way, i);
            }
        }
    }
}
