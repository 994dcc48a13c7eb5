//! `weever bench modes`: the cost of waiting for packets, and of polling.
//!
//! A worker echoes UDP in each of its modes, at three loads: idle, half of its capacity, and more
//! than its capacity. At each: answers per second, round-trip times, the share of a core that the
//! worker's thread uses, and its context switches, as LANA compared its back-ends (§6.5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use weever_engine::Mode;
use weever_models::Service;
use weever_testbed::pin_to;

use crate::client::Client;
use crate::contender::ThreadUse;
use crate::contender::{Contender, Gate, rate};
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::traffic::Traffic;
use crate::{BenchError, Report, Samples, peers};

const MODES: [(&str, Mode); 3] = [
    ("busy", Mode::Busy),
    ("adaptive", Mode::Adaptive { spin: 50_000 }),
    ("interrupt", Mode::Interrupt),
];
/// Datagrams per second, one at a time, for the round-trip time of an idle worker.
const PINGS: f64 = 1000.0;
/// Frames that the client sends at once at half load.
const AT_ONCE: usize = 16;

/// A sample per round for everything that is measured of one mode.
type Figures = BTreeMap<&'static str, Samples>;

const ROWS: [(&str, &str); 11] = [
    ("idle, CPU", "core"),
    ("idle, context switches", "/s"),
    ("idle, RTT p50", "µs"),
    ("idle, RTT p99", "µs"),
    ("half, CPU", "core"),
    ("half, context switches", "/s"),
    ("half, RTT p50", "µs"),
    ("half, RTT p99", "µs"),
    ("full, rate", "Mpps"),
    ("full, CPU", "core"),
    ("full, context switches", "/s"),
];

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let rig = Rig::new("modes")?;
    rig.receive_returns(Receiver::Generator)?;
    let mut figures: [Figures; MODES.len()] = Default::default();
    let mut half = None;
    for _ in plan.rounds() {
        for ((_, mode), figures) in MODES.iter().zip(&mut figures) {
            measure(&rig, *mode, plan.each, &mut half, figures)?;
        }
    }
    Ok(report(&rig, half, &figures))
}

fn report(rig: &Rig, half: Option<f64>, figures: &[Figures; MODES.len()]) -> Report {
    let mut report = Report::new("modes");
    report.setup(rig.describe());
    report.setup("UDP echo of 64-byte frames; returns are received on the generator's core");
    let half = half.unwrap_or_default();
    report.setup(format!(
        "idle: no packet, then one at a time, {PINGS} in a second; half: {half:.2} Mpps, {AT_ONCE} \
         at once; full: live frames, open loop"
    ));
    report
        .setup("CPU: time of the worker's thread, without the softirqs that its system calls run");
    for (row, unit) in ROWS {
        for ((mode, _), figures) in MODES.iter().zip(figures) {
            if let Some(samples) = figures.get(row) {
                report.row(&format!("{mode}, {row}"), unit, samples);
            }
        }
    }
    let [busy, adaptive, interrupt] = figures;
    if let Some(idle) = adaptive.get("idle, CPU") {
        report.ratio("adaptive_idle_cpu", "core", idle);
    }
    for (key, mode) in [("adaptive_full", adaptive), ("interrupt_full", interrupt)] {
        if let (Some(own), Some(peer)) = (mode.get("full, rate"), busy.get("full, rate")) {
            report.ratio(key, "ratio", &own.ratio(peer));
        }
    }
    report
}

/// One mode at every load. The first full load gives the rate of the half one.
fn measure(
    rig: &Rig,
    mode: Mode,
    each: Duration,
    half: &mut Option<f64>,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    let host_mac = rig.contender_end()?.mac;
    let thread = Arc::new(AtomicI32::new(0));
    let known = Arc::clone(&thread);
    let contender = Contender::start(rig, move |gate: &Gate| {
        known.store(ThreadUse::of_this_thread(), Ordering::Relaxed);
        peers::weever_in(gate, Service::Echo, 0, mode)
    })?;
    let thread = thread.load(Ordering::Relaxed);
    let mut note = |row, value| figures.entry(row).or_default().push(value);

    // The announcements of a fresh stack are no idleness.
    std::thread::sleep(Duration::from_millis(300));
    let sleep = || {
        std::thread::sleep(each);
        Ok(())
    };
    let ((cpu, switches), ()) = during(thread, sleep)?;
    note("idle, CPU", cpu);
    note("idle, context switches", switches);

    let traffic = Traffic::start(rig, 64)?;
    let full = || rate(each, || Ok(rig.generator_end()?.counters.rx_packets));
    let ((cpu, switches), full) = during(thread, full)?;
    drop(traffic);
    note("full, rate", full);
    note("full, CPU", cpu);
    note("full, context switches", switches);

    let load = *half.get_or_insert(full / 2.0);
    let core = rig.generator_core;
    let client = move |rate: f64, at_once| {
        rig.fixture.left.run(move || {
            pin_to(core).map_err(BenchError::of("client"))?;
            Client::open(host_mac)?.paced(rate, at_once, each)
        })
    };
    let (_, idle) = during(thread, || client(PINGS, 1))?;
    note("idle, RTT p50", idle.value_at_quantile(0.5) as f64 / 1e3);
    note("idle, RTT p99", idle.value_at_quantile(0.99) as f64 / 1e3);
    let ((cpu, switches), times) = during(thread, || client(load * 1e6, AT_ONCE))?;
    note("half, CPU", cpu);
    note("half, context switches", switches);
    note("half, RTT p50", times.value_at_quantile(0.5) as f64 / 1e3);
    note("half, RTT p99", times.value_at_quantile(0.99) as f64 / 1e3);
    contender.finish()
}

/// A thread's use while `work` was done: share of a core, context switches per second.
fn during<T>(
    thread: i32,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<((f64, f64), T), BenchError> {
    let failed = || BenchError::of("contender");
    let (before, started) = (ThreadUse::read(thread).map_err(failed())?, Instant::now());
    let done = work()?;
    let (after, seconds) =
        (ThreadUse::read(thread).map_err(failed())?, started.elapsed().as_secs_f64());
    let cpu = (after.cpu_ns - before.cpu_ns) as f64 / 1e9 / seconds;
    Ok(((cpu, (after.switches - before.switches) as f64 / seconds), done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_every_figure_of_every_mode() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let report = run(Plan { rounds: 1, each: Duration::from_millis(200) }).unwrap();
        for key in ["adaptive_idle_cpu", "adaptive_full", "interrupt_full"] {
            assert!(report.ratios.contains_key(key), "{key}: {report}");
        }
        assert_eq!(report.rows.len(), ROWS.len() * MODES.len() + 3);
    }
}
