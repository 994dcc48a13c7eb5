//! `weever bench udp-echo`: datagrams sent back, as many as can be and one at a time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_models::Service;
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::{Fixture, pin_to};
use weever_wire::MacAddr;

use crate::contender::{Contender, Gate, rate};
use crate::frame::udp_frame;
use crate::peers;
use crate::plan::Plan;
use crate::rig::{GENERATOR_MAC, HOST, PORT, Receiver, Rig};
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples};

type Body = fn(&Gate) -> Result<(), BenchError>;

const CONTENDERS: [(&str, Body); 3] = [
    ("weever", |gate| peers::weever(gate, Service::Echo, 0)),
    ("bare AF_XDP", peers::bare_echo),
    ("kernel mmsg", peers::mmsg_echo),
];

/// Loads: the frame size, check sequence included, whose core receives what comes back, and what
/// that adds to the names.
const LOADS: [(usize, Receiver, &str); 4] = [
    (64, Receiver::Generator, ""),
    (512, Receiver::Generator, "_512"),
    (1024, Receiver::Generator, "_1024"),
    (64, Receiver::Contender, "_one_core"),
];
/// An echo that takes longer is lost.
const LOST: Duration = Duration::from_millis(100);
/// Of the round-trip times.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

type ByLoad = [Samples; LOADS.len()];

/// Round-trip times, a sample per round, and how many datagrams did not come back.
#[derive(Default)]
struct Times {
    quantiles: [Samples; QUANTILES.len()],
    lost: Samples,
}

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let rig = Rig::new("udp-echo")?;
    rig.kernel_host()?;
    let mut rates: [ByLoad; CONTENDERS.len()] = Default::default();
    let mut times: [Times; CONTENDERS.len()] = Default::default();
    for _ in plan.rounds() {
        for ((_, body), rates) in CONTENDERS.iter().zip(&mut rates) {
            throughput(&rig, *body, plan.each, rates)?;
        }
        for ((_, body), times) in CONTENDERS.iter().zip(&mut times) {
            round_trips(&rig, *body, plan.each, times)?;
        }
    }
    Ok(report(&rig, &rates, &times))
}

/// Every load, open-loop; what comes back is counted where it was sent from.
fn throughput(rig: &Rig, body: Body, each: Duration, rates: &mut ByLoad) -> Result<(), BenchError> {
    let contender = Contender::start(rig, body)?;
    for ((size, receiver, _), samples) in LOADS.iter().zip(rates) {
        rig.receive_returns(*receiver)?;
        let traffic = Traffic::start(rig, *size)?;
        samples.push(rate(each, || Ok(rig.generator_end()?.counters.rx_packets))?);
        drop(traffic);
    }
    contender.finish()
}

/// One datagram in flight, from AF_XDP on the generator's core, spinning.
fn round_trips(rig: &Rig, body: Body, each: Duration, times: &mut Times) -> Result<(), BenchError> {
    let host_mac = rig.contender_end()?.mac;
    let contender = Contender::start(rig, body)?;
    let core = rig.generator_core;
    let (histogram, lost) = rig.fixture.left.run(move || {
        pin_to(core).map_err(BenchError::of("client"))?;
        Client::open(host_mac)?.ping_pong(each)
    })?;
    for ((_, quantile), samples) in QUANTILES.iter().zip(&mut times.quantiles) {
        samples.push(histogram.value_at_quantile(*quantile) as f64 / 1e3);
    }
    times.lost.push(lost as f64);
    contender.finish()
}

struct Client {
    /// Keeps the steering program attached.
    _link: AfXdp,
    queue: Box<dyn LinkQueue>,
    pool: PoolCache,
    /// The datagram; its last bytes are its number.
    frame: Vec<u8>,
    number: u32,
}

impl Client {
    fn open(host_mac: [u8; 6]) -> Result<Client, BenchError> {
        let failed = "client";
        let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of(failed))?;
        let config = AfXdpConfig::new("left0", pool.clone());
        let mut link = AfXdp::open(&config).map_err(BenchError::of(failed))?;
        let queue = link.take_queues().pop();
        let queue = queue.ok_or_else(|| BenchError::of(failed)("the device has no queue"))?;
        let ends = (MacAddr(GENERATOR_MAC), Fixture::LEFT, MacAddr(host_mac), HOST);
        let mut frame = udp_frame(ends, PORT, 60).map_err(BenchError::of(failed))?;
        // No checksum (RFC 768): the number changes each time.
        frame[40..42].fill(0);
        Ok(Client { _link: link, queue, pool: pool.cache(), frame, number: 0 })
    }

    /// The times in nanoseconds, and how many datagrams were lost.
    fn ping_pong(mut self, during: Duration) -> Result<(Histogram<u64>, u64), BenchError> {
        let failed = "client";
        let most = LOST.as_nanos() as u64;
        let mut times = Histogram::new_with_max(most, 3).map_err(BenchError::of(failed))?;
        // The first answers come late: caches, and the contender's first packet.
        for _ in 0..100 {
            self.round_trip().map_err(BenchError::of(failed))?;
        }
        let (started, mut lost) = (Instant::now(), 0);
        while started.elapsed() < during {
            match self.round_trip().map_err(BenchError::of(failed))? {
                Some(time) => times.saturating_record(time.as_nanos() as u64),
                None => lost += 1,
            }
        }
        if times.is_empty() {
            return Err(BenchError::of(failed)("no datagram came back"));
        }
        Ok((times, lost))
    }

    /// Sends a datagram and waits for an answer; `None` if none came.
    fn round_trip(&mut self) -> Result<Option<Duration>, weever_link::LinkError> {
        self.number += 1;
        let number = self.number.to_be_bytes();
        let at = self.frame.len() - number.len();
        self.frame[at..].copy_from_slice(&number);
        let mut packets: VecDeque<_> = self.pool.alloc().into_iter().collect();
        packets.iter_mut().for_each(|packet| {
            packet.append(&self.frame);
        });
        let sent = Instant::now();
        self.queue.tx(&mut self.pool, &mut packets)?;
        self.queue.flush(&mut self.pool)?;
        let mut burst = Burst::new();
        loop {
            let n = self.queue.rx(&mut self.pool, &mut burst, 64)?;
            let elapsed = sent.elapsed();
            let arrived = (0..n).filter_map(|i| burst.take(i));
            let echoes = arrived.map(|packet| {
                // An answer that comes too late is another datagram's.
                let is_echo = packet.data().get(at..at + number.len()) == Some(&number);
                self.pool.free(packet);
                is_echo
            });
            if echoes.fold(false, |any, is_echo| any | is_echo) {
                return Ok(Some(elapsed));
            }
            if elapsed > LOST {
                return Ok(None);
            }
        }
    }
}

fn p50(times: &Times) -> &Samples {
    &times.quantiles[0]
}

fn report(rig: &Rig, rates: &[ByLoad], times: &[Times]) -> Report {
    let mut report = Report::new("udp-echo");
    report.setup(rig.describe());
    report.setup("load: live frames, open loop; counted where they come back");
    report
        .setup("returns are received on the generator's core, in the last rows on the contender's");
    report.setup("RTT: one datagram in flight, AF_XDP client; every contender polls");
    for ((size, receiver, _), at) in LOADS.iter().zip(0..) {
        let place = if *receiver == Receiver::Contender { ", returns received there" } else { "" };
        for ((name, _), rates) in CONTENDERS.iter().zip(rates) {
            report.row(&format!("{name}, {size} B{place}"), "Mpps", &rates[at]);
        }
    }
    for ((name, _), times) in CONTENDERS.iter().zip(times) {
        for ((quantile, _), samples) in QUANTILES.iter().zip(&times.quantiles) {
            report.row(&format!("{name}, RTT {quantile}"), "µs", samples);
        }
        report.row(&format!("{name}, lost"), "datagrams", &times.lost);
    }
    if let ([weever, bare, kernel], [weever_rtt, bare_rtt, kernel_rtt]) = (rates, times) {
        for ((_, _, suffix), at) in LOADS.iter().zip(0..) {
            let against = |peer: &ByLoad| weever[at].ratio(&peer[at]);
            report.ratio(&format!("echo_vs_kernel{suffix}"), "ratio", &against(kernel));
            report.ratio(&format!("echo_vs_bare_xsk{suffix}"), "ratio", &against(bare));
        }
        report.ratio("rtt_vs_kernel", "ratio", &p50(weever_rtt).ratio(p50(kernel_rtt)));
        report.ratio("rtt_vs_bare_xsk", "ratio", &p50(weever_rtt).ratio(p50(bare_rtt)));
    }
    report
}
