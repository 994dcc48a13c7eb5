//! `weever bench corec`: threads on one receive queue against a thread on each of several, with weever's ring
//! and its rule of sharing.
//!
//! - [`claims`](super::claims) and [`fed`](super::fed): the cost of taking packets off a shared ring.
//! - Tables 2 and 3 of the COREC paper: threads on one queue against one thread on a plain ring, with the light
//!   and the heavy work of [`gateway`](super::gateway).
//! - Two threads under skewed and even load, shared against a queue each ([`rated`](super::rated)).
//! - The same on a virtual clock with 2, 4 and 8 servers ([`virtual_time`](super::virtual_time)).
//! - Reordering after RFC 4737 ([`order`](super::order)).
//!
//! All of it is in memory ([`queue`](super::queue)).

use std::path::Path;

use super::claims::Claims;
use super::drawing::{against_threads, draw};
use super::fed::Fed;
use super::gateway::{HEAVY, Work};
use super::order::Order;
use super::queue::{RING, SKEW};
use super::rated::Rated;
use super::routes::ROUTES;
use super::team::Team;
use super::virtual_time::{self, Latencies};
use crate::samples::{Plan, Samples};
use crate::{BenchError, Report};

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

    /// The throughput by threads, as a multiple of that of the plain ring.
    fn points(&self) -> Vec<(f64, f64)> {
        let median = |samples: &Samples| samples.ratio(&self.plain).summary().median;
        THREADS.iter().zip(&self.shared).map(|(n, samples)| (*n as f64, median(samples))).collect()
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

/// Measures. Blocks for up to a minute.
pub(super) fn measure(
    plan: Plan,
    capture: Option<&Path>,
    svg: Option<&Path>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let heavy = Work::heavy(HEAVY)?;
    let (mut light_team, mut heavy_team) = (Team::new(Work::Light, 4)?, Team::new(heavy, 4)?);
    let (mut light_table, mut heavy_table) = (Table::default(), Table::default());
    let (mut claims, mut fed, mut order) = (Claims::default(), Fed::new()?, Order::new(capture)?);
    let mut rated = Rated::in_memory()?;
    for round in plan.rounds() {
        claims.round()?;
        fed.round()?;
        light_table.round(&mut light_team)?;
        heavy_table.round(&mut heavy_team)?;
        order.round(&mut light_team)?;
        rated.round(round)?;
    }
    describe(report, heavy);
    claims.report(report);
    fed.report(report);
    light_table.report(report, "light");
    heavy_table.report(report, "heavy");
    order.report(report);
    report.ratio("one_thread_vs_plain", "ratio", &light_table.shared[0].ratio(&light_table.plain));
    rated.report(report);
    for servers in SERVERS {
        let [shared, apart] = virtual_time::both(servers, 0.8, VIRTUAL);
        let key = format!("simulated_p99_shared_vs_scaleout_{servers}");
        let ratio = Latencies::of(&shared).p99 / Latencies::of(&apart).p99;
        report.ratio(&key, "ratio", &Samples(vec![ratio]));
    }
    let Some(path) = svg else { return Ok(()) };
    let [light, heavy] = [&light_table, &heavy_table].map(Table::points);
    draw(path, "threads", &against_threads(light, heavy), report)
}

fn describe(report: &mut Report, heavy: Work) {
    let Work::Heavy(passes) = heavy else { return };
    report.setup(format!(
        "rings of {RING} in memory; a thread's router is the host's graph with {ROUTES} routes of IPv4 and {ROUTES} of IPv6"
    ));
    report.setup(format!(
        "light: all packets forwarded, half of them IPv6; heavy: a third encrypted for {HEAVY:?} ({passes} passes of AES-128-GCM), \
         a third forwarded, a third dropped"
    ));
    report.setup(format!(
        "skewed: {SKEW} % of packets are for one of two queues; arrivals are Poisson, latency counts from there"
    ));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::gateway::Router;
    use super::super::queue::{Queue, Spread, queues};
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
    fn a_short_measurement_has_every_figure() {
        let plan = Plan { rounds: 1, each: Duration::from_millis(5) };
        let mut report = Report::new("corec");
        measure(plan, None, None, &mut report).unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        for key in [
            "one_thread_vs_plain",
            "light_2_threads_vs_plain",
            "heavy_2_threads_vs_plain",
            "claim_two_threads_vs_mutex",
            "claim_fed_vs_mutex",
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
