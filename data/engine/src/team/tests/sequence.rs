//! A block with state of flows, which notices packets that are missing, out of order, or without the state.

use std::cell::Cell;
use std::collections::HashMap;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, FlowClaim, FlowEnds, FlowKey, Mask, PortDoc, Ports, State,
    StateKind, bits,
};
use weever_graph::Effects;

use super::*;
use crate::testkit::mix;

/// Packets are numbered: the flow times this, and its position in the flow.
pub(super) const FLOW: u64 = 1_000_000_000;

const COUNTERS: &[&str] = &["in order", "out of order", "unknown", "full"];
const IN_ORDER: usize = 0;
const OUT_OF_ORDER: usize = 1;
const UNKNOWN: usize = 2;
const FULL: usize = 3;

/// Expects each flow's packets one after the other, from 0 on.
pub(super) static SEQUENCE: BlockType = BlockType {
    name: "Sequence",
    summary: "",
    ports: &[PortDoc { name: "out", doc: "" }],
    spawns: &[],
    notifies: &[],
    effects: Effects::READS.union(Effects::NEEDS_BUFFER),
    state: StateKind::Sharded,
    params: &[],
    counters: COUNTERS,
    make: |_| Ok(Box::new(Sequence::default())),
};

/// A question to the block about its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    MayLeave,
    Export,
    Import,
    List,
}

// For tests whose workers have no threads of their own.
thread_local! {
    /// No flow may leave.
    pub(super) static PINNED: Cell<bool> = const { Cell::new(false) };
    /// The next question of this kind makes the block panic.
    pub(super) static PANICS_AT: Cell<Option<Question>> = const { Cell::new(None) };
    /// How often blocks were asked whether a flow may leave, and for a flow's state.
    pub(super) static ASKED: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

fn note(question: Question) {
    let [mut may_leave, mut export] = ASKED.get();
    may_leave += usize::from(question == Question::MayLeave);
    export += usize::from(question == Question::Export);
    ASKED.set([may_leave, export]);
    if PANICS_AT.get() == Some(question) {
        PANICS_AT.set(None);
        panic!("no answer to {question:?}");
    }
}

/// By key: the flow, and the position of its next packet.
#[derive(Default)]
struct Sequence {
    flows: HashMap<FlowKey, (u64, u64)>,
}

fn number(packet: &Buffer) -> u64 {
    u64::from_be_bytes(packet.data()[52..60].try_into().expect("eight bytes"))
}

pub(super) fn key(flow: u64) -> FlowKey {
    FlowKey::of_hash(mix(flow))
}

impl Block for Sequence {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            let number = burst.get(i).map_or(0, number);
            let (flow, position) = (number / FLOW, number % FLOW);
            if let Some((_, next)) = self.flows.get_mut(&key(flow)) {
                let is_next = *next == position;
                cx.count(if is_next { IN_ORDER } else { OUT_OF_ORDER }, 1);
                *next = position + 1;
            } else if position > 0 {
                cx.count(UNKNOWN, 1);
            } else {
                match cx.claim_flow(key(flow)) {
                    FlowClaim::Mine => {
                        self.flows.insert(key(flow), (flow, 1));
                        cx.count(IN_ORDER, 1);
                    }
                    FlowClaim::Elsewhere(_) => {
                        cx.send_to_owner(i, key(flow));
                        continue;
                    }
                    FlowClaim::Full => cx.count(FULL, 1),
                }
            }
            ports.enable(0, 1 << i);
        }
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        Some(key(number(packet) / FLOW))
    }

    /// Two at once, by the peer's port.
    fn list_flows(&self, from: usize, list: &mut Vec<FlowEnds>) -> Option<usize> {
        note(Question::List);
        let mut flows: Vec<u64> = self.flows.values().map(|(flow, _)| *flow).collect();
        flows.sort_unstable();
        list.extend(flows.iter().skip(from).take(2).map(|flow| FlowEnds {
            key: key(*flow),
            protocol: 17,
            local: ([10, 0, 0, 1], 7).into(),
            remote: ([10, 0, 0, 2], *flow as u16).into(),
        }));
        (from + 2 < flows.len()).then_some(from + 2)
    }

    fn may_leave(&self, _: FlowKey) -> bool {
        note(Question::MayLeave);
        !PINNED.get()
    }

    fn export_flow(&mut self, key: FlowKey) -> Option<State> {
        note(Question::Export);
        Some(Box::new(self.flows.remove(&key)?))
    }

    fn import_flow(&mut self, key: FlowKey, state: State) -> Result<(), State> {
        note(Question::Import);
        let state = *state.downcast::<(u64, u64)>()?;
        assert!(self.flows.insert(key, state).is_none(), "it was nowhere else");
        Ok(())
    }
}

/// `Source`, `Seq`, `Sink`.
pub(super) fn sequence() -> Graph {
    let mut graph = path(&[(0, false)]);
    let id = graph.find("s0").expect("a stage");
    let node = graph.node_mut(id);
    (node.name, node.implementation) = ("Seq".into(), Some("Sequence".into()));
    graph
}

pub(super) fn team(frames: u32, workers: usize) -> Bench {
    let pool = pool(frames);
    let config = MemoryConfig { queues: workers as u16, ring: 512, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits::default(),
        queues: vec![MemberQueue { link: 0, source: SOURCE.into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let registry = registry().with(&[&SEQUENCE]);
    let team = Team::build(sequence(), registry, Arc::new(Env::new()), members).expect("sound");
    Bench { team, peers: right.take_queues(), cache: pool.cache(), pool }
}

/// The sums of the blocks' counters.
pub(super) fn counts(workers: &mut [Worker]) -> [u64; 4] {
    COUNTERS.map_to(|label| {
        let of = |w: &mut Worker| w.engine().counters().get("Seq", CounterKind::Own, label);
        workers.iter_mut().filter_map(of).sum()
    })
}

trait MapTo {
    fn map_to(&self, each: impl FnMut(&str) -> u64) -> [u64; 4];
}

impl MapTo for [&str] {
    fn map_to(&self, mut each: impl FnMut(&str) -> u64) -> [u64; 4] {
        std::array::from_fn(|i| each(self[i]))
    }
}

/// The graph of [`sequence`], with an entrance for packets that other workers cannot handle; or the
/// part of it without `Seq`.
pub(super) fn with_entrance(whole: bool) -> Graph {
    let mut graph = sequence();
    let (source, seq) = (NodeId(0), graph.find("Seq").expect("it is there"));
    let one = |name: &str| {
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some("One".into());
        node
    };
    let out = |to| Port { name: "out".into(), targets: vec![to], ..Port::default() };
    if whole {
        let mut entrance = one("Whole");
        entrance.ports.push(out(seq));
        entrance.attrs.push(Attr::parse("worker=0"));
        graph.add(entrance);
        return graph;
    }
    let mut part = Graph::new("part");
    let mut first = graph.node(source).clone();
    first.ports[0].targets = vec![NodeId(1)];
    part.add(first);
    let mut foreign = one("Foreign");
    foreign.implementation = Some("PassOn".into());
    let target = NodeId(2);
    foreign.spawns.push(Edge { label: "on".into(), target, predicates: Vec::new() });
    part.add(foreign);
    let mut entrance = one("Whole");
    entrance.ports.push(Port { name: "out".into(), ..Port::default() });
    entrance.attrs.push(Attr::parse("worker=0"));
    part.add(entrance);
    part
}

/// Has workers run other parts of the graph. They have turns meanwhile, as they would on
/// threads, and `each` is called after one of all.
pub(super) fn fit(team: &mut Team, part: Arc<crate::Fit>, now: &mut u64, mut each: impl FnMut()) {
    let runs = |workers: &mut [Worker], runs| {
        workers.iter_mut().for_each(|worker| worker.attend(runs));
    };
    runs(&mut team.workers, true);
    let (publisher, workers) = (team.publisher.clone(), &mut team.workers);
    std::thread::scope(|scope| {
        let fit = scope.spawn(|| publisher.fit(Some(part)).map(|_| ()));
        while !fit.is_finished() {
            *now += 1;
            workers.iter_mut().for_each(|worker| drop(worker.turn(*now)));
            each();
            std::thread::yield_now();
        }
        fit.join().expect("it does not panic").expect("a part without `Seq`");
    });
    runs(&mut team.workers, false);
}
