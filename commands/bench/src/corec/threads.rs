//! `weever bench corec`: threads on one receive queue against a thread on each of several, with weever's ring
//! and its rule of sharing.
//!
//! - [`claims`](super::claims): the cost of taking packets off a shared ring.
//! - Tables 2 and 3 of the COREC paper: threads on one queue against one thread on a plain ring, with the light
//!   and the heavy work of [`gateway`](super::gateway).
//! - Two threads under skewed and even load, shared against a queue each. A round is short, so that
//!   the scheduler takes a core away in few of them, and the median over rounds is of the others.
//! - The same on a virtual clock with 2, 4 and 8 servers ([`virtual_time`](super::virtual_time)).
//! - Reordering after RFC 4737 ([`order`](super::order)).
//!
//! Everything is in memory ([`queue`](super::queue)).

use std::path::Path;

use super::claims::Claims;
use super::gateway::{HEAVY, Work};
use super::order::Order;
use super::queue::{Queue, RING, SKEW, Spread, queues};
use super::routes::ROUTES;
use super::team::{PACKETS, Team};
use super::virtual_time::{self, Latencies};
use crate::samples::{Plan, Samples};
use crate::{BenchError, Report};

/// Packets of a run at a rate: some milliseconds.
const SHORT: u64 = 4_000;
/// Runs at a rate in each round.
const RUNS: u64 = 8;
/// Packets on a virtual clock.
const VIRTUAL: u64 = 100_000;
/// Numbers of threads of tables 2 and 3, and of simulated servers.
const THREADS: [usize; 3] = [1, 2, 4];
const SERVERS: [usize; 3] = [2, 4, 8];

/// Tables 2 and 3 for one kind of work.
#[derive(Default)]
struct Table {
    plain: Samples,
    shared: [Samples; THREADS.len()],
}

impl Table {
    fn round(&mut self, team: &mut Team) -> Result<(), BenchError> {
        self.plain.push(team.plain()?);
        for (threads, samples) in THREADS.into_iter().zip(&mut self.shared) {
            samples.push(team.shared(threads)?);
        }
        Ok(())
    }

    fn report(&self, report: &mut Report, name: &str) {
        report.row(&format!("{name}: plain ring, one thread"), "Mpps", &self.plain);
        for (threads, samples) in THREADS.into_iter().zip(&self.shared) {
            report.row(&format!("{name}: shared, threads: {threads}"), "Mpps", samples);
        }
        for (threads, samples) in THREADS.into_iter().zip(&self.shared).skip(1) {
            let key = format!("{name}_{threads}_threads_vs_plain");
            report.ratio(&key, "ratio", &samples.ratio(&self.plain));
        }
    }
}

/// Two threads at a rate, shared and with a queue each.
struct Loaded {
    name: &'static str,
    spread: Spread,
    /// The part of what sharing can do.
    load: f64,
    shared: [Samples; 3],
    apart: [Samples; 3],
    lost: [u64; 2],
}

impl Loaded {
    fn new(name: &'static str, spread: Spread, load: f64) -> Loaded {
        let (shared, apart) = Default::default();
        Loaded { name, spread, load, shared, apart, lost: [0; 2] }
    }

    /// `busy` is the mean time between packets at full load, in nanoseconds.
    fn round(&mut self, team: &mut Team, busy: f64, seed: u64) -> Result<(), BenchError> {
        let sides = [(true, &mut self.shared), (false, &mut self.apart)];
        for ((shared, samples), lost) in sides.into_iter().zip(&mut self.lost) {
            let load = (SHORT, busy / self.load);
            let queues = queues((2, shared), self.spread, load, seed);
            let Latencies { mean, p99, p999 } = team.pair(&queues)?.latencies;
            samples.iter_mut().zip([mean, p99, p999]).for_each(|(all, ns)| all.push(ns / 1e3));
            *lost += queues.iter().map(Queue::dropped).sum::<u64>();
        }
        Ok(())
    }

    fn p99_ratio(&self) -> Samples {
        self.shared[1].ratio(&self.apart[1])
    }

    fn report(&self, report: &mut Report) {
        for (what, samples) in [("shared", &self.shared), ("a queue each", &self.apart)] {
            for (of, samples) in ["mean", "p99", "p99.9"].into_iter().zip(samples) {
                report.row(&format!("{}, {what}: {of}", self.name), "µs", samples);
            }
        }
        let [shared, apart] = self.lost;
        report.setup(format!(
            "{}: {shared} packets found no room in the shared queue, {apart} in those of each",
            self.name
        ));
    }
}

/// The 99th percentile shared : a queue each, of so many simulated servers.
fn simulated(servers: usize, load: f64) -> [Latencies; 2] {
    let pause = virtual_time::busy() / servers as f64 / load;
    [true, false].map(|shared| {
        let queues = queues((servers, shared), Spread::Even, (VIRTUAL, pause), 1);
        Latencies::of(&virtual_time::serve(&queues, servers))
    })
}

/// Measures. Blocks for up to a minute.
pub(super) fn measure(plan: Plan, capture: Option<&Path>) -> Result<Report, BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err(BenchError::Cores { bench: "corec", cores });
    }
    let heavy = Work::heavy()?;
    let (mut light_team, mut heavy_team) = (Team::new(Work::Light, 4)?, Team::new(heavy, 4)?);
    let (mut light_table, mut heavy_table) = (Table::default(), Table::default());
    let (mut claims, mut order) = (Claims::default(), Order::new(capture)?);
    let mut skew_tput = Samples::default();
    let mut skewed = Loaded::new("skewed, load 0.7", Spread::Skewed, 0.7);
    let mut even = Loaded::new("even, load 0.8", Spread::Even, 0.8);
    for round in plan.rounds() {
        claims.round()?;
        light_table.round(&mut light_team)?;
        heavy_table.round(&mut heavy_team)?;
        order.round(&mut light_team)?;
        let load = (PACKETS, 0.0);
        let [shared, apart] = [true, false]
            .map(|shared| heavy_team.pair(&queues((2, shared), Spread::Skewed, load, 0)));
        let (shared, apart) = (shared?, apart?);
        skew_tput.push(apart.seconds / shared.seconds);
        let busy = shared.seconds * 1e9 / PACKETS as f64;
        for run in 0..RUNS {
            let seed = round as u64 * RUNS + run;
            skewed.round(&mut heavy_team, busy, seed)?;
            even.round(&mut heavy_team, busy, seed)?;
        }
    }
    let mut report = Report::new("corec");
    describe(&mut report, heavy, cores);
    claims.report(&mut report);
    light_table.report(&mut report, "light");
    heavy_table.report(&mut report, "heavy");
    order.report(&mut report);
    report.ratio("one_thread_vs_plain", "ratio", &light_table.shared[0].ratio(&light_table.plain));
    report.ratio("skew_tput_shared_vs_scaleout", "ratio", &skew_tput);
    for loaded in [&skewed, &even] {
        loaded.report(&mut report);
    }
    report.ratio("skew_p99_shared_vs_scaleout", "ratio", &skewed.p99_ratio());
    report.ratio("balanced_p99_shared_vs_scaleout", "ratio", &even.p99_ratio());
    for servers in SERVERS {
        let [shared, apart] = simulated(servers, 0.8);
        let key = format!("simulated_p99_shared_vs_scaleout_{servers}");
        report.ratio(&key, "ratio", &Samples(vec![shared.p99 / apart.p99]));
    }
    Ok(report)
}

fn describe(report: &mut Report, heavy: Work, cores: usize) {
    let Work::Heavy(passes) = heavy else { return };
    report.setup(format!(
        "{cores} cores, rings of {RING} in memory; a thread's router is the host's graph with {ROUTES} routes of IPv4 and {ROUTES} of IPv6"
    ));
    report.setup(format!(
        "light: all packets forwarded, half of them IPv6; heavy: a third encrypted for {HEAVY:?} ({passes} passes of AES-128-GCM), \
         a third forwarded, a third dropped"
    ));
    report.setup(format!(
        "skewed: {SKEW} % of packets are for one of two queues; arrivals are Poisson, latency counts from there"
    ));
    report.setup(format!("runs at a rate have {SHORT} packets, {RUNS} in each round"));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::gateway::Router;
    use super::*;

    #[test]
    fn every_packet_is_served_once_shared_and_apart() {
        let mut team = Team::new(Work::Heavy(1), 2).unwrap();
        for shared in [true, false] {
            for pause in [0.0, 1.0] {
                let sent = |team: &Team| team.routers.iter().map(Router::sent).sum::<u64>();
                let before = sent(&team);
                let queues = queues((2, shared), Spread::Even, (6000, pause), 0);
                let outcome = team.pair(&queues).unwrap();
                let lost: u64 = queues.iter().map(Queue::dropped).sum();
                assert_eq!(outcome.left.len() as u64 + lost, 6000);
                assert!(pause > 0.0 || lost == 0, "without a clock packets wait");
                assert!(lost > 0 || sent(&team) - before == 4000, "a third is dropped");
            }
        }
    }

    #[test]
    fn simulated_servers_that_share_are_faster() {
        for servers in SERVERS {
            let [shared, apart] = simulated(servers, 0.8);
            assert!(
                shared.mean < apart.mean && shared.p99 < 0.9 * apart.p99,
                "{servers}: {shared:?} {apart:?}"
            );
            assert_eq!(simulated(servers, 0.8), [shared, apart], "it repeats");
        }
    }

    #[test]
    fn a_short_measurement_has_every_figure() {
        let report = measure(Plan { rounds: 1, each: Duration::from_millis(5) }, None);
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        for key in [
            "one_thread_vs_plain",
            "light_2_threads_vs_plain",
            "heavy_2_threads_vs_plain",
            "claim_two_threads_vs_mutex",
            "skew_tput_shared_vs_scaleout",
            "skew_p99_shared_vs_scaleout",
            "balanced_p99_shared_vs_scaleout",
            "simulated_p99_shared_vs_scaleout_8",
        ] {
            let value = report.ratios.get(key).copied();
            assert!(
                value.is_some_and(|value| value.is_finite() && value > 0.0),
                "{key}: {value:?}"
            );
        }
    }
}
