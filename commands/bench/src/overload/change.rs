//! A change of twenty blocks in a graph of ten thousand: its cost for the worker and for the thread
//! that makes it.
//!
//! A worker changes its graph between two bursts, before it looks at its queues. So a change calls no device, and
//! the figure on a veth differs from that in memory by one look at an empty ring.

use std::sync::Arc;
use std::time::Instant;

use weever_block::Env;
use weever_engine::{Limits, Member, MemberQueue, Publisher, Team, TeamError, Worker};
use weever_graph::change::{Change, EdgeName, Outlet, Waiting};
use weever_graph::{Attr, ChangeSet, Graph, Node, NodeId, NodeKind, Port};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::Pool;

use super::flood::pool;
use crate::samples::{Plan, quantile};
use crate::{BenchError, Report, Samples};

/// Chains of counters, and the length of each.
const CHAINS: usize = 100;
const LENGTH: usize = 100;
/// Blocks that come and go with each change, in a chain each.
const BLOCKS: usize = 20;
/// Changes in a round.
const CHANGES: usize = 20;
/// Changes whose turns are counted: one is like the other, and the control thread's part takes long under callgrind.
const COUNTED: usize = 4;

pub(super) fn measure(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    report.setup(format!(
        "change_10k_us: {BLOCKS} blocks come and go in a graph of {}, one worker",
        CHAINS * LENGTH
    ));
    let (mut left, _right) = pair(&MemoryConfig::default()).map_err(BenchError::of("link"))?;
    measure_on(left.take_queues(), pool()?, "", plan, report)
}

/// Adds the figures of a worker with these queues, which receive into the pool; their keys end with `on`.
pub(super) fn measure_on(
    queues: Vec<Box<dyn LinkQueue>>,
    pool: Pool,
    on: &str,
    plan: Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    let mut stage = Stage::new(queues, pool).map_err(BenchError::of("team"))?;
    // The first changes make room for the nodes that come and go.
    stage.changes().map_err(BenchError::of("change"))?;
    let (mut worst, mut middle, mut control) = <(Samples, Samples, Samples)>::default();
    for _ in plan.rounds() {
        let [worker, made] = stage.changes().map_err(BenchError::of("change"))?;
        worst.push(quantile(&worker, 0.99).unwrap_or_default());
        middle.push(quantile(&worker, 0.5).unwrap_or_default());
        control.push(quantile(&made, 0.5).unwrap_or_default() / 1000.0);
    }
    report.row(&format!("change_10k{on}: the worker's turn with the change, p50"), "µs", &middle);
    report.ratio(&format!("change_10k_control_ms{on}"), "ms", &control);
    report.ratio(&format!("change_10k_us{on}"), "µs", &worst);
    Ok(())
}

/// A worker without a thread, so that its turns can be timed.
struct Stage {
    worker: Worker,
    publisher: Arc<Publisher>,
    now: u64,
}

impl Stage {
    fn new(queues: Vec<Box<dyn LinkQueue>>, pool: Pool) -> Result<Stage, TeamError> {
        let queue = |queue| MemberQueue { link: 0, source: name(0, 0), queue };
        let member = Member {
            name: "worker-0".into(),
            pool: pool.cache(),
            limits: Limits::within(pool.frames()),
            queues: queues.into_iter().map(queue).collect(),
        };
        let env = Arc::new(Env::new());
        let registry = weever_blocks_std::registry();
        let Team { mut workers, publisher } = Team::build(graph(), registry, env, vec![member])?;
        Ok(Stage { worker: workers.remove(0), publisher, now: 0 })
    }

    /// Makes changes; how long each took the worker and the control thread, in microseconds.
    fn changes(&mut self) -> Result<[Vec<f64>; 2], TeamError> {
        let (mut worker, mut control) = (Vec::new(), Vec::new());
        for number in 0..CHANGES {
            let started = Instant::now();
            self.publish(number)?;
            control.push(started.elapsed().as_secs_f64() * 1e6);
            let started = Instant::now();
            self.turn();
            worker.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok([worker, control])
    }

    /// The control thread's part of a change: blocks come with an even number and go with an odd one.
    fn publish(&self, number: usize) -> Result<(), TeamError> {
        let changes = if number.is_multiple_of(2) { blocks_come() } else { blocks_go() };
        self.publisher.change(&changes).map(drop)
    }

    /// The worker's part.
    fn turn(&mut self) {
        self.now += 1;
        self.worker.turn(self.now);
    }
}

/// Changes of which `counted` runs the worker's turns; returns how many.
pub(crate) fn turns(
    counted: impl Fn(&mut dyn FnMut()) -> Result<(), BenchError>,
) -> Result<usize, BenchError> {
    let (mut left, _right) = pair(&MemoryConfig::default()).map_err(BenchError::of("link"))?;
    let mut stage = Stage::new(left.take_queues(), pool()?).map_err(BenchError::of("team"))?;
    // The first two make room for the nodes that come and go.
    for number in 0..2 + COUNTED {
        stage.publish(number).map_err(BenchError::of("change"))?;
        if number < 2 {
            stage.turn();
        } else {
            counted(&mut || stage.turn())?;
        }
    }
    Ok(COUNTED)
}

fn name(chain: usize, place: usize) -> String {
    format!("C{chain}N{place}")
}

fn counter(name: String) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.implementation = Some("Counter".into());
    node.ports.push(Port { name: "out".into(), ..Port::default() });
    node
}

fn graph() -> Graph {
    let mut graph = Graph::new("ten thousand");
    for chain in 0..CHAINS {
        for place in 0..LENGTH {
            let mut node = counter(name(chain, place));
            if place == 0 {
                node.attrs.push(Attr::Source);
            }
            if place + 1 < LENGTH {
                node.ports[0].targets.push(NodeId((chain * LENGTH + place + 1) as u32));
            }
            graph.add(node);
        }
    }
    graph
}

fn blocks_come() -> ChangeSet {
    let splice = |chain| {
        let edge = EdgeName::new(name(chain, 0), Outlet::port("out"), name(chain, 1));
        let node = Box::new(counter(format!("New{chain}")));
        Change::Splice { node, out: "out".into(), edge }
    };
    ChangeSet { changes: (0..BLOCKS).map(splice).collect() }
}

fn blocks_go() -> ChangeSet {
    let mut changes = Vec::new();
    for chain in 0..BLOCKS {
        let node = format!("New{chain}");
        changes.push(Change::Remove { node, waiting: Waiting::default() });
        let edge = EdgeName::new(name(chain, 0), Outlet::port("out"), name(chain, 1));
        changes.push(Change::Bind { edge, predicates: Vec::new() });
    }
    ChangeSet { changes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_and_go() {
        let (mut left, _right) = pair(&MemoryConfig::default()).unwrap();
        let mut stage = Stage::new(left.take_queues(), pool().unwrap()).unwrap();
        let nodes = stage.publisher.graph().len();
        for (changes, more) in [(blocks_come(), BLOCKS), (blocks_go(), 0)] {
            stage.publisher.change(&changes).unwrap();
            stage.turn();
            assert_eq!(stage.publisher.graph().len(), nodes + more);
        }
        assert_eq!(stage.worker.engine().counters().faults(), []);
    }
}
