//! `weever bench tap`: what is saved where the kernel behind a TAP cuts segments, and sums them up.
//!
//! Segments of a connection that follow each other are one packet for the kernel, as the TAP's model says (`cuts`,
//! `fills`); segments with a gap between them are a packet each. The kernel throws all of them away in its routing, so
//! this is the least that is saved: one that keeps them has its own stack walked for each packet as well.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weever_link::{Link, LinkQueue};
use weever_link_sys::tap::{Tap, TapConfig};
use weever_packet::{Buffer, Flags, Pool, PoolCache, PoolConfig};
use weever_testbed::{Namespace, allowed_cores, pin_to, privileged};
use weever_wire::checksum;

use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

const PAYLOAD: usize = 1_448;
/// Segments that are sent at once: as many as make one packet, of 64 KiB at the most.
const BATCH: usize = 45;
const NAME: &str = "tap0";
const BENCH: &str = "tap";

/// Measures the time that a segment takes the thread that sends it, the kernel's part included.
pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    if !privileged() {
        return Err(BenchError::Rights(BENCH));
    }
    let core = allowed_cores().map_err(BenchError::of("cores"))?.last().copied().unwrap_or(0);
    let namespace = Namespace::new()?;
    let mut tap =
        namespace.run(|| Tap::open(&TapConfig::new(NAME))).map_err(BenchError::of(BENCH))?;
    namespace.add_address(NAME, Ipv4Addr::new(10, 83, 0, 1), 24)?;
    let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(BENCH))?;
    let mut queues = tap.take_queues();
    let queue = queues.first_mut().ok_or_else(|| no_queue(&tap))?;
    let mut sender = Sender {
        queue: queue.as_mut(),
        cache: pool.cache(),
        ends: [tap.interface().mac, tap.info().mac],
    };
    pin_to(core).map_err(BenchError::of(BENCH))?;
    let (mut joined, mut alone) = (Samples::default(), Samples::default());
    for _ in plan.rounds() {
        joined.push(sender.send(&pool, 0, plan.each)?);
        alone.push(sender.send(&pool, 1, plan.each)?);
    }
    let mut report = Report::new(BENCH);
    report.setup(format!(
        "a TAP of one queue, its kernel without a route for what comes; one thread, on core {core}; segments of {PAYLOAD} octets, \
         {BATCH} at once"
    ));
    report.row("a segment that the kernel cuts from a large one", "ns", &joined);
    report.row("a segment that is a packet by itself", "ns", &alone);
    report.ratio("tap_cut_vs_alone", "", &joined.ratio(&alone));
    Ok(report)
}

fn no_queue(tap: &Tap) -> BenchError {
    BenchError::of(BENCH)(format!("{} has no queue", tap.info().name))
}

struct Sender<'q> {
    queue: &'q mut dyn LinkQueue,
    cache: PoolCache,
    /// The kernel's address, and ours.
    ends: [[u8; 6]; 2],
}

impl Sender<'_> {
    /// Sends batches for this long, with so many octets missing between two segments; nanoseconds for one.
    fn send(&mut self, pool: &Pool, gap: usize, each: Duration) -> Result<f64, BenchError> {
        let (started, mut spent, mut sent) = (Instant::now(), Duration::ZERO, 0);
        while started.elapsed() < each {
            let mut packets: VecDeque<Buffer> = VecDeque::with_capacity(BATCH);
            for number in 0..BATCH {
                let sequence = (number * (PAYLOAD + gap)) as u32;
                packets.push_back(self.segment(pool, sequence)?);
            }
            let before = self.queue.stats().tx_packets;
            let start = Instant::now();
            self.queue.tx(&mut self.cache, &mut packets).map_err(BenchError::of(BENCH))?;
            self.queue.flush(&mut self.cache).map_err(BenchError::of(BENCH))?;
            spent += start.elapsed();
            let count = self.queue.stats().tx_packets - before;
            if count != BATCH as u64 {
                return Err(BenchError::of(BENCH)(format!(
                    "{count} of {BATCH} segments were sent"
                )));
            }
            sent += count;
        }
        Ok(spent.as_nanos() as f64 / sent as f64)
    }

    /// A segment of an established connection whose checksum is the device's to fill in.
    fn segment(&self, pool: &Pool, sequence: u32) -> Result<Buffer, BenchError> {
        let mut frame = [&self.ends[0][..], &self.ends[1], &[8, 0]].concat();
        let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 83, 0, 2, 10, 84, 0, 1];
        ip[2..4].copy_from_slice(&((40 + PAYLOAD) as u16).to_be_bytes());
        let sum = !checksum::sum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame.extend([0x30, 0x39, 0, 80]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        frame.extend([0x2a; PAYLOAD]);
        let mut packet = pool.alloc().ok_or_else(|| BenchError::of(BENCH)("no buffer is free"))?;
        if !packet.append(&frame) {
            return Err(BenchError::of(BENCH)("a segment is longer than a buffer"));
        }
        packet.meta_mut().flags = Flags::PARTIAL_CHECKSUM;
        Ok(packet)
    }
}
