//! `weever bench forward`: IPv4 from one device to another, beside the kernel's forwarding, and the graph's
//! part of it without a device.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_engine::{Entry, Worker};
use weever_link::replay::{ReplayConfig, ReplayLink};
use weever_link::{Link, LinkError, LinkInfo, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{BURST, Burst, Pool, PoolConfig, first_n};
use weever_wire::MacAddr;

use crate::contender::rate;
use crate::crossing::{Crossing, FAR, FORWARDERS, Forwarder, NEAR, SINK, SINK_MAC, SOURCE};
use crate::peers::Leg;
use crate::rig::GENERATOR_MAC;
use crate::samples::Plan;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples, peers};

/// Batches for which the graph's cost is measured.
const BATCHES: [usize; 2] = [64, 1];
/// Part of a round that the measurement in memory gets.
const IN_MEMORY: Duration = Duration::from_millis(100);

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let crossing = Crossing::new("forward")?;
    let mut rates: [Samples; FORWARDERS.len()] = Default::default();
    let mut memory = BATCHES.map(|batch| (batch, Samples::default()));
    for _ in plan.rounds() {
        for ((_, forwarder), samples) in FORWARDERS.iter().zip(&mut rates) {
            samples.push(measure(&crossing, *forwarder, 64, plan.each)?);
        }
        for (batch, samples) in &mut memory {
            samples.push(Memory::new()?.ns_per_packet(*batch, IN_MEMORY)?);
        }
    }
    Ok(report(&crossing, &rates, &memory))
}

/// Packets per microsecond that come out at the other side.
pub(crate) fn measure(
    crossing: &Crossing,
    forwarder: Forwarder,
    frame: usize,
    each: Duration,
) -> Result<f64, BenchError> {
    let contender = crossing.start(forwarder)?;
    let traffic = crossing.traffic(frame)?;
    let rate = rate(each, || crossing.arrived())?;
    drop(traffic);
    contender.finish()?;
    Ok(rate)
}

fn report(
    crossing: &Crossing,
    rates: &[Samples; FORWARDERS.len()],
    memory: &[(usize, Samples)],
) -> Report {
    let mut report = Report::new("forward");
    report.setup(crossing.describe());
    report
        .setup("load: UDP in 64-byte frames, 16 flows, live frames, open loop; counted at the end");
    report.setup("in memory: receive, check, route, TTL, neighbour, encapsulate, send; no device");
    for ((name, _), samples) in FORWARDERS.iter().zip(rates) {
        report.row(name, "Mpps", samples);
    }
    for (batch, samples) in memory {
        report.row(&format!("in memory, batch {batch}"), "ns/packet", samples);
    }
    let [weever, kernel] = rates;
    report.ratio("fwd_vs_kernel", "ratio", &weever.ratio(kernel));
    for (batch, samples) in memory {
        let key = if *batch == 64 { "fwd_ns" } else { "fwd_ns_batch1" };
        report.ratio(key, "ns/packet", samples);
    }
    report
}

pub(crate) const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// A router between two links in memory.
pub(crate) struct Memory {
    worker: Box<Worker>,
    entry: Entry,
    near: Box<dyn LinkQueue>,
    far: Box<dyn LinkQueue>,
    burst: Burst,
}

impl Memory {
    pub(crate) fn new() -> Result<Memory, BenchError> {
        let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
        let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
        let ends = (MacAddr(GENERATOR_MAC), SOURCE, MacAddr(NEAR_MAC), SINK);
        let frame = udp_frame(ends, 9, 60).map_err(BenchError::of("frame"))?;
        let graph = host(&HostConfig::default()).map_err(BenchError::of("host graph"))?;
        let (worker, entry) = peers::worker(graph, HOST_SOURCE, legs(), pool)?;
        let (near, far) = (queue(vec![frame])?, queue(Vec::new())?);
        Ok(Memory { worker, entry, near, far, burst: Burst::new() })
    }

    /// Nanoseconds per packet over about `during`, in bursts of `batch`. Every packet has to come
    /// out at the other side.
    pub(crate) fn ns_per_packet(
        mut self,
        batch: usize,
        during: Duration,
    ) -> Result<f64, BenchError> {
        let failed = BenchError::of("memory link");
        // Warms the caches, and lets the queues grow to their working size.
        for _ in 0..1024 {
            self.turn(batch, 0).map_err(&failed)?;
        }
        let (started, sent_before) = (Instant::now(), self.far.stats().tx_packets);
        let mut received = 0;
        while started.elapsed() < during {
            for turn in 0..4096 / batch {
                received += self.turn(batch, turn as u64).map_err(&failed)?;
            }
        }
        let elapsed = started.elapsed();
        let sent = self.far.stats().tx_packets - sent_before;
        if sent != received as u64 {
            return Err(failed_to_forward(received as u64 - sent));
        }
        Ok(elapsed.as_nanos() as f64 / received as f64)
    }

    /// Has a batch go through; returns how many packets it had.
    #[inline]
    pub(crate) fn turn(&mut self, batch: usize, now: u64) -> Result<usize, LinkError> {
        let Memory { worker, entry, near, far, burst } = self;
        let engine = worker.engine();
        let n = near.rx(engine.pool(), burst, batch)?;
        engine.receive(*entry, burst, first_n(n), now, BURST);
        let (pool, outbox) = engine.transmit(1);
        if !outbox.is_empty() {
            far.tx(pool, outbox)?;
        }
        Ok(n)
    }
}

/// The router's links, without queues: source and sink are its neighbours.
fn legs() -> Vec<Leg> {
    vec![
        leg("near", NEAR_MAC, NEAR, (SOURCE, GENERATOR_MAC)),
        leg("far", FAR_MAC, FAR, (SINK, SINK_MAC)),
    ]
}

fn leg(name: &str, mac: [u8; 6], address: Ipv4Addr, neighbour: (Ipv4Addr, [u8; 6])) -> Leg {
    let info = ReplayConfig::new(Vec::new()).info;
    Leg {
        link: LinkInfo { name: name.into(), mac, ..info },
        queues: Vec::new(),
        address,
        neighbour,
    }
}

fn failed_to_forward(packets: u64) -> BenchError {
    BenchError::of("weever")(format!("{packets} packets did not come out at the other side"))
}

/// A queue in memory that receives these frames for ever, and frees frames that are sent.
pub(crate) fn queue(frames: Vec<Vec<u8>>) -> Result<Box<dyn LinkQueue>, BenchError> {
    let queue = ReplayLink::new(ReplayConfig::new(frames)).take_queues().pop();
    queue.ok_or_else(|| BenchError::of("memory link")("it has no queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forwarders_forward() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let report = run(Plan { rounds: 1, each: Duration::from_millis(400) }).unwrap();
        assert!(report.rows.iter().all(|row| row.median > 0.0), "{report}");
        assert!(report.ratios.contains_key("fwd_vs_kernel"), "{report}");
    }

    #[test]
    fn every_packet_comes_out_at_the_other_side() {
        for batch in [1, 64] {
            let ns = Memory::new().unwrap().ns_per_packet(batch, Duration::from_millis(2));
            assert!(ns.unwrap() > 0.0);
        }
    }
}
