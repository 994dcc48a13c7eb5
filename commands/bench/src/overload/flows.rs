//! Flows with state move between two workers while their packets arrive as fast as they can.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Env, FlowClaim, FlowKey, Mask, PortDoc,
    Ports, Registry, State, StateKind, bits,
};
use weever_engine::{
    CounterKind, Counters, Limits, Member, MemberQueue, Mode, Publisher, Team, TeamError, Waker,
    Worker,
};
use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Port};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Pool, PoolCache, PoolConfig};

use crate::{BenchError, Report, Samples};

const WORKERS: usize = 2;
const FLOWS: usize = 5;
const MOVES: usize = 1000;
/// Packets under way at once, over all flows. All of them fit the ring between the workers, which drops
/// when it is full: packets lost here were lost by a move.
const WINDOW: u64 = 256;
/// How long a move may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(20);

const COUNTERS: &[&str] = &["in order", "out of order", "unknown"];
const IN_ORDER: usize = 0;
const OUT_OF_ORDER: usize = 1;
const UNKNOWN: usize = 2;

const OUT: &[PortDoc] = &[PortDoc { name: "out", doc: "every packet" }];

static ARRIVE: BlockType =
    BlockType::new("Arrive", "Passes packets on.", OUT, |_: &Build<'_>| Ok(Box::new(Arrive)));

/// Expects each flow's packets one after the other.
static SEQUENCE: BlockType = BlockType {
    state: StateKind::Sharded,
    effects: Effects::READS.union(Effects::NEEDS_BUFFER),
    counters: COUNTERS,
    ..BlockType::new("Sequence", "Checks the order of each flow.", OUT, make)
};

fn make(_: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    Ok(Box::new(Sequence::default()))
}

struct Arrive;

impl Block for Arrive {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

#[derive(Default)]
struct Sequence {
    next: HashMap<u64, u64>,
}

/// A packet's flow, and its position in the flow.
fn position(packet: &Buffer) -> (u64, u64) {
    let word = |at: usize| packet.data().get(at..at + 8).and_then(|b| b.try_into().ok());
    (word(0).map_or(0, u64::from_be_bytes), word(8).map_or(0, u64::from_be_bytes))
}

fn key(flow: u64) -> FlowKey {
    FlowKey::of_hash((flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Block for Sequence {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            let (flow, position) = burst.get(i).map_or((0, 0), position);
            match self.next.get_mut(&flow) {
                Some(next) => {
                    cx.count(if *next == position { IN_ORDER } else { OUT_OF_ORDER }, 1);
                    *next = position + 1;
                }
                None if position > 0 => cx.count(UNKNOWN, 1),
                None => match cx.claim_flow(key(flow)) {
                    FlowClaim::Mine => {
                        self.next.insert(flow, 1);
                        cx.count(IN_ORDER, 1);
                    }
                    FlowClaim::Elsewhere(_) => {
                        cx.send_to_owner(i, key(flow));
                        continue;
                    }
                    FlowClaim::Full => cx.count(UNKNOWN, 1),
                },
            }
            ports.enable(0, 1 << i);
        }
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        Some(key(position(packet).0))
    }

    fn export_flow(&mut self, wanted: FlowKey) -> Option<State> {
        let flow = *self.next.keys().find(|flow| key(**flow) == wanted)?;
        Some(Box::new((flow, self.next.remove(&flow)?)))
    }

    fn import_flow(&mut self, _: FlowKey, state: State) -> Result<(), State> {
        let (flow, next) = *state.downcast::<(u64, u64)>()?;
        self.next.insert(flow, next);
        Ok(())
    }
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) moved: usize,
    pub(super) sent: u64,
    pub(super) in_order: u64,
    pub(super) seconds: f64,
}

pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let outcome = moves(MOVES)?;
    report.setup(format!(
        "flow_moves_lost: {FLOWS} flows with state, {} moves between {WORKERS} workers, memory link",
        outcome.moved
    ));
    let mpps = outcome.sent as f64 / outcome.seconds / 1e6;
    report.row("packets of the flows", "Mpps", &Samples(vec![mpps]));
    let each = outcome.seconds / outcome.moved.max(1) as f64 * 1e6;
    report.row("a move of five flows, per flow", "µs", &Samples(vec![each]));
    let lost = outcome.sent as f64 - outcome.in_order as f64;
    report.ratio("flow_moves_lost", "packets", &Samples(vec![lost]));
    Ok(())
}

/// Moves flows to and fro, at least so often, while their packets arrive.
pub(super) fn moves(wanted: usize) -> Result<Outcome, BenchError> {
    let config = PoolConfig { frames: 16_384, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    let (team, mut peers) = team(&pool).map_err(BenchError::of("team"))?;
    let Team { mut workers, publisher } = team;
    let wakers: Vec<Waker> = workers.iter().map(Worker::waker).collect();
    let counters: Vec<_> = workers.iter_mut().map(|worker| worker.engine().counters()).collect();
    let (stop, arrives_at) = (AtomicBool::new(false), Arrivals::default());
    let mut outcome = std::thread::scope(|scope| {
        let _stop_workers = StopOnDrop(&stop, &wakers);
        for worker in &mut workers {
            let stop = &stop;
            scope.spawn(move || worker.run(stop, Mode::default(), |_| ()));
        }
        let mut source = Source {
            peers: &mut peers,
            cache: pool.cache(),
            sent: [0; FLOWS],
            counters: &counters,
        };
        let started = Instant::now();
        // Every flow begins where it arrives.
        (0..FLOWS).for_each(|flow| source.send(flow, &arrives_at, 1));
        let mover = scope.spawn(|| mover(&publisher, &arrives_at, wanted));
        let mut flow = 0;
        while !mover.is_finished() {
            flow = (flow + 1) % FLOWS;
            source.send(flow, &arrives_at, 64);
        }
        let moved = mover.join().map_err(|_| BenchError::of("moves")("the mover panicked"))??;
        let seconds = started.elapsed().as_secs_f64();
        let sent = source.sent.iter().sum();
        // Packets under way arrive.
        let until = Instant::now() + PATIENCE;
        while source.unread() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        Ok::<_, BenchError>(Outcome { moved, sent, in_order: 0, seconds })
    })?;
    outcome.in_order = counted(&counters, &COUNTERS[IN_ORDER..=IN_ORDER]);
    Ok(outcome)
}

/// The packets that all workers have counted under these names.
fn counted(workers: &[Arc<Counters>], names: &[&str]) -> u64 {
    let count = |counters: &Arc<Counters>, name| counters.get("Sequence", CounterKind::Own, name);
    let all = workers.iter().flat_map(|counters| names.iter().map(move |name| (counters, name)));
    all.filter_map(|(counters, name)| count(counters, name)).sum()
}

/// By flow, the queue at which its packets arrive.
#[derive(Default)]
struct Arrivals([Mutex<usize>; FLOWS]);

impl Arrivals {
    fn of(&self, flow: usize) -> std::sync::MutexGuard<'_, usize> {
        self.0[flow].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mover(
    publisher: &Arc<Publisher>,
    arrives_at: &Arrivals,
    wanted: usize,
) -> Result<usize, BenchError> {
    let stuck = |what: &str| BenchError::of("moves")(what.to_owned());
    let owners = publisher.flow_owners("Sequence").map_err(BenchError::of("moves"))?;
    let until = Instant::now() + PATIENCE;
    while owners.len() < FLOWS {
        if Instant::now() > until {
            return Err(stuck("not every flow has begun"));
        }
        std::thread::yield_now();
    }
    let mut moved = 0;
    while moved < wanted {
        let to = |flow: usize| (1 - *arrives_at.of(flow)) as u16;
        let moves: Vec<_> = (0..FLOWS).map(|flow| (key(flow as u64), to(flow))).collect();
        let moves = publisher.begin_moves("Sequence", &moves).map_err(BenchError::of("moves"))?;
        if !moves.wait_begun(PATIENCE) {
            return Err(stuck("a worker has not begun a move"));
        }
        for flow in 0..FLOWS {
            let mut at = arrives_at.of(flow);
            *at = 1 - *at;
        }
        moves.redirected();
        let outcome = moves.wait(PATIENCE);
        if outcome.open > 0 {
            return Err(stuck("a flow has not arrived"));
        }
        moved += outcome.moved;
    }
    Ok(moved)
}

/// Makes the flows' packets.
struct Source<'a> {
    peers: &'a mut [Box<dyn LinkQueue>],
    cache: PoolCache,
    sent: [u64; FLOWS],
    counters: &'a [Arc<Counters>],
}

impl Source<'_> {
    /// Sends packets of a flow to where they are to arrive now, as far as there is room.
    fn send(&mut self, flow: usize, arrives_at: &Arrivals, packets: usize) {
        let under_way = self.sent.iter().sum::<u64>() - counted(self.counters, COUNTERS);
        if under_way + packets as u64 > WINDOW {
            std::thread::yield_now();
            return;
        }
        let mut frames = VecDeque::new();
        for position in self.sent[flow]..self.sent[flow] + packets as u64 {
            let Some(mut buffer) = self.cache.alloc() else { break };
            let fits = buffer.append(&(flow as u64).to_be_bytes())
                && buffer.append(&position.to_be_bytes())
                && buffer.append(&[0; 44]);
            debug_assert!(fits, "sixty bytes fit a frame");
            frames.push_back(buffer);
        }
        // Held while it is sent: packets sent before a redirection are in the queue by then.
        let at = arrives_at.of(flow);
        let queue = &mut self.peers[*at];
        let sent = queue.tx(&mut self.cache, &mut frames).unwrap_or(0);
        drop(queue.flush(&mut self.cache));
        drop(at);
        self.sent[flow] += sent as u64;
        frames.into_iter().for_each(|frame| self.cache.free(frame));
    }

    /// Whether workers have not taken everything yet.
    fn unread(&self) -> bool {
        self.peers.iter().any(|queue| queue.unsent())
    }
}

/// Ends the workers, also after an error.
struct StopOnDrop<'a>(&'a AtomicBool, &'a [Waker]);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.iter().for_each(Waker::wake);
    }
}

/// `Arrive` and `Sequence` on two workers, with a queue each; the other ends of the queues.
fn team(pool: &Pool) -> Result<(Team, Vec<Box<dyn LinkQueue>>), TeamError> {
    let mut graph = Graph::new("flows");
    let out = |targets| Port { name: "out".into(), targets, ..Port::default() };
    let mut arrive = Node::new("Arrive", NodeKind::Function);
    arrive.attrs.push(Attr::Source);
    arrive.ports.push(out(vec![NodeId(1)]));
    graph.add(arrive);
    let mut sequence = Node::new("Sequence", NodeKind::Function);
    sequence.ports.push(out(Vec::new()));
    sequence.attrs.push(Attr::Param { key: weever_graph::ENDS.into(), value: "out".into() });
    graph.add(sequence);
    let config = MemoryConfig { queues: WORKERS as u16, ring: 512, ..MemoryConfig::default() };
    let failed = |source| TeamError::Worker { worker: "memory link".into(), source };
    let (mut left, mut right) = pair(&config).map_err(failed)?;
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits::within(pool.frames()),
        queues: vec![MemberQueue { link: 0, source: "Arrive".into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let registry = Registry::new().with(&[&ARRIVE, &SEQUENCE]);
    let team = Team::build(graph, registry, Arc::new(Env::new()), members)?;
    Ok((team, right.take_queues()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_flows_lose_nothing() {
        let outcome = moves(25).unwrap();
        assert!(outcome.moved >= 25 && outcome.sent > 0, "{outcome:?}");
        assert_eq!(outcome.sent, outcome.in_order, "{outcome:?}");
    }
}
