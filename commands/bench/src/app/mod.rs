//! `weever bench app`: the throughput and latency of applications, beside those over the kernel's
//! sockets.

mod cable;
mod ring;
mod server;
mod sockets;
mod store;

use std::time::Duration;

use weever_testbed::pin_to;

use crate::client::Client;
use crate::contender::{Contender, rate};
use crate::peers;
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples};

pub(crate) use cable::{Datagrams, Exchange, cable, queue_on};
pub(crate) use server::{
    Body, DEVICE, Kind, beside, builder, builder_on, busy_ns, has_memcached, library, process,
    run as run_program, serve, serving,
};
pub(crate) use store::{LIMIT, Reached as Answered, VALUES, describe, describe_requests, requests};

/// Bytes of a frame, check sequence included.
const SMALL: usize = 64;
/// How many sockets are opened in one go, for the series. Above 10,000 only in the last round.
const SERIES: [usize; 6] = [1, 10, 100, 1_000, 100_000, 1_000_000];

/// The results of one contender: answers per second in millions, and time of its core for each.
#[derive(Default)]
struct Reached {
    rates: Samples,
    cpu_ns: Samples,
}

pub(crate) fn run(plan: Plan, all_sockets: bool) -> Result<Report, BenchError> {
    let mut report = Report::new("app");
    in_memory(plan, all_sockets, &mut report)?;
    let rig = Rig::new("app")?;
    rig.kernel_host()?;
    report.setup(rig.describe());
    report.setup("server, stack and their threads on the contender's core; load: live frames");
    echoes(&rig, plan, &mut report)?;
    store::measure(&rig, plan, &mut report)?;
    round_trips(&rig, plan, &mut report)?;
    Ok(report)
}

/// The parts that need no device.
fn in_memory(plan: Plan, all_sockets: bool, report: &mut Report) -> Result<(), BenchError> {
    let (mut ring, mut opened, mut single) = Default::default();
    for _ in plan.rounds() {
        Samples::push(&mut ring, ring::nanoseconds(plan.each)?);
        Samples::push(&mut opened, sockets::milliseconds(10_000, true)?);
        Samples::push(&mut single, sockets::milliseconds(10_000, false)?);
    }
    report.ratio("ring_ns", "ns", &ring);
    report.ratio("open_10k_ms", "ms", &opened);
    report.row("open 10000, one at a time", "ms", &single);
    for count in SERIES {
        if count <= 1_000 || all_sockets {
            let took = Samples(vec![sockets::milliseconds(count, true)?]);
            report.row(&format!("open {count}"), "ms", &took);
        }
    }
    report.ratio("bytes_per_socket", "B", &Samples(vec![sockets::bytes_per_socket()?]));
    Ok(())
}

fn echoes(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let contenders: [(&str, Body); 3] = [
        ("kernel", peers::mmsg_echo),
        ("process", |gate| server::process(gate, Kind::Echo)),
        ("library", |gate| server::library(gate, Kind::Echo)),
    ];
    let mut reached: [Reached; 3] = Default::default();
    let mut load = Samples::default();
    for _ in plan.rounds() {
        for ((_, body), reached) in contenders.iter().zip(&mut reached) {
            measure(rig, *body, plan.each, reached)?;
        }
        load.push(offered(rig, plan.each)?);
    }
    let [kernel, process, library] = &reached;
    rows(report, "echo", &contenders, &reached);
    report.row("offered load", "Mpps", &load);
    report.row("load / library echo", "", &load.ratio(&library.rates));
    report.ratio("echo_process_vs_kernel", "", &process.rates.ratio(&kernel.rates));
    report.ratio("echo_library_vs_kernel", "", &library.rates.ratio(&kernel.rates));
    Ok(())
}

fn rows(report: &mut Report, what: &str, contenders: &[(&str, Body)], reached: &[Reached]) {
    for ((name, _), reached) in contenders.iter().zip(reached) {
        report.row(&format!("{what}, {name}"), "M/s", &reached.rates);
        report.row(&format!("{what}, {name}: its core, each"), "ns", &reached.cpu_ns);
    }
}

/// Offers a load, and counts the packets that come back to its source.
fn measure(rig: &Rig, body: Body, each: Duration, reached: &mut Reached) -> Result<(), BenchError> {
    rig.receive_returns(Receiver::Generator)?;
    let contender = Contender::start(rig, body)?;
    let traffic = Traffic::start(rig, SMALL)?;
    let answers = || Ok(rig.generator_end()?.counters.rx_packets);
    let before = server::busy_ns(rig.contender_core)?;
    let answered = answers()?;
    reached.rates.push(rate(each, answers)?);
    let (busy, answered) = (server::busy_ns(rig.contender_core)? - before, answers()? - answered);
    reached.cpu_ns.push(busy as f64 / answered.max(1) as f64);
    drop(traffic);
    contender.finish()
}

/// The rate of the load's generator when all is received and dropped: the most it can drive.
fn offered(rig: &Rig, each: Duration) -> Result<f64, BenchError> {
    let contender = Contender::start(rig, peers::bare_drop)?;
    let traffic = Traffic::start(rig, SMALL)?;
    let rate = contender.rate(each);
    drop(traffic);
    contender.finish()?;
    Ok(rate)
}

fn round_trips(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let contenders: [(&str, Body); 3] = [
        ("kernel", peers::mmsg_echo),
        ("process", |gate| server::process(gate, Kind::Echo)),
        ("library", |gate| server::library(gate, Kind::Echo)),
    ];
    let mut times: [Samples; 3] = Default::default();
    for _ in plan.rounds() {
        for ((_, body), times) in contenders.iter().zip(&mut times) {
            let host_mac = rig.contender_end()?.mac;
            let contender = Contender::start(rig, *body)?;
            let core = rig.generator_core;
            let (histogram, _) = rig.fixture.left.run(move || {
                pin_to(core).map_err(BenchError::of("client"))?;
                Client::open(host_mac)?.ping_pong(plan.each)
            })?;
            times.push(histogram.value_at_quantile(0.5) as f64 / 1e3);
            contender.finish()?;
        }
    }
    for ((name, _), times) in contenders.iter().zip(&times) {
        report.row(&format!("round trip p50, {name}"), "µs", times);
    }
    let [kernel, process, library] = &times;
    report.ratio("rtt_library_vs_kernel", "", &library.ratio(kernel));
    report.row("rtt_process_vs_kernel", "", &process.ratio(kernel));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_openings_are_measured() {
        let cores = weever_testbed::allowed_cores().unwrap();
        assert!(ring::nanoseconds(Duration::from_millis(200)).unwrap() > 0.0);
        assert_eq!(weever_testbed::allowed_cores().unwrap(), cores, "what follows needs them all");
        assert!(sockets::milliseconds(100, true).unwrap() > 0.0);
        assert!(sockets::milliseconds(10, false).unwrap() > 0.0);
    }

    #[test]
    fn the_library_echoes() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let rig = Rig::new("app").unwrap();
        rig.kernel_host().unwrap();
        let each = Duration::from_millis(500);
        let mut reached = Reached::default();
        let echo = |gate: &crate::contender::Gate| server::library(gate, Kind::Echo);
        measure(&rig, echo, each, &mut reached).unwrap();
        assert!(reached.rates.0.iter().all(|rate| *rate > 0.0), "{:?}", reached.rates);
    }
}
