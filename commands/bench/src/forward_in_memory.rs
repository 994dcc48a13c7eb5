//! The graph's cost of forwarding, without a device: a link that replays, and one that frees.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_engine::{Entry, Worker};
use weever_link::replay::{ReplayConfig, ReplayLink};
use weever_link::{Link, LinkError, LinkInfo, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{BURST, Burst, Pool, PoolConfig, first_n};
use weever_wire::MacAddr;

use crate::BenchError;
use crate::assemble::{self, Leg};
use crate::crossing::{FAR, NEAR, SINK, SINK_MAC, SOURCE};
use crate::frame::udp_frame;
use crate::rig::GENERATOR_MAC;

const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
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
        let legs = [
            leg("near", NEAR_MAC, NEAR, (SOURCE, GENERATOR_MAC)),
            leg("far", FAR_MAC, FAR, (SINK, SINK_MAC)),
        ];
        let (worker, entry) = assemble::worker(graph, HOST_SOURCE, legs.into(), pool)?;
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
        engine.inject(*entry, burst, first_n(n), now);
        engine.run(now, BURST);
        let (pool, outbox) = engine.transmit(1);
        if !outbox.is_empty() {
            far.tx(pool, outbox)?;
        }
        Ok(n)
    }
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
    fn every_packet_comes_out_at_the_other_side() {
        for batch in [1, 64] {
            let ns = Memory::new().unwrap().ns_per_packet(batch, Duration::from_millis(2));
            assert!(ns.unwrap() > 0.0);
        }
    }
}
