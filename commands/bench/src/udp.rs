//! `weever bench rx` and `weever bench udp-echo`: datagrams taken into a socket as fast as they come, and
//! datagrams sent back, as many as can be and one at a time.

use std::time::Duration;

use weever_models::Service;
use weever_testbed::pin_to;

use crate::client::Client;
use crate::contender::{Contender, Gate, rate};
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples, peers};

type Body = fn(&Gate) -> Result<(), BenchError>;

/// The contenders in receiving, in the order in which they run in each round.
const RECEIVERS: [(&str, Body); 5] = [
    ("weever", |gate| peers::weever(gate, Service::Discard, 0)),
    ("weever + 10 counters", |gate| peers::weever(gate, Service::Discard, 10)),
    ("bare AF_XDP drop", peers::bare_drop),
    ("kernel recvmmsg", peers::recvmmsg),
    ("TPACKET_V3", peers::tpacket),
];

/// `weever bench rx`.
pub(crate) fn receive(plan: Plan) -> Result<Report, BenchError> {
    let rig = Rig::new("rx")?;
    rig.kernel_host()?;
    let mut samples: [Samples; RECEIVERS.len()] = Default::default();
    for _ in plan.rounds() {
        for ((_, body), samples) in RECEIVERS.iter().zip(&mut samples) {
            let contender = Contender::start(&rig, *body)?;
            let traffic = Traffic::start(&rig, 64)?;
            samples.push(contender.rate(plan.each));
            drop(traffic);
            contender.finish()?;
        }
    }
    Ok(receive_report(&rig, &samples))
}

fn receive_report(rig: &Rig, samples: &[Samples; RECEIVERS.len()]) -> Report {
    let mut report = Report::new("rx");
    report.setup(rig.describe());
    report.setup("load: UDP in 64-byte frames, 16 flows, live frames, open loop");
    for ((name, _), samples) in RECEIVERS.iter().zip(samples) {
        report.row(name, "Mpps", samples);
    }
    let [weever, counters, bare, recvmmsg, tpacket] = samples;
    report.ratio("rx_vs_recvmmsg", "ratio", &weever.ratio(recvmmsg));
    report.ratio("rx_vs_bare_xsk", "ratio", &weever.ratio(bare));
    report.ratio("rx_vs_tpacket", "ratio", &weever.ratio(tpacket));
    let cost = counters.ratio(weever).0.iter().map(|ratio| 1.0 - ratio).collect();
    report.ratio("ten_blocks_cost", "share", &Samples(cost));
    report
}

const ECHOES: [(&str, Body); 3] = [
    ("weever", |gate| peers::weever(gate, Service::Echo, 0)),
    ("bare AF_XDP", peers::bare_echo),
    ("kernel mmsg", peers::mmsg_echo),
];

/// Loads: the frame size, check sequence included, the core that receives the returned packets, and
/// the suffix of the names.
const LOADS: [(usize, Receiver, &str); 4] = [
    (64, Receiver::Generator, ""),
    (512, Receiver::Generator, "_512"),
    (1024, Receiver::Generator, "_1024"),
    (64, Receiver::Contender, "_one_core"),
];
/// Of the round-trip times.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

type ByLoad = [Samples; LOADS.len()];

/// Round-trip times, a sample per round, and how many datagrams did not come back.
#[derive(Default)]
struct Times {
    quantiles: [Samples; QUANTILES.len()],
    lost: Samples,
}

/// `weever bench udp-echo`.
pub(crate) fn echo(plan: Plan) -> Result<Report, BenchError> {
    let rig = Rig::new("udp-echo")?;
    rig.kernel_host()?;
    let mut rates: [ByLoad; ECHOES.len()] = Default::default();
    let mut times: [Times; ECHOES.len()] = Default::default();
    for _ in plan.rounds() {
        for ((_, body), rates) in ECHOES.iter().zip(&mut rates) {
            throughput(&rig, *body, plan.each, rates)?;
        }
        for ((_, body), times) in ECHOES.iter().zip(&mut times) {
            round_trips(&rig, *body, plan.each, times)?;
        }
    }
    Ok(echo_report(&rig, &rates, &times))
}

/// Every load, open-loop; returned packets are counted at the load's source.
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

fn p50(times: &Times) -> &Samples {
    &times.quantiles[0]
}

fn echo_report(rig: &Rig, rates: &[ByLoad], times: &[Times]) -> Report {
    let mut report = Report::new("udp-echo");
    report.setup(rig.describe());
    report.setup("load: live frames, open loop; counted where they come back");
    report
        .setup("returns are received on the generator's core, in the last rows on the contender's");
    report.setup("RTT: one datagram in flight, AF_XDP client; every contender polls");
    for ((size, receiver, _), at) in LOADS.iter().zip(0..) {
        let place = if *receiver == Receiver::Contender { ", returns received there" } else { "" };
        for ((name, _), rates) in ECHOES.iter().zip(rates) {
            report.row(&format!("{name}, {size} B{place}"), "Mpps", &rates[at]);
        }
    }
    for ((name, _), times) in ECHOES.iter().zip(times) {
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
