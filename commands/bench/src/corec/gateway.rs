//! The work of the compared threads: the host's graph as a router.
//!
//! *Light*, as the paper's l3fwd: IPv4 and IPv6 between two links by longest prefix match, over routes of many
//! lengths ([`routes`]). *Heavy*, as its IPsec gateway: a third of packets goes into a tunnel, encrypted as often as it
//! takes for [`HEAVY`], a third is dropped by a rule, a third is forwarded. Links are in memory.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_engine::{Entry, Worker};
use weever_graph::{Attr, Graph, Node, NodeId, NodeKind, Port};
use weever_host::{HostBuilder, Prefix, Route};
use weever_link::LinkQueue;
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{BURST, Burst, Pool, PoolConfig, first_n};
use weever_unicorn::predicate;

use super::queue::Packet;
use super::routes;
use crate::crossing::SINK;
use crate::forward::queue;
use crate::{BenchError, peers};

/// The time that an encrypted packet takes at least.
pub(super) const HEAVY: Duration = Duration::from_micros(5);
/// Destinations of the heavy load, a third each: encrypted, forwarded, dropped.
const THIRDS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 9, 1, 1), Ipv4Addr::new(10, 8, 1, 1), Ipv4Addr::new(10, 7, 1, 1)];
/// A key of the tunnel, of no use elsewhere.
const KEY: &str = "00112233445566778899aabbccddeeff01020304";

/// What the threads do with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Forward all.
    Light,
    /// Encrypt a third so many times, forward a third, drop a third.
    Heavy(u32),
}

impl Work {
    /// The heavy work on this machine, with so many passes of the cipher that an encrypted packet
    /// takes this time.
    pub(super) fn heavy(length: Duration) -> Result<Work, BenchError> {
        let cost = |passes| -> Result<f64, BenchError> {
            let mut router = Router::new(Work::Heavy(passes))?;
            let packets = [Packet { number: 0, arrives: 0 }; BURST];
            router.serve(&packets, 0)?;
            // The shortest of many: the others were interrupted.
            let mut shortest = f64::INFINITY;
            for _ in 0..100 {
                let start = Instant::now();
                router.serve(&packets, 0)?;
                shortest = shortest.min(start.elapsed().as_nanos() as f64);
            }
            Ok(shortest / BURST as f64)
        };
        let (once, often) = (cost(1)?, cost(51)?);
        let pass = ((often - once) / 50.0).max(1.0);
        let more = (length.as_nanos() as f64 - once) / pass;
        Ok(Work::Heavy((1.0 + more.max(0.0).ceil()).min(1000.0) as u32))
    }

    fn graph(self) -> Result<Graph, BenchError> {
        let graph = host(&HostConfig::default()).map_err(BenchError::of("host graph"))?;
        match self {
            Work::Light => Ok(graph),
            Work::Heavy(passes) => gateway(graph, passes),
        }
    }

    /// The frames of packets: packet `n` has frame `n` modulo their number.
    pub(super) fn frames(self) -> Result<Vec<Vec<u8>>, BenchError> {
        match self {
            Work::Light => routes::frames(),
            Work::Heavy(_) => THIRDS.into_iter().map(|to| routes::frame(to.into())).collect(),
        }
    }
}

/// A node with these ports; those without targets are drops.
fn node(name: &str, ports: &[(&str, &[NodeId])]) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    for (port, targets) in ports {
        node.ports.push(Port {
            name: (*port).into(),
            targets: targets.to_vec(),
            ..Port::default()
        });
        if targets.is_empty() {
            let reason = format!("{name}: {port}");
            node.attrs.push(Attr::Drop { port: (*port).into(), reason });
        }
    }
    node
}

/// A node that sends what goes to a third's network of destinations by `true`.
fn third(name: &str, to: Ipv4Addr, ports: [&[NodeId]; 2]) -> Result<Node, BenchError> {
    let mut node = node(name, &[("false", ports[0]), ("true", ports[1])]);
    let texts = [format!("not ip4.dst = {to}"), format!("ip4.dst = {to}")];
    for (port, text) in node.ports.iter_mut().zip(texts) {
        port.predicate = predicate::parse(&text).map_err(BenchError::of("gateway"))?;
    }
    Ok(node)
}

/// The host's graph with a rule and a tunnel behind the step that forwards.
fn gateway(mut graph: Graph, passes: u32) -> Result<Graph, BenchError> {
    let forward = graph.find("RxL3IPv4Forward");
    let forward = forward.ok_or_else(|| BenchError::of("gateway")("the host does not forward"))?;
    let next = graph.node(forward).ports[0].targets.clone();
    let ports: [(&str, &[NodeId]); 5] =
        [("out", &next), ("unrouted", &[]), ("toolong", &[]), ("spent", &[]), ("malformed", &[])];
    let mut encrypt = node("GatewayEncrypt", &ports);
    encrypt.implementation = Some("EspEncrypt".into());
    let (passes, remote) = (passes.to_string(), SINK.to_string());
    for (key, value) in [("remote", remote.as_str()), ("key", KEY), ("passes", &passes)] {
        encrypt.attrs.push(Attr::Param { key: key.into(), value: value.into() });
    }
    let encrypt = graph.add(encrypt);
    let secret = graph.add(third("GatewaySecret", THIRDS[0], [&next, &[encrypt]])?);
    let refused = graph.add(node("GatewayRefused", &[("out", &[])]));
    graph.node_mut(refused).implementation = Some("Discard".into());
    let rule = graph.add(third("GatewayRule", THIRDS[2], [&[secret], &[refused]])?);
    graph.node_mut(forward).ports[0].targets = vec![rule];
    Ok(graph)
}

/// A thread's router.
pub(super) struct Router {
    worker: Box<Worker>,
    entry: Entry,
    far: Box<dyn LinkQueue>,
    burst: Burst,
    frames: Vec<Vec<u8>>,
}

impl Router {
    pub(super) fn new(work: Work) -> Result<Router, BenchError> {
        let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
        Router::on(work, Pool::new(config).map_err(BenchError::of("pool"))?)
    }

    /// A gateway whose packets lie in this pool.
    pub(super) fn on(work: Work, pool: Pool) -> Result<Router, BenchError> {
        let mut builder = HostBuilder::new(pool);
        routes::install(&mut builder)?;
        for to in THIRDS.into_iter().filter_map(|to| Prefix::new(to.into(), 32)) {
            builder.route(&Route::via(to, SINK.into())).map_err(BenchError::of("route"))?;
        }
        builder.graph(work.graph()?, HOST_SOURCE);
        let host = builder.build(0).map_err(BenchError::of("gateway"))?;
        let (worker, entry) = peers::worker_of(host, HOST_SOURCE)?;
        let (far, burst, frames) = (queue(Vec::new())?, Burst::new(), work.frames()?);
        let mut router = Router { worker, entry, far, burst, frames };
        // It announces its addresses between the first bursts, and the caches get warm.
        for _ in 0..64 {
            router.serve(&[Packet::default(); BURST], 0)?;
        }
        Ok(router)
    }

    /// Routes up to a burst of packets.
    #[inline]
    pub(super) fn serve(&mut self, packets: &[Packet], now: u64) -> Result<(), BenchError> {
        let Router { worker, burst, frames, .. } = self;
        let engine = worker.engine();
        for (place, packet) in packets.iter().enumerate() {
            let frame = &frames[packet.number as usize % frames.len()];
            let buffer = engine.pool().alloc();
            let mut buffer = buffer.ok_or_else(|| BenchError::of("pool")("it is empty"))?;
            let fits = buffer.append(frame);
            debug_assert!(fits, "frames are short");
            buffer.meta_mut().l2 = buffer.head();
            drop(burst.put(place, buffer));
        }
        let mut burst = std::mem::take(burst);
        let routed = self.route(&mut burst, packets.len(), now);
        self.burst = burst;
        routed
    }

    /// Routes the first packets of a burst, and leaves it empty.
    #[inline]
    pub(super) fn route(
        &mut self,
        burst: &mut Burst,
        count: usize,
        now: u64,
    ) -> Result<(), BenchError> {
        let Router { worker, entry, far, .. } = self;
        let engine = worker.engine();
        engine.receive(*entry, burst, first_n(count), now, BURST);
        engine.run(now, BURST);
        let (pool, outbox) = engine.transmit(1);
        if !outbox.is_empty() {
            far.tx(pool, outbox).map_err(BenchError::of("memory link"))?;
        }
        Ok(())
    }

    /// How many packets it has sent so far.
    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.far.stats().tx_packets
    }
}

#[cfg(test)]
mod tests {
    use super::super::routes::LENGTHS;
    use super::*;

    fn sent_of(work: Work, packets: u64) -> (u64, u64) {
        let mut router = Router::new(work).unwrap_or_else(|error| panic!("{error}"));
        let packets: Vec<Packet> =
            (0..packets).map(|number| Packet { number, arrives: 0 }).collect();
        let before = router.far.stats();
        packets.chunks(BURST).for_each(|burst| router.serve(burst, 0).unwrap());
        let after = router.far.stats();
        (after.tx_packets - before.tx_packets, after.tx_bytes - before.tx_bytes)
    }

    #[test]
    fn the_light_router_forwards_every_packet_of_both_families() {
        assert_eq!(
            sent_of(Work::Light, 1000),
            (1000, LENGTHS.map(|length| 500 * length as u64).iter().sum())
        );
    }

    #[test]
    fn without_their_routes_packets_go_nowhere() {
        let mut router = Router::new(Work::Light).unwrap();
        for to in ["10.9.9.9", "2001:db9::1"] {
            router.frames = vec![routes::frame(to.parse().unwrap()).unwrap()];
            let before = router.sent();
            router.serve(&[Packet::default(); 7], 0).unwrap();
            assert_eq!(router.sent(), before, "{to}");
        }
    }

    #[test]
    fn the_gateway_encrypts_a_third_and_drops_a_third() {
        // A datagram of 46 bytes gets 20 + 16 + 2 + 16 more.
        assert_eq!(sent_of(Work::Heavy(2), 300), (200, 100 * 60 + 100 * (14 + 46 + 54)));
    }
}
