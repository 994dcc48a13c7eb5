//! `weever bench live`: the effect of changes of the running graph on the packets.
//!
//! A worker echoes numbered datagrams as fast as it can, on a core of its own; the control thread,
//! on the other core, applies graphs that differ by twenty blocks, in turns. The link makes the
//! datagrams and looks at the answers' numbers, in the worker's own thread: it is never short of
//! packets, so any missing number was lost by a change, and any time without a poll is a gap in the
//! service.

mod link;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use weever_engine::{Mode, Published, Publisher, Team, Worker};
use weever_graph::change::{Change, EdgeName, Outlet};
use weever_graph::{ChangeSet, Graph, Node, NodeKind, Port, apply};
use weever_link::replay::ReplayConfig;
use weever_link::{LinkInfo, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::{allowed_cores, pin_to};
use weever_wire::MacAddr;

use crate::contender::ThreadUse;
use crate::peers::{self, Leg};
use crate::samples::Plan;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};
use link::{NumberedQueue, Seen};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const PORT: u16 = 7;
/// Blocks that come and go with each change.
const BLOCKS: usize = 20;
/// Changes in a round.
const CHANGES: usize = if cfg!(debug_assertions) { 50 } else { 1000 };
/// How much longer than a change its window is: the aftermath counts too.
const AFTER: Duration = Duration::from_micros(500);

/// The results of a round. Gaps are in microseconds, each the longest of a window.
#[derive(Default)]
struct Round {
    changed: Vec<f64>,
    quiet: Vec<f64>,
    took: Vec<f64>,
    /// Windows left out, of either kind.
    disturbed: usize,
}

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let cores = allowed_cores().map_err(BenchError::of("cores"))?;
    let [control, worker, ..] = cores[..] else {
        return Err(BenchError::Cores { bench: "live", cores: cores.len() });
    };
    pin_to(control).map_err(BenchError::of("cores"))?;
    let mut report = Report::new("live");
    report.setup(format!("worker on core {worker}, busy; control thread on core {control}"));
    report.setup(format!("UDP echo; {BLOCKS} counters come and go in front of the echo service"));
    report
        .setup(format!("{CHANGES} changes in a round, as many windows of the same length without"));
    let (seen, stage) = Stage::start(worker)?;
    let mut totals = Totals::default();
    for _ in plan.rounds() {
        seen.rate_since_last();
        totals.add(&stage.round()?);
        totals.rates.push(seen.rate_since_last());
    }
    stage.stop()?;
    totals.report(&mut report, &seen);
    Ok(report)
}

/// A worker on its thread, and the publisher of its graph.
struct Stage {
    publisher: Arc<Publisher>,
    graphs: [Graph; 2],
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
    /// The thread's number.
    number: Arc<AtomicI32>,
    waker: weever_engine::Waker,
}

impl Stage {
    fn start(core: usize) -> Result<(Arc<Seen>, Stage), BenchError> {
        let [plain, longer] = graphs()?;
        let seen = Arc::new(Seen::default());
        let frame = udp_frame((PEER_MAC, PEER, HOST_MAC, HOST), PORT, 60);
        let frame = frame.map_err(BenchError::of("frame"))?;
        let queue = Box::new(NumberedQueue::new(frame, Arc::clone(&seen)));
        let Team { mut workers, publisher } = team(plain.clone(), queue)?;
        let mut worker: Worker = workers.remove(0);
        let (waker, stop) = (worker.waker(), Arc::new(AtomicBool::new(false)));
        let (stopped, number) = (Arc::clone(&stop), Arc::new(AtomicI32::new(0)));
        let own = Arc::clone(&number);
        let work = move || {
            own.store(ThreadUse::of_this_thread(), Ordering::Relaxed);
            // On the wrong core it would measure the scheduler: better nothing than that.
            if pin_to(core).is_ok() {
                worker.run(&stopped, Mode::Busy, |_| ());
            }
        };
        let thread = std::thread::Builder::new().name("worker".into()).spawn(work);
        let thread = thread.map_err(BenchError::of("worker"))?;
        let graphs = [longer, plain];
        let seen_too = Arc::clone(&seen);
        let stage = Stage { publisher, graphs, seen: seen_too, stop, thread, number, waker };
        stage.wait_until_it_runs()?;
        Ok((seen, stage))
    }

    fn wait_until_it_runs(&self) -> Result<(), BenchError> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.seen.answers() == 0 {
            if Instant::now() > deadline {
                return Err(BenchError::of("weever")("no datagram was answered"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn round(&self) -> Result<Round, BenchError> {
        let mut round = Round::default();
        for change in 0..CHANGES {
            let before = self.preempted()?;
            self.seen.longest_gap();
            let started = Instant::now();
            let published = self.publisher.replace(self.graphs[change % 2].clone());
            let Published { steps, .. } = published.map_err(BenchError::of("change"))?;
            let took = started.elapsed();
            if steps < BLOCKS {
                return Err(BenchError::of("change")(format!("{steps} steps for {BLOCKS} blocks")));
            }
            spin_for(AFTER);
            let gap = self.seen.longest_gap();
            let between = self.preempted()?;
            round.note(gap, before != between, |round| &mut round.changed);
            round.took.push(took.as_nanos() as f64 / 1e3);
            self.seen.longest_gap();
            spin_for(took + AFTER);
            let gap = self.seen.longest_gap();
            round.note(gap, self.preempted()? != between, |round| &mut round.quiet);
        }
        Ok(round)
    }

    /// How often the worker has lost its core to somebody else.
    fn preempted(&self) -> Result<u64, BenchError> {
        let used = ThreadUse::read(self.number.load(Ordering::Relaxed));
        Ok(used.map_err(BenchError::of("worker"))?.preempted)
    }

    fn stop(self) -> Result<(), BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join().map_err(|_| BenchError::of("worker")("it panicked"))
    }
}

impl Round {
    /// A window in which the scheduler gave the core to somebody else says nothing about changes. One
    /// in which the worker waited for a lock does, and that is a switch of the other kind.
    fn note(&mut self, gap: f64, disturbed: bool, of: fn(&mut Round) -> &mut Vec<f64>) {
        if disturbed {
            self.disturbed += 1;
        } else {
            of(self).push(gap);
        }
    }
}

/// Both kinds of window have the control thread busy: only the change is to make the difference.
fn spin_for(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The graph without and with the blocks that come and go.
pub(crate) fn graphs() -> Result<[Graph; 2], BenchError> {
    let plain = weever_models::host(&HostConfig::serving(Service::Echo, PORT));
    let plain = plain.map_err(BenchError::of("host graph"))?;
    let longer = with_blocks(&plain).map_err(BenchError::of("host graph"))?;
    Ok([plain, longer])
}

/// A team of one worker with one queue.
pub(crate) fn team(graph: Graph, queue: Box<dyn LinkQueue>) -> Result<Team, BenchError> {
    let config = PoolConfig { frames: 4096, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    let link = LinkInfo { mac: HOST_MAC.0, ..ReplayConfig::new(Vec::new()).info };
    let (address, neighbour) = (HOST, (PEER, PEER_MAC.0));
    let leg = Leg { link, queues: vec![queue], address, neighbour };
    let mut host = peers::host(graph, HOST_SOURCE, vec![leg], pool)?;
    let publisher = Arc::clone(&host.handle().publisher);
    Ok(Team { workers: host.take_workers(), publisher })
}

/// The graph with counters in front of the echo service.
fn with_blocks(graph: &Graph) -> Result<Graph, weever_graph::ChangeError> {
    let splice = |number: usize| {
        let mut node = Node::new(format!("Live{number}"), NodeKind::Function);
        node.implementation = Some("Counter".into());
        node.ports.push(Port { name: "out".into(), ..Port::default() });
        let edge = EdgeName::new("RxL4UDPSockets", Outlet::port("echo"), "RxL4UDPEcho");
        let edge = match number {
            0 => edge,
            n => EdgeName::new(format!("Live{}", n - 1), Outlet::port("out"), "RxL4UDPEcho"),
        };
        Change::Splice { node: Box::new(node), out: "out".into(), edge }
    };
    apply(graph, &ChangeSet { changes: (0..BLOCKS).map(splice).collect() })
}

/// The results of all rounds: a sample for each.
#[derive(Default)]
struct Totals {
    changed: Samples,
    quiet: Samples,
    beyond: Samples,
    middle: Samples,
    took: Samples,
    rates: Samples,
    disturbed: Samples,
}

impl Totals {
    fn add(&mut self, round: &Round) {
        let (changed, quiet) = (quantile(&round.changed, 0.99), quantile(&round.quiet, 0.99));
        self.changed.push(changed);
        self.quiet.push(quiet);
        self.beyond.push((changed - quiet).max(0.0));
        self.middle.push(quantile(&round.changed, 0.5) - quantile(&round.quiet, 0.5));
        self.took.push(quantile(&round.took, 0.5));
        self.disturbed.push(round.disturbed as f64);
    }

    fn report(&self, report: &mut Report, seen: &Seen) {
        report.row("longest gap with a change, p99", "µs", &self.changed);
        report.row("longest gap without, p99", "µs", &self.quiet);
        report.row("the same, beyond, p50", "µs", &self.middle);
        report.row("a change, asked to adopted, p50", "µs", &self.took);
        let of = format!("of {}", 2 * CHANGES);
        report.row("windows left out: the worker lost its core", &of, &self.disturbed);
        report.row("answered meanwhile", "Mpps", &self.rates);
        report.ratio("apply_gap_us", "µs", &self.beyond);
        let lost = (seen.lost() + seen.reordered()) as f64;
        report.ratio("apply_lost", "packets", &Samples(vec![lost]));
    }
}

/// Of a round without changes it is 0.
fn quantile(values: &[f64], share: f64) -> f64 {
    crate::samples::quantile(values, share).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_with_blocks_is_twenty_blocks_longer() {
        let plain = weever_models::host(&HostConfig::serving(Service::Echo, PORT)).unwrap();
        assert_eq!(with_blocks(&plain).unwrap().len(), plain.len() + BLOCKS);
    }

    #[test]
    fn changes_happen_under_load_and_nothing_is_lost() {
        let Some(core) = allowed_cores().unwrap().last().copied() else { return };
        let (seen, stage) = Stage::start(core).unwrap();
        for change in 0..50 {
            let published = stage.publisher.replace(stage.graphs[change % 2].clone()).unwrap();
            assert!(published.steps >= BLOCKS);
        }
        stage.stop().unwrap();
        assert_eq!((seen.lost(), seen.reordered()), (0, 0));
        assert!(seen.answers() > 0);
    }
}
