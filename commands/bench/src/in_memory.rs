//! `weever bench engine`: the cost of the graph, without a device.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_engine::{Entry, Worker};
use weever_graph::nic::FlowType;
use weever_graph::{Attr, Field, Graph, Node, NodeId, NodeKind, Port, Predicate, verify};
use weever_link::replay::{ReplayConfig, ReplayLink};
use weever_link::{Link, LinkQueue};
use weever_models::counters::{HOST_SOURCE, SOURCE, chain};
use weever_models::{HostConfig, Service, host};
use weever_packet::{BURST, Burst, Pool, PoolCache, PoolConfig, first_n};
use weever_plan::flow::{Conj, Kinds};
use weever_plan::simplify::{ForeignPackets, HandOver, QueueFacts, simplify};
use weever_wire::MacAddr;

use crate::peers::{self, Leg};
use crate::samples::Plan;
use crate::traffic::{UDP_CHECKSUM, udp_frame};
use crate::{BenchError, Report, Samples};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PORT: u16 = 9;
/// Lengths of the chains of `counter` blocks.
const CHAINS: [usize; 5] = [1, 5, 10, 25, 50];
const BATCHES: [usize; 2] = [BURST, 1];

/// Something that consumes the replayed packets, a batch per call.
pub(crate) struct Contender {
    name: String,
    batch: usize,
    queue: Box<dyn LinkQueue>,
    work: Work,
    samples: Samples,
}

enum Work {
    /// Only the link: receive and free. Its cost is in every other figure too.
    Link(PoolCache),
    /// A host's worker, whose engine is fed by hand, and where packets enter it.
    Engine(Box<Worker>, Entry),
}

/// Measures every contender; with `only`, those with that in their names: for a profiler.
pub(crate) fn run(plan: Plan, only: Option<&str>) -> Result<Report, BenchError> {
    let mut contenders = contenders()?;
    contenders.retain(|c| only.is_none_or(|only| c.name.contains(only)));
    let plan = Plan { rounds: plan.rounds + 1, ..plan };
    for round in plan.rounds() {
        for contender in &mut contenders {
            let ns = contender.measure(plan.each)?;
            // The first round warms caches and fills pools.
            if round > 0 {
                contender.samples.push(ns);
            }
        }
    }
    Ok(report(&contenders))
}

fn report(contenders: &[Contender]) -> Report {
    let mut report = Report::new("engine");
    report.setup("memory link that replays one 60-byte UDP frame, one thread, no device");
    report.setup("every figure includes the link: alloc, copy of the frame, free");
    report.setup("host graph: all of it up to a UDP socket; UDP echo: and back out by the link");
    report.setup(
        "simplified graph: the part of a worker whose queue gets only IPv4 UDP to that port",
    );
    report.setup("split graph: the host graph with a counter and a capture in its receive path");
    for contender in contenders {
        report.row(&contender.name, "ns/packet", &contender.samples);
    }
    let of = |name: &str| contenders.iter().find(|c| c.name == name).map(|c| &c.samples);
    for (key, name) in [
        ("graph_ns", "host graph, batch 64"),
        ("graph_ns_batch1", "host graph, batch 1"),
        ("simplified_ns", "simplified graph, batch 64"),
        ("simplified_ns_batch1", "simplified graph, batch 1"),
        ("echo_ns", "UDP echo, batch 64"),
        ("echo_ns_batch1", "UDP echo, batch 1"),
    ] {
        if let Some(samples) = of(name) {
            report.ratio(key, "ns/packet", samples);
        }
    }
    for (key, one, other) in [
        ("batch1_vs_batch64", "UDP echo, batch 1", "UDP echo, batch 64"),
        ("generic_vs_shortcut", "split graph, batch 64", "host graph, batch 64"),
    ] {
        if let (Some(one), Some(other)) = (of(one), of(other)) {
            report.ratio(key, "ratio", &one.ratio(other));
        }
    }
    for batch in BATCHES {
        let ends = (of(&chain_name(50, batch)), of(&chain_name(1, batch)));
        if let (Some(long), Some(short)) = ends {
            let slope = long.0.iter().zip(&short.0).map(|(l, s)| (l - s) / 49.0).collect();
            report.ratio(&format!("block_ns_batch{batch}"), "ns/packet/block", &Samples(slope));
        }
    }
    report
}

fn chain_name(blocks: usize, batch: usize) -> String {
    format!("{blocks} counters, batch {batch}")
}

fn contenders() -> Result<Vec<Contender>, BenchError> {
    let mut all = Vec::new();
    for batch in BATCHES {
        all.push(Contender::link(batch)?);
        for (what, service) in [("host graph", Service::Discard), ("UDP echo", Service::Echo)] {
            all.push(Contender::serving(format!("{what}, batch {batch}"), service, batch)?);
        }
        all.push(Contender::split(batch)?);
        all.push(Contender::simplified(batch)?);
        for blocks in CHAINS {
            let name = chain_name(blocks, batch);
            all.push(Contender::graph(name, chain(blocks), SOURCE, batch)?);
        }
    }
    Ok(all)
}

/// Bytes of a full frame.
pub(crate) const LARGE: usize = 1514;

/// The host's graph with a counter in front of IPv4 and a capture in front of UDP, whose filter matches nothing.
fn split() -> Result<Graph, BenchError> {
    let graph = host(&HostConfig::serving(Service::Discard, PORT));
    let mut graph = graph.map_err(BenchError::of("host graph"))?;
    let added = [("RxL3IPv4ValidHeaderLength", "Counter"), ("RxL4UDPValidHeaderLength", "Capture")];
    for (before, implementation) in added {
        let missing = || BenchError::of("host graph")(format!("it has no {before}"));
        let target = graph.find(before).ok_or_else(missing)?;
        let mut node = Node::new(format!("{implementation}Before{before}"), NodeKind::Function);
        node.implementation = Some(implementation.into());
        if implementation == "Capture" {
            node.attrs.push(Attr::parse(&format!("tap={}", peers::TAP)));
        }
        let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
        let out = Port { name: "out".into(), targets: vec![target], ..Port::default() };
        node.ports.push(out);
        let added = graph.add(node);
        for id in ids {
            let targets = graph.node_mut(id).ports.iter_mut().flat_map(|port| &mut port.targets);
            targets.filter(|to| **to == target).for_each(|to| *to = added);
        }
    }
    Ok(graph)
}

/// The host's graph with a socket that takes datagrams.
fn whole() -> Result<Graph, BenchError> {
    host(&HostConfig::serving(Service::Discard, PORT)).map_err(BenchError::of("host graph"))
}

/// The part of the host's graph for a worker whose queue gets nothing but UDP to [`PORT`].
fn simplified() -> Result<Graph, BenchError> {
    let failed = |why: &dyn std::fmt::Display| BenchError::of("host graph")(why.to_string());
    let mut graph =
        host(&HostConfig::serving(Service::Discard, PORT)).map_err(|error| failed(&error))?;
    weever_blocks_std::registry().annotate(&mut graph).map_err(|error| failed(&error))?;
    let graph = verify(graph).map_err(|_| failed(&"it is not sound"))?;
    let arriving = [Conj::of_kinds(Kinds::of(FlowType::Udp4)).with(Field::L4Dst, PORT.into())];
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let given = QueueFacts { foreign, ..QueueFacts::of(&arriving, &Predicate::True) };
    Ok(simplify(&graph, &given).graph)
}

impl Contender {
    pub(crate) fn link(batch: usize) -> Result<Contender, BenchError> {
        let (mut link, pool) = replay(ReplayConfig::new(vec![replayed_frame()?]))?;
        let work = Work::Link(pool.cache());
        Contender::new(format!("link alone, batch {batch}"), batch, &mut link, work)
    }

    /// The host's graph with a service at the port that the replayed packets go to.
    pub(crate) fn serving(
        name: String,
        service: Service,
        batch: usize,
    ) -> Result<Contender, BenchError> {
        let graph = host(&HostConfig::serving(service, PORT));
        let graph = graph.map_err(BenchError::of("host graph"))?;
        Contender::graph(name, graph, HOST_SOURCE, batch)
    }

    /// The host's graph, which gets datagrams without a checksum.
    pub(crate) fn unsummed(batch: usize) -> Result<Contender, BenchError> {
        let name = format!("host graph without checksums, batch {batch}");
        let mut frame = replayed_frame()?;
        frame[UDP_CHECKSUM].fill(0);
        Contender::replaying(frame, name, whole()?, HOST_SOURCE, batch)
    }

    /// The host's graph for datagrams of a full frame, by a link that vouches for their checksums or does not.
    pub(crate) fn large(verified: bool, batch: usize) -> Result<Contender, BenchError> {
        let name = format!("large datagrams, vouched for {verified}, batch {batch}");
        let config = ReplayConfig { verified, ..ReplayConfig::new(vec![frame_of(LARGE)?]) };
        Contender::over(config, name, whole()?, HOST_SOURCE, batch)
    }

    /// The part of the host's graph for a queue that gets UDP to one port.
    pub(crate) fn simplified(batch: usize) -> Result<Contender, BenchError> {
        let name = format!("simplified graph, batch {batch}");
        Contender::graph(name, simplified()?, HOST_SOURCE, batch)
    }

    /// The host's graph with a counter and a capture in its receive path.
    pub(crate) fn split(batch: usize) -> Result<Contender, BenchError> {
        Contender::graph(format!("split graph, batch {batch}"), split()?, HOST_SOURCE, batch)
    }

    fn graph(
        name: String,
        graph: Graph,
        source: &'static str,
        batch: usize,
    ) -> Result<Contender, BenchError> {
        Contender::replaying(replayed_frame()?, name, graph, source, batch)
    }

    /// The same with another frame.
    fn replaying(
        frame: Vec<u8>,
        name: String,
        graph: Graph,
        source: &'static str,
        batch: usize,
    ) -> Result<Contender, BenchError> {
        Contender::over(ReplayConfig::new(vec![frame]), name, graph, source, batch)
    }

    /// The same with another link.
    fn over(
        config: ReplayConfig,
        name: String,
        graph: Graph,
        source: &'static str,
        batch: usize,
    ) -> Result<Contender, BenchError> {
        let (mut link, pool) = replay(config)?;
        let leg = Leg {
            link: link.info().clone(),
            queues: Vec::new(),
            address: HOST,
            neighbour: (PEER, PEER_MAC),
        };
        let (worker, entry) = peers::worker(graph, source, vec![leg], pool)?;
        Contender::new(name, batch, &mut link, Work::Engine(worker, entry))
    }

    fn new(
        name: String,
        batch: usize,
        link: &mut ReplayLink,
        work: Work,
    ) -> Result<Contender, BenchError> {
        let queue = link.take_queues().pop();
        let queue = queue.ok_or_else(|| BenchError::of("memory link")("it has no queue"))?;
        Ok(Contender { name, batch, queue, work, samples: Samples::default() })
    }

    /// Nanoseconds per packet over about `each`.
    pub(crate) fn measure(&mut self, each: Duration) -> Result<f64, BenchError> {
        let mut burst = Burst::new();
        let mut packets = 0;
        let started = Instant::now();
        while started.elapsed() < each {
            // The clock is read once for many packets: it would be a third of a batch of one.
            for turn in 0..4096 / self.batch {
                let now = turn as u64;
                packets += self.turn(&mut burst, now).map_err(BenchError::of("memory link"))?;
            }
        }
        Ok(started.elapsed().as_nanos() as f64 / packets as f64)
    }

    /// Has a batch go through; returns how many packets it had.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        burst: &mut Burst,
        now: u64,
    ) -> Result<usize, weever_link::LinkError> {
        match &mut self.work {
            Work::Link(pool) => {
                let n = self.queue.rx(pool, burst, self.batch)?;
                (0..n).filter_map(|i| burst.take(i)).for_each(|buffer| pool.free(buffer));
                Ok(n)
            }
            Work::Engine(worker, entry) => {
                let engine = worker.engine();
                let n = self.queue.rx(engine.pool(), burst, self.batch)?;
                engine.receive(*entry, burst, first_n(n), now, BURST);
                let (pool, outbox) = engine.transmit(0);
                if !outbox.is_empty() {
                    self.queue.tx(pool, outbox)?;
                }
                Ok(n)
            }
        }
    }
}

/// A datagram to the service.
fn replayed_frame() -> Result<Vec<u8>, BenchError> {
    frame_of(60)
}

fn frame_of(len: usize) -> Result<Vec<u8>, BenchError> {
    let host = MacAddr(ReplayConfig::new(Vec::new()).info.mac);
    let ends = (MacAddr(PEER_MAC), PEER, host, HOST);
    udp_frame(ends, PORT, len).map_err(BenchError::of("frame"))
}

fn replay(link: ReplayConfig) -> Result<(ReplayLink, Pool), BenchError> {
    let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    Ok((ReplayLink::new(link), pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_moves_packets() {
        let report = run(Plan { rounds: 1, each: Duration::from_micros(1) }, None).unwrap();
        assert!(report.rows.iter().all(|row| row.median.is_finite()), "{report}");
        assert!(report.ratios["graph_ns"] > 0.0 && report.ratios["simplified_ns"] > 0.0);
        assert!(report.ratios["batch1_vs_batch64"] > 0.0);
        assert!(report.ratios["generic_vs_shortcut"] > 0.0);
    }

    #[test]
    fn large_datagrams_reach_the_socket_and_wrong_ones_only_where_they_are_vouched_for() {
        for (verified, spoilt) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut frame = frame_of(LARGE).unwrap();
            frame[LARGE - 1] ^= u8::from(spoilt);
            let config = ReplayConfig { verified, ..ReplayConfig::new(vec![frame]) };
            let mut contender =
                Contender::over(config, "large".into(), whole().unwrap(), HOST_SOURCE, 64).unwrap();
            contender.turn(&mut Burst::new(), 0).unwrap();
            let Work::Engine(worker, _) = &mut contender.work else { unreachable!("made above") };
            let readings = worker.engine().counters().describe();
            let mut served = readings.iter().filter(|r| r.node.contains("Discard"));
            let reaches = served.any(|r| r.value == 64);
            assert_eq!(reaches, verified || !spoilt, "{verified} {spoilt}: {readings:?}");
        }
    }

    #[test]
    fn the_frame_reaches_the_socket() {
        let whole = host(&HostConfig::serving(Service::Discard, PORT)).unwrap();
        let simplified = simplified().unwrap();
        assert!(simplified.len() < whole.len());
        for graph in [whole, simplified, split().unwrap()] {
            let mut contender = Contender::graph("host".into(), graph, HOST_SOURCE, 64).unwrap();
            contender.turn(&mut Burst::new(), 0).unwrap();
            let Work::Engine(worker, _) = &mut contender.work else { unreachable!("made above") };
            let readings = worker.engine().counters().describe();
            let served = readings.iter().filter(|r| r.node.contains("Discard"));
            assert!(served.map(|r| r.value).any(|value| value == 64), "{readings:?}");
        }
    }
}
