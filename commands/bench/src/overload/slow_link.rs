//! A pair of links while a third takes 1 % of its packets. Everything is counted on a clock of the
//! benchmark's own, so that the figure is the worker's rule and no property of the machine.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weever_link::replay::ReplayConfig;
use weever_link::{LinkError, LinkInfo, LinkQueue, QueueStats};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};
use weever_wire::MacAddr;

use crate::forward::queue;
use crate::peers::{self, Leg};
use crate::rig::GENERATOR_MAC;
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};

/// Packets that arrive on each source in a turn: less than the worker can receive.
const ARRIVE: usize = 32;
/// Packets that a device keeps until they are received; further ones are lost there.
const RING: usize = 1024;
/// One packet of so many is taken by the slow link.
const ONE_IN: usize = 100;
const TURNS: u64 = if cfg!(debug_assertions) { 3_000 } else { 20_000 };
/// A worker's turn, in nanoseconds.
const TURN: u64 = 10_000;

/// A device in memory with a fixed rate of arrivals and of departures.
struct Paced {
    inner: Box<dyn LinkQueue>,
    /// Packets that arrive, and that can leave, in a turn; of the latter in hundredths.
    arrive: usize,
    leave: usize,
    waiting: usize,
    credit: usize,
    sent: Arc<AtomicU64>,
}

impl LinkQueue for Paced {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let n = self.inner.rx(pool, burst, max.min(self.waiting))?;
        self.waiting -= n;
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let n = packets.len().min(self.credit / ONE_IN);
        self.credit -= n * ONE_IN;
        self.sent.fetch_add(n as u64, Relaxed);
        let mut taken: VecDeque<Buffer> = packets.drain(..n).collect();
        self.inner.tx(pool, &mut taken)
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        self.inner.unsent()
    }

    fn advance(&mut self, now: u64) {
        self.waiting = (self.waiting + self.arrive).min(RING);
        // Unused credit of a turn is lost, except for part of a packet.
        self.credit = (self.credit + self.leave).min(self.leave.max(ONE_IN) + ONE_IN);
        self.inner.advance(now);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

/// A leg with the network 10.9.`number`.0/24.
fn leg(
    number: u8,
    frames: Vec<Vec<u8>>,
    arrive: usize,
    leave: usize,
    sent: &Arc<AtomicU64>,
) -> Result<Leg, BenchError> {
    let info = ReplayConfig::new(Vec::new()).info;
    let inner = queue(frames)?;
    let paced = Paced { inner, arrive, leave, waiting: 0, credit: 0, sent: Arc::clone(sent) };
    Ok(Leg {
        link: LinkInfo { name: format!("leg{number}"), mac: mac(number), ..info },
        queues: vec![Box::new(paced)],
        address: Ipv4Addr::new(10, 9, number, 254),
        neighbour: (Ipv4Addr::new(10, 9, number, 1), GENERATOR_MAC),
    })
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 9, number]
}

/// Packets that leave by link 1, where those of link 0 go, while link 2 sends to link 3, which takes so
/// many hundredths of a packet in a turn; `others`: how many arrive on link 2.
fn forwarded(others: usize, leave: usize) -> Result<f64, BenchError> {
    let config = PoolConfig { frames: 16_384, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    let graph = host(&HostConfig::default()).map_err(BenchError::of("host graph"))?;
    let frame = |from: u8, to: u8| {
        let (src, dst) = (Ipv4Addr::new(10, 9, from, 1), Ipv4Addr::new(10, 9, to, 1));
        udp_frame((MacAddr(GENERATOR_MAC), src, MacAddr(mac(from)), dst), 9, 60)
            .map_err(BenchError::of("frame"))
    };
    let all = 64 * ONE_IN;
    let (sent, of_others) = (Arc::default(), Arc::default());
    let legs = vec![
        leg(0, vec![frame(0, 1)?], ARRIVE, all, &of_others)?,
        leg(1, Vec::new(), 0, all, &sent)?,
        leg(2, vec![frame(2, 3)?], others, all, &of_others)?,
        leg(3, Vec::new(), 0, leave, &of_others)?,
    ];
    let mut host = peers::host(graph, HOST_SOURCE, legs, pool)?;
    for turn in 1..=TURNS {
        host.step(turn * TURN);
    }
    Ok(sent.load(Relaxed) as f64)
}

/// Adds `slow_link_others`.
pub(crate) fn measure(report: &mut Report) -> Result<(), BenchError> {
    // In hundredths of a packet.
    let slow = ARRIVE;
    let (alone, beside) = (forwarded(0, slow)?, forwarded(ARRIVE, slow)?);
    report.setup("slow link: four links in memory on one worker; one takes 1 % of its packets");
    report.row("an unrelated pair alone", "packets", &Samples(vec![alone]));
    report.row("beside the slow link", "packets", &Samples(vec![beside]));
    report.ratio("slow_link_others", "", &Samples(vec![beside / alone]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_link_costs_an_unrelated_pair_nothing() {
        let (alone, beside) = (forwarded(0, ARRIVE).unwrap(), forwarded(ARRIVE, ARRIVE).unwrap());
        assert!(alone >= (TURNS as f64 - 10.0) * ARRIVE as f64, "{alone}");
        assert!(beside >= alone * 0.95, "{beside} of {alone}");
    }
}
