//! `weever bench corec`: threads on one receive queue against a thread on each of several, with weever's ring
//! and its rule of sharing.
//!
//! - [`claims`](super::claims): the cost of taking packets off a shared ring.
//! - Tables 2 and 3 of the COREC paper: threads on one queue against one thread on a plain ring, with the light
//!   and the heavy work of [`gateway`](super::gateway).
//! - Two threads under skewed and even load, shared against a queue each, as pairs of runs by threads with real-time priority
//!   ([`pairs`](super::pairs)); drawn, if wanted, against the load ([`figures`](super::figures)).
//! - The same by AF_XDP ([`veth`](super::veth)), as root.
//! - The same on a virtual clock with 2, 4 and 8 servers ([`virtual_time`](super::virtual_time)).
//! - Reordering after RFC 4737 ([`order`](super::order)).
//!
//! All but AF_XDP is in memory ([`queue`](super::queue)).

use std::path::Path;
use std::time::Duration;

use super::calm::RealTime;
use super::claims::Claims;
use super::figures;
use super::gateway::{HEAVY, Work};
use super::order::Order;
use super::pairs::Pairs;
use super::queue::{RING, SKEW, Spread, queues};
use super::routes::ROUTES;
use super::team::{PACKETS, Team};
use super::veth::Cables;
use super::virtual_time::{self, Latencies};
use crate::samples::{Plan, Samples};
use crate::{BenchError, Report};

/// Packets of a run at a rate.
const SHORT: u64 = 4_000;
/// Pairs of runs at a rate in each round.
const PAIRS: u64 = 8;
/// The time of an encrypted packet where threads are compared at a rate: long compared with a tick of the
/// kernel's clock.
const LONG: Duration = Duration::from_micros(50);
/// The pause after each pair, in which other threads run that wait while these have real-time priority.
const REST: Duration = Duration::from_millis(10);
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

/// The 99th percentile shared : a queue each, of so many simulated servers.
fn simulated(servers: usize, load: f64) -> [Latencies; 2] {
    let pause = virtual_time::busy() / servers as f64 / load;
    [true, false].map(|shared| {
        let queues = queues((servers, shared), Spread::Even, (VIRTUAL, pause), 1);
        Latencies::of(&virtual_time::serve(&queues, servers))
    })
}

/// Two threads at rates below their throughput.
struct Rated {
    team: Team,
    skewed: Pairs,
    even: Pairs,
    is_real_time: bool,
}

impl Rated {
    fn new() -> Result<Rated, BenchError> {
        let team = Team::new(Work::heavy(LONG)?, 2)?;
        let skewed = Pairs::new("skewed, load 0.7", Spread::Skewed, 0.7, SHORT);
        let even = Pairs::new("even, load 0.8", Spread::Even, 0.8, SHORT);
        Ok(Rated { team, skewed, even, is_real_time: false })
    }

    fn round(&mut self, round: usize) -> Result<(), BenchError> {
        let real_time = RealTime::for_measuring();
        self.is_real_time = real_time.is_some();
        for pair in 0..PAIRS {
            let seed = round as u64 * PAIRS + pair;
            let busy = self.team.busy()?;
            self.even.round(&mut self.team, busy, seed)?;
            std::thread::sleep(REST);
            self.skewed.round(&mut self.team, busy, seed)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let priority =
            if self.is_real_time { "with real-time priority" } else { "with the usual priority" };
        report.setup(format!(
            "at a rate: threads {priority}; encrypting takes {LONG:?}; pairs of runs with the same {SHORT} arrivals"
        ));
        report.setup(
            "ratios at a rate: the median of pairs, with its confidence interval of 95 % as min and max",
        );
        for pairs in [&self.even, &self.skewed] {
            pairs.report(report);
        }
        report.ratio("skew_p99_shared_vs_scaleout", "ratio", &self.skewed.p99_ratio());
        report.ratio("balanced_p99_shared_vs_scaleout", "ratio", &self.even.p99_ratio());
    }
}

/// The same by AF_XDP, on cables between two namespaces.
struct Carried {
    cables: Cables,
    throughput: Samples,
    skewed: Pairs,
    even: Pairs,
}

impl Carried {
    fn new() -> Result<Carried, BenchError> {
        let pairs = |name, spread, load| Pairs::new(name, spread, load, SHORT / 2);
        Ok(Carried {
            cables: Cables::new(Work::heavy(LONG)?)?,
            throughput: Samples::default(),
            skewed: pairs("AF_XDP, skewed, load 0.7", Spread::Skewed, 0.7),
            even: pairs("AF_XDP, even, load 0.8", Spread::Even, 0.8),
        })
    }

    fn round(&mut self, round: usize) -> Result<(), BenchError> {
        let _real_time = RealTime::for_measuring();
        let Carried { cables, throughput, skewed, even } = self;
        let mut full = |is_shared| cables.run(is_shared, Spread::Skewed, (SHORT / 2, 0.0), 0);
        let (shared, apart) = (full(true)?.0, full(false)?.0);
        throughput.push(apart.seconds / shared.seconds);
        for pair in 0..PAIRS / 2 {
            let seed = round as u64 * PAIRS + pair;
            let busy = cables.busy()?;
            for pairs in [&mut *even, &mut *skewed] {
                pairs.round_by(busy, seed, |is_shared, spread, load| {
                    cables.run(is_shared, spread, load, seed)
                })?;
                std::thread::sleep(REST);
            }
        }
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        report.setup("AF_XDP: a veth pair between two namespaces; the thread that polls also sends due packets at the other end, 1 µs each");
        self.even.report(report);
        self.skewed.report(report);
        report.ratio("xdp_skew_tput_shared_vs_scaleout", "ratio", &self.throughput);
        report.ratio("xdp_skew_p99_shared_vs_scaleout", "ratio", &self.skewed.p99_ratio());
        report.ratio("xdp_balanced_p99_shared_vs_scaleout", "ratio", &self.even.p99_ratio());
    }
}

/// Measures. Blocks for up to a minute.
pub(super) fn measure(
    plan: Plan,
    capture: Option<&Path>,
    svg: Option<&Path>,
) -> Result<Report, BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err(BenchError::Cores { bench: "corec", cores });
    }
    let heavy = Work::heavy(HEAVY)?;
    let (mut light_team, mut heavy_team) = (Team::new(Work::Light, 4)?, Team::new(heavy, 4)?);
    let (mut light_table, mut heavy_table) = (Table::default(), Table::default());
    let (mut claims, mut order) = (Claims::default(), Order::new(capture)?);
    let mut skew_tput = Samples::default();
    let mut rated = Rated::new()?;
    let mut carried = weever_testbed::privileged().then(Carried::new).transpose()?;
    for round in plan.rounds() {
        claims.round()?;
        light_table.round(&mut light_team)?;
        heavy_table.round(&mut heavy_team)?;
        order.round(&mut light_team)?;
        let load = (PACKETS, 0.0);
        let real_time = RealTime::for_measuring();
        let [shared, apart] = [true, false]
            .map(|shared| heavy_team.pair(&queues((2, shared), Spread::Skewed, load, 0)));
        drop(real_time);
        let (shared, apart) = (shared?, apart?);
        skew_tput.push(apart.seconds / shared.seconds);
        rated.round(round)?;
        carried.as_mut().map_or(Ok(()), |carried| carried.round(round))?;
    }
    let mut report = Report::new("corec");
    describe(&mut report, heavy, cores);
    claims.report(&mut report);
    light_table.report(&mut report, "light");
    heavy_table.report(&mut report, "heavy");
    order.report(&mut report);
    report.ratio("one_thread_vs_plain", "ratio", &light_table.shared[0].ratio(&light_table.plain));
    report.ratio("skew_tput_shared_vs_scaleout", "ratio", &skew_tput);
    rated.report(&mut report);
    match &carried {
        Some(carried) => carried.report(&mut report),
        None => report.setup("AF_XDP: skipped, needs CAP_NET_ADMIN"),
    }
    if let Some(path) = svg {
        figures::tables([&light_table, &heavy_table].map(Table::points), path, &mut report)?;
        figures::measured(plan, (&mut light_team, &mut rated.team), path, &mut report)?;
        figures::simulated(path, &mut report)?;
    }
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::gateway::Router;
    use super::super::queue::Queue;
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
        let report = measure(Plan { rounds: 1, each: Duration::from_millis(5) }, None, None);
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
