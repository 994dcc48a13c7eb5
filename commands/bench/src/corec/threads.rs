//! `weever bench corec`: two threads on one receive queue against a thread on each of two, with weever's
//! ring and its rule of sharing.
//!
//! The queues are in memory, and arrivals are written by the thread that polls, so that two cores suffice:
//! a third would be the generator's. The work is that of the gateway of the COREC paper (§4): a
//! third is worked on for 5 µs, a third has its header rewritten, a third is dropped.

use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use weever_ring::simulated::SimulatedQueue;
use weever_ring::{MOST_CLAIMED, part};

use crate::samples::{Plan, quantile};
use crate::{BenchError, Report, Samples};

/// Packets of a run without pauses, and of one at a rate.
const PACKETS: u64 = 60_000;
/// Slots of a ring.
const RING: u32 = 1024;
/// The time that a third of packets takes.
const HEAVY: Duration = Duration::from_micros(5);
/// Of 100 packets of a skewed load, those for the first queue: one elephant, and half of the mice.
const SKEW: u64 = 95;
/// Packets between two looks at the clock while one thread is measured.
const BATCH: usize = 512;

/// A packet: its number, and when it arrives, in nanoseconds after the start.
#[derive(Clone, Copy, Default)]
struct Packet {
    number: u64,
    arrives: u64,
}

/// A receive queue and what will arrive there.
struct Queue {
    ring: SimulatedQueue<Packet>,
    arrivals: Mutex<Arrivals>,
    threads: u32,
}

struct Arrivals {
    packets: Vec<Packet>,
    next: usize,
    /// Whether packets that find the ring full are lost; else they wait.
    are_timed: bool,
    dropped: u64,
}

impl Queue {
    fn new(packets: Vec<Packet>, threads: u32, are_timed: bool) -> Queue {
        let ring = SimulatedQueue::new(RING, 0, Packet::default()).expect("a power of two");
        let arrivals = Arrivals { packets, next: 0, are_timed, dropped: 0 };
        Queue { ring, arrivals: Mutex::new(arrivals), threads }
    }

    /// Lets the packets arrive whose time has come, unless another thread does. Says whether more will.
    fn arrive(&self, now: u64) -> bool {
        let Ok(mut arrivals) = self.arrivals.try_lock() else { return true };
        let Arrivals { packets, next, are_timed, dropped } = &mut *arrivals;
        let coming = &packets[*next..packets.len().min(*next + MOST_CLAIMED as usize)];
        let due = coming.iter().take_while(|packet| packet.arrives <= now).count();
        let given = self.ring.give(&coming[..due]);
        let taken = if *are_timed { due } else { given };
        *dropped += (taken - given) as u64;
        *next += taken;
        *next < packets.len()
    }

    /// Receives until nothing is left. Returns the latency of each packet, in nanoseconds.
    fn serve(&self, start: Instant, work: &Work) -> Vec<f64> {
        let now = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (mut latencies, mut work) = (Vec::new(), work.clone());
        let mut packets = [Packet::default(); MOST_CLAIMED as usize];
        loop {
            let more = self.arrive(now());
            let most = part(self.ring.available(), self.threads).min(MOST_CLAIMED);
            let taken = self.ring.pop(&mut packets[..most as usize]);
            for packet in &packets[..taken] {
                work.on(packet.number);
                latencies.push(now().saturating_sub(packet.arrives) as f64);
            }
            if taken == 0 && !more && self.ring.available() == 0 {
                return latencies;
            }
            if taken == 0 {
                spin_loop();
            }
        }
    }
}

/// The work of each packet.
#[derive(Clone)]
struct Work {
    frame: Box<[u8]>,
    /// Passes over the frame that take [`HEAVY`].
    passes: u32,
}

impl Work {
    fn calibrated() -> Work {
        let mut work = Work { frame: vec![7; 1500].into(), passes: 0 };
        let (start, tries) = (Instant::now(), 10_000);
        (0..tries).for_each(|_| work.pass());
        let one = start.elapsed().as_secs_f64() / f64::from(tries);
        work.passes = (HEAVY.as_secs_f64() / one).ceil() as u32;
        work
    }

    fn on(&mut self, number: u64) {
        match number % 3 {
            0 => (0..self.passes).for_each(|_| self.pass()),
            1 => {}
            _ => self.forward(number),
        }
    }

    /// One pass over the frame: each byte depends on the one before.
    fn pass(&mut self) {
        let mut last = 0u8;
        for byte in &mut self.frame {
            last = last.rotate_left(3) ^ *byte;
            *byte = last;
        }
        black_box(last);
    }

    /// Rewrites an IPv4 header: the time to live, and the checksum after RFC 1624.
    fn forward(&mut self, number: u64) {
        let at = 14 + (number as usize * 64) % 1400;
        let header = &mut self.frame[at..at + 20];
        header[8] = header[8].wrapping_sub(1);
        let sum = u16::from_be_bytes([header[10], header[11]]);
        let (sum, carry) = sum.overflowing_add(0x0100);
        header[10..12].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        black_box(header);
    }
}

/// Which queue a packet is for, of two.
#[derive(Clone, Copy)]
enum Spread {
    Skewed,
    Even,
}

impl Spread {
    fn queue(self, number: u64) -> usize {
        // Successive packets are of different flows.
        let of_hundred = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        match self {
            Spread::Skewed => usize::from(of_hundred % 100 >= SKEW),
            Spread::Even => (of_hundred & 1) as usize,
        }
    }
}

/// The outcome of one run.
struct Outcome {
    seconds: f64,
    p99: f64,
    dropped: u64,
}

/// Has two threads receive packets, `pause` nanoseconds apart on average: from one queue together, or from
/// one each.
fn run(work: &Work, shared: bool, spread: Spread, pause: f64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(1);
    let mut time = 0.0;
    let mut queues = [Vec::new(), Vec::new()];
    for number in 0..PACKETS {
        time -= pause * (1.0 - random.f64()).ln();
        let place = if shared { 0 } else { spread.queue(number) };
        queues[place].push(Packet { number, arrives: time as u64 });
    }
    let threads = if shared { 2 } else { 1 };
    let queues = queues.map(|packets| Queue::new(packets, threads, pause > 0.0));
    let serving = if shared { [&queues[0], &queues[0]] } else { [&queues[0], &queues[1]] };
    let start = Instant::now();
    let latencies: Vec<f64> = std::thread::scope(|scope| {
        let threads = serving.map(|queue| scope.spawn(move || queue.serve(start, work)));
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let dropped = queues.iter().map(|queue| queue.arrivals.lock().map_or(0, |a| a.dropped)).sum();
    Outcome { seconds, p99: quantile(&latencies, 0.99).unwrap_or_default(), dropped }
}

/// Nanoseconds a packet that one thread takes to receive and forward everything: by the ring that several
/// may share, and by one for a single consumer.
fn one_thread(work: &Work, each: Duration) -> (f64, f64) {
    let queue = SimulatedQueue::new(RING, 0, Packet::default()).expect("a power of two");
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(RING as usize);
    let (mut work, end) = (work.clone(), Instant::now() + each);
    let mut packets = [Packet::default(); MOST_CLAIMED as usize];
    let batch: Vec<Packet> =
        (0..BATCH as u64).map(|number| Packet { number: 2 + 3 * number, arrives: 0 }).collect();
    let (mut concurrent, mut plain, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    while Instant::now() < end {
        queue.give(&batch);
        let start = Instant::now();
        loop {
            let taken = queue.pop(&mut packets);
            packets[..taken].iter().for_each(|packet| work.forward(packet.number));
            if taken == 0 {
                break;
            }
        }
        concurrent += start.elapsed();
        batch.iter().for_each(|packet| producer.push(*packet).expect("it is empty"));
        let start = Instant::now();
        loop {
            let ready = consumer.slots().min(packets.len());
            let chunk = consumer.read_chunk(ready).expect("they are there");
            chunk.into_iter().zip(&mut packets).for_each(|(packet, place)| *place = packet);
            packets[..ready].iter().for_each(|packet| work.forward(packet.number));
            if ready == 0 {
                break;
            }
        }
        plain += start.elapsed();
        count += BATCH as u32;
    }
    let each = |time: Duration| time.as_nanos() as f64 / f64::from(count.max(1));
    (each(concurrent), each(plain))
}

/// Measures. Blocks for some seconds.
pub(crate) fn measure(plan: Plan) -> Result<Report, BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err(BenchError::Cores { bench: "corec", cores });
    }
    let work = Work::calibrated();
    let mut report = Report::new("corec");
    report.setup(format!(
        "two threads, rings of {RING} in memory; a third of packets takes {HEAVY:?} ({} passes), a third is \
         forwarded, a third dropped",
        work.passes
    ));
    report.setup(format!(
        "skewed: {SKEW} % of packets are for one of two queues; arrivals are Poisson"
    ));
    let mut samples: [Samples; 8] = Default::default();
    let mut dropped = [0; 4];
    for _ in plan.rounds() {
        let (concurrent, plain) = one_thread(&work, plan.each);
        let [shared, apart] =
            [true, false].map(|shared| run(&work, shared, Spread::Skewed, 0.0).seconds);
        // The mean time between packets at full load.
        let busy = shared * 1e9 / PACKETS as f64;
        let timed =
            |spread, load: f64| [true, false].map(|shared| run(&work, shared, spread, busy / load));
        let [[skewed, skewed_apart], [even, even_apart]] =
            [timed(Spread::Skewed, 0.7), timed(Spread::Even, 0.8)];
        let runs = [&skewed, &skewed_apart, &even, &even_apart];
        dropped.iter_mut().zip(runs).for_each(|(sum, run)| *sum += run.dropped);
        let values = [
            plain / concurrent,
            apart / shared,
            skewed.p99 / skewed_apart.p99,
            even.p99 / even_apart.p99,
            concurrent,
            PACKETS as f64 / shared / 1e6,
            skewed.p99 / 1e3,
            even.p99 / 1e3,
        ];
        samples.iter_mut().zip(values).for_each(|(samples, value)| samples.push(value));
    }
    let [plain, throughput, skewed, even, cost, rate, skewed_p99, even_p99] = &samples;
    report.ratio("one_thread_vs_plain", "ratio", plain);
    report.ratio("skew_tput_shared_vs_scaleout", "ratio", throughput);
    report.ratio("skew_p99_shared_vs_scaleout", "ratio", skewed);
    report.ratio("balanced_p99_shared_vs_scaleout", "ratio", even);
    report.row("receive and forward, one thread", "ns", cost);
    report.row("shared, no pauses", "Mpps", rate);
    report.row("p99 shared, skewed, load 0.7", "µs", skewed_p99);
    report.row("p99 shared, even, load 0.8", "µs", even_p99);
    let [skewed, skewed_apart, even, even_apart] = dropped;
    report.setup(format!(
        "lost for want of room, shared and apart: skewed {skewed} and {skewed_apart}, even {even} and \
         {even_apart}"
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_served_once_shared_and_apart() {
        let work = Work { frame: vec![7; 1500].into(), passes: 0 };
        for shared in [true, false] {
            for pause in [0.0, 1.0] {
                let packets: Vec<Packet> =
                    (0..5000).map(|number| Packet { number, arrives: 0 }).collect();
                let queue = Queue::new(packets, if shared { 2 } else { 1 }, pause > 0.0);
                let start = Instant::now();
                let served: usize = std::thread::scope(|scope| {
                    let serve = || scope.spawn(|| queue.serve(start, &work).len());
                    let threads: Vec<_> = (0..queue.threads).map(|_| serve()).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
                });
                let lost = queue.arrivals.lock().unwrap().dropped;
                assert_eq!(served as u64 + lost, 5000);
                assert!(pause > 0.0 || lost == 0, "without a clock packets wait");
            }
        }
    }

    #[test]
    fn a_short_measurement_has_every_figure() {
        let report = measure(Plan { rounds: 1, each: Duration::from_millis(5) });
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        for key in [
            "one_thread_vs_plain",
            "skew_tput_shared_vs_scaleout",
            "skew_p99_shared_vs_scaleout",
            "balanced_p99_shared_vs_scaleout",
        ] {
            let value = report.ratios.get(key).copied();
            assert!(
                value.is_some_and(|value| value.is_finite() && value > 0.0),
                "{key}: {value:?}"
            );
        }
    }

    #[test]
    fn a_skewed_load_is_skewed_and_an_even_one_is_not() {
        let first = |spread: Spread| (0..10_000).filter(|n| spread.queue(*n) == 0).count();
        assert!((9400..9600).contains(&first(Spread::Skewed)), "{}", first(Spread::Skewed));
        assert!((4800..5200).contains(&first(Spread::Even)), "{}", first(Spread::Even));
    }
}
