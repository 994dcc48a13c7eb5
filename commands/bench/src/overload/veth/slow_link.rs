//! A pair of links while a third takes 1 % of its packets, on four veth pairs and one worker.
//!
//! Packets are offered at a fixed rate that the worker can forward, so that the figure is the share of them that comes
//! out at the other side, and does not depend on the source, which has more work with a second pair.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weever_engine::Mode;
use weever_link::{FrameNeed, Frames, Link, LinkError, LinkQueue, QueueStats};
use weever_link_sys::af_xdp::AfXdp;
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host};
use weever_packet::{Buffer, Burst, PoolCache};
use weever_testbed::{Namespace, Veth, pin_to};

use super::super::flood::pool;
use super::super::slow_link::{address, frame, neighbour};
use super::station::{Station, open};
use crate::contender::{Contender, Gate, rate};
use crate::peers::{self, Leg};
use crate::rig::GENERATOR_MAC;
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

const FAILED: &str = "slow link";
/// Packets per second that are offered to each pair, and together.
const OFFERED: u64 = 50_000;
const AT_ONCE: usize = 32;
/// Packets per second that the slow link takes.
const TAKEN: u64 = OFFERED / 100;
/// The numbers of the links of the first pair, and of the pair whose second link is slow.
const PAIRS: [[u8; 2]; 2] = [[0, 1], [2, 3]];

pub(super) fn measure(
    cores: [usize; 2],
    plan: Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    let mut cables = Cables::new(cores)?;
    let (mut alone, mut beside) = <(Samples, Samples)>::default();
    for _ in plan.rounds() {
        alone.push(cables.forwarded(1, plan.each)?);
        beside.push(cables.forwarded(2, plan.each)?);
    }
    cables.router.finish()?;
    let ratio = beside.ratio(&alone);
    if ratio.0.is_empty() {
        return Err(BenchError::of(FAILED)("nothing came out at the other side"));
    }
    report.row("veth: an unrelated pair alone", "Mpps", &alone);
    report.row("veth: beside the slow link", "Mpps", &beside);
    report.ratio("slow_link_others_veth", "", &ratio);
    Ok(())
}

/// Four cables from a router to one namespace of sources and sinks.
struct Cables {
    router: Contender,
    /// By pair: the source's device, its queue, and the frame that it sends.
    sources: Vec<(AfXdp, Station, Vec<u8>)>,
    veths: Vec<Veth>,
    source_core: usize,
}

impl Cables {
    fn new([source_core, router_core]: [usize; 2]) -> Result<Cables, BenchError> {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let veth = |n: u8| {
            let (out, leg) = (format!("out{n}"), format!("leg{n}"));
            let veth = Veth::create(&outside, &out, &inside, &leg, 1)?;
            // Forwarded packets are received on the other core, with source and sinks.
            outside.process_received_on(&out, Some(source_core))?;
            Ok::<_, BenchError>(veth)
        };
        let veths = PAIRS.as_flattened().iter().map(|n| veth(*n)).collect::<Result<Vec<_>, _>>()?;
        let router = Contender::start_in(&inside, router_core, router)?;
        let source = |[from, to]: &[u8; 2]| {
            let (link, mut stations) = Station::open(&outside, &format!("out{from}"))?;
            let station = stations.pop().ok_or_else(|| BenchError::of(FAILED)("no queue"))?;
            let mac = veths[usize::from(*from)].right.info()?.mac;
            Ok((link, station, frame(*from, mac, *to)?))
        };
        let sources = PAIRS.iter().map(source).collect::<Result<_, BenchError>>()?;
        Ok(Cables { router, sources, veths, source_core })
    }

    /// Millions of packets per second that come out of the first pair while so many pairs have traffic.
    fn forwarded(&mut self, pairs: usize, each: Duration) -> Result<f64, BenchError> {
        let Cables { sources, veths, source_core, .. } = self;
        let stop = AtomicBool::new(false);
        let arrived = || Ok(veths[1].left.info()?.counters.rx_packets);
        std::thread::scope(|scope| {
            let offering = scope.spawn(|| offer(&mut sources[..pairs], *source_core, &stop));
            let rate = rate(each, arrived);
            stop.store(true, Relaxed);
            offering.join().map_err(|_| BenchError::of(FAILED)("the source panicked"))??;
            rate
        })
    }
}

/// Sends by each source at the offered rate.
fn offer(
    sources: &mut [(AfXdp, Station, Vec<u8>)],
    core: usize,
    stop: &AtomicBool,
) -> Result<(), BenchError> {
    pin_to(core).map_err(BenchError::of(FAILED))?;
    let pause = Duration::from_nanos(1_000_000_000 * AT_ONCE as u64 / OFFERED);
    let mut due = Instant::now();
    while !stop.load(Relaxed) {
        if Instant::now() < due {
            std::thread::yield_now();
            continue;
        }
        due += pause;
        for (_, station, frame) in &mut *sources {
            (station.packets.len()..AT_ONCE).for_each(|_| station.put(frame));
            station.send().map_err(BenchError::of(FAILED))?;
            station.receive(|_| true).map_err(BenchError::of(FAILED))?;
        }
    }
    Ok(())
}

/// The router: the host graph over all links, of which the last is slow.
fn router(gate: &Gate) -> Result<(), BenchError> {
    let pool = pool()?;
    let inside = |number: u8| {
        let mut link = open(&format!("leg{number}"), &pool)?;
        let is_slow = number == PAIRS[1][1];
        let queues = link.take_queues().into_iter();
        let queues = queues.map(|queue| if is_slow { Slow::of(queue) } else { queue }).collect();
        let neighbour = (neighbour(number), GENERATOR_MAC);
        let (link_info, address) = (link.info().clone(), address(number));
        Ok::<_, BenchError>((Leg { link: link_info, queues, address, neighbour }, link))
    };
    let opened = PAIRS.as_flattened().iter().map(|number| inside(*number));
    let (legs, _links): (Vec<_>, Vec<_>) =
        opened.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let graph = host(&HostConfig::default()).map_err(BenchError::of(FAILED))?;
    let (mut worker, _) = peers::worker(graph, HOST_SOURCE, legs, pool)?;
    gate.open();
    let mut lost = None;
    worker.run(&gate.stop, Mode::Busy, |event| lost = Some(event.error));
    lost.map_or(Ok(()), |error| Err(BenchError::of(FAILED)(error)))
}

/// A device's queue that takes [`TAKEN`] packets in a second.
struct Slow {
    inner: Box<dyn LinkQueue>,
    now: u64,
    /// The time at which it takes the next packet.
    next: u64,
}

impl Slow {
    fn of(inner: Box<dyn LinkQueue>) -> Box<dyn LinkQueue> {
        Box::new(Slow { inner, now: 0, next: 0 })
    }
}

impl LinkQueue for Slow {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.inner.rx(pool, burst, max)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        if self.now < self.next {
            return Ok(0);
        }
        let Some(first) = packets.pop_front() else { return Ok(0) };
        self.next = self.now + 1_000_000_000 / TAKEN;
        let mut one = VecDeque::from([first]);
        let taken = self.inner.tx(pool, &mut one)?;
        one.into_iter().for_each(|packet| packets.push_front(packet));
        Ok(taken)
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        self.inner.unsent()
    }

    fn frame_need(&self) -> FrameNeed {
        self.inner.frame_need()
    }

    fn limit_frames(&mut self, most: Frames) {
        self.inner.limit_frames(most);
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
        self.inner.advance(now);
    }

    fn next_deadline(&self) -> Option<u64> {
        self.inner.next_deadline()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use weever_testbed::{allowed_cores, require_net_admin};

    use super::*;

    #[test]
    fn packets_come_out_beside_a_slow_link() {
        require_net_admin!();
        let Ok(cores) = allowed_cores() else {
            return println!("skipped: needs to know its cores");
        };
        let [first, second, ..] = cores[..] else { return println!("skipped: needs two cores") };
        let mut cables = Cables::new([first, second]).unwrap();
        for pairs in [1, 2] {
            // On a busy machine the router may not run for a tenth of a second.
            let mut rates = (0..100).map(|_| cables.forwarded(pairs, Duration::from_millis(100)));
            assert!(rates.any(|rate| rate.unwrap() > 0.0), "{pairs}");
        }
        cables.router.finish().unwrap();
    }
}
