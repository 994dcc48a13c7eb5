//! `weever bench corec-sim`: one queue for all servers against a queue for each, as queueing models.
//!
//! Section 3.2 of the COREC paper in numbers: N servers that share one queue (M/M/N, M/D/N) against N
//! servers with a queue each, among which arrivals are spread at random (N × M/M/1, N × M/D/1). The
//! simulation is beside the theory, so each checks the other: `sim_vs_erlang_c` is the largest relative
//! error of any simulated mean or 99th percentile.
//!
//! Times are in units of the mean service time. Nothing here depends on the machine.
//!
//! `weever bench corec` has the parts of [`Only`]: [`threads`], real threads on real rings with real work, [`rated`] by
//! AF_XDP, [`sweep`] over loads, the models above, and [`flows`], what sharing does to the kernel's TCP.

mod calm;
mod claims;
mod counts;
mod crew;
mod drawing;
mod fed;
mod flows;
mod gateway;
mod kernel_tcp;
mod order;
mod pairs;
mod path;
mod queue;
mod rated;
mod reorder;
mod routes;
mod simulation;
mod sweep;
mod team;
mod theory;
mod threads;
mod veth;
mod virtual_time;

use std::path::Path;

use clap::ValueEnum;
use drawing::{Side, against_load, draw};
pub(crate) use flows::Huge;
use simulation::{Latency, Queues, Service, simulate};

use crate::plot::Plot;
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

/// The loads that are simulated and drawn: arrivals per server and service time.
const LOADS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// The numbers of servers, as in the paper's figures 3 and 4.
const SERVERS: [u32; 2] = [4, 8];
/// Customers at load 0; more at higher loads, where successive latencies depend on each other.
const CUSTOMERS: f64 = 1e6;

/// One combination at one load, simulated and calculated.
struct Point {
    load: f64,
    simulated: Latency,
    calculated: Latency,
}

/// A part of `weever bench corec`. None takes longer than it says on an idle machine; measured rounds that would end
/// after 45 seconds are left out, but for the huge flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Threads on queues in memory: claims, throughput by threads, reordering, latency. Up to a minute, no root
    Memory,
    /// Two threads that receive by AF_XDP: throughput and latency. Up to a minute
    Xdp,
    /// Latency and throughput at six loads, in memory, by AF_XDP as root, and simulated. Up to three minutes
    Sweep,
    /// As corec-sim: the queueing models of one queue and of several. Two minutes, no root
    Queueing,
    /// One huge flow of the kernel's TCP through a router, on a link of a rate and on one without. Five minutes, or
    /// fifty with --huge 10000; --rounds changes that
    HugeFlow,
    /// Short flows of the kernel's TCP through a router, 64 and 128 at once. Up to a minute
    Flows,
}

impl Only {
    const ALL: [Only; 6] =
        [Only::Memory, Only::Xdp, Only::Sweep, Only::Queueing, Only::HugeFlow, Only::Flows];

    /// Whether it is left out if nothing else is asked for: what is mostly wanted drawn, with `--svg`.
    fn is_for_plots(self) -> bool {
        matches!(self, Only::Sweep | Only::Queueing)
    }

    /// As on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }

    fn needs_root(self) -> bool {
        matches!(self, Only::Xdp | Only::HugeFlow | Only::Flows)
    }
}

/// Measures `weever bench corec`, or one part of it, by the first plan; huge flows, by the second, are as `flow` says. Without root, parts that need
/// it are left out unless one was asked for. With `svg`, tables 2 and 3 and figures 3 to 6 of the paper are drawn
/// beside that file. Blocks for minutes.
pub(crate) fn measure(
    [plan, huge]: [Plan; 2],
    only: Option<Only>,
    flow: Huge,
    (capture, svg): (Option<&Path>, Option<&Path>),
) -> Result<Report, BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err(BenchError::Cores { bench: "corec", cores });
    }
    let mut report = Report::new("corec");
    report.setup(format!("{cores} cores"));
    for part in parts(only, svg.is_some()) {
        let is_forbidden = part.needs_root() && !weever_testbed::privileged();
        match part {
            _ if is_forbidden && only.is_some() => return Err(BenchError::Rights("corec")),
            _ if is_forbidden => {
                report.setup(format!("{}: skipped, needs CAP_NET_ADMIN", part.name()));
            }
            Only::Memory => threads::measure(plan, capture, svg, &mut report)?,
            Only::Xdp => rated::measure_xdp(plan, &mut report)?,
            Only::Sweep => sweep::measure(plan, svg, &mut report)?,
            Only::Queueing => queueing(&mut report, svg)?,
            Only::HugeFlow => flows::one_huge(huge, flow, &mut report)?,
            Only::Flows => flows::many_short(plan, &mut report)?,
        }
    }
    Ok(report)
}

/// The part that was asked for, or all that belong to the report.
fn parts(only: Option<Only>, is_drawn: bool) -> impl Iterator<Item = Only> {
    let is_wanted = move |part: &Only| match only {
        Some(only) => *part == only,
        None => is_drawn || !part.is_for_plots(),
    };
    Only::ALL.into_iter().filter(is_wanted)
}

/// Simulates, compares with the theory, and writes the plots of 99th percentiles to `svg` if wanted: a
/// file for each service and number of servers, beside each other (`x.svg` becomes `x-exponential-4.svg`
/// and so on). Blocks for about a minute.
pub(crate) fn run(svg: Option<&Path>) -> Result<Report, BenchError> {
    let mut report = Report::new("corec-sim");
    queueing(&mut report, svg)?;
    Ok(report)
}

fn queueing(report: &mut Report, svg: Option<&Path>) -> Result<(), BenchError> {
    report.setup("virtual time in units of the mean service time; Poisson arrivals; latency is waiting and service");
    report.setup(
        "theory: Erlang C for M/M/N, Pollaczek-Khinchine and Crommelin/Franx for M/D/1 and M/D/N",
    );
    let mut errors = Samples::default();
    for service in [Service::Exponential, Service::Deterministic] {
        for servers in SERVERS {
            let shared = series(service, Queues::Shared, servers);
            let separate = series(service, Queues::PerServer, servers);
            for point in shared.iter().chain(&separate) {
                errors.push(point.simulated.error(point.calculated));
            }
            rows(report, service, servers, &shared, &separate);
            if let Some(path) = svg {
                let name = format!("{}-{servers}", service.name());
                draw(path, &name, &plot(service, servers, &shared, &separate), report)?;
            }
        }
    }
    report.row("relative error of simulation, all points", "ratio", &errors);
    report.ratio("sim_vs_erlang_c", "ratio", &Samples(vec![errors.summary().max]));
    Ok(())
}

fn series(service: Service, queues: Queues, servers: u32) -> Vec<Point> {
    let point = |(at, load): (usize, f64)| {
        // Latencies are correlated over about 1/(1-load)² service times.
        let customers = (CUSTOMERS / (1.0 - load).powi(2)) as u64;
        // A queue of its own needs as many customers as the shared one.
        let customers =
            if queues == Queues::PerServer { customers * u64::from(servers) } else { customers };
        let seed = (u64::from(servers) << 32) | at as u64;
        Point {
            load,
            simulated: simulate(service, queues, servers, load, customers, seed),
            calculated: theory::latency(service, queues, servers, load),
        }
    };
    LOADS.into_iter().enumerate().map(point).collect()
}

fn rows(report: &mut Report, service: Service, servers: u32, shared: &[Point], separate: &[Point]) {
    for (shared, separate) in shared.iter().zip(separate) {
        let name = |what| {
            format!(
                "{} service, {servers} servers, load {:.1}: {what}",
                service.name(),
                shared.load
            )
        };
        let mut row = |what, value| report.row(&name(what), "service times", &Samples(vec![value]));
        row("mean, shared queue", shared.simulated.mean);
        row("mean, a queue each", separate.simulated.mean);
        row("p99, shared queue", shared.simulated.p99);
        row("p99, a queue each", separate.simulated.p99);
    }
}

fn plot(service: Service, servers: u32, shared: &[Point], separate: &[Point]) -> Plot {
    let title = match (service, servers) {
        (Service::Exponential, 4) => "Latency, exponential service, 4 servers",
        (Service::Exponential, _) => "Latency, exponential service, 8 servers",
        (Service::Deterministic, 4) => "Latency, deterministic service, 4 servers",
        (Service::Deterministic, _) => "Latency, deterministic service, 8 servers",
    };
    let side = |points: &[Point]| Side {
        mean: points.iter().map(|p| (p.load, p.simulated.mean)).collect(),
        p99: points.iter().map(|p| (p.load, p.simulated.p99)).collect(),
        ..Side::default()
    };
    against_load(title, "service times", [side(shared), side(separate)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_that_part_and_plots_take_all() {
        use Only::{Flows, HugeFlow, Memory, Xdp};
        assert!(parts(None, false).eq([Memory, Xdp, HugeFlow, Flows]));
        assert!(parts(None, true).eq(Only::ALL));
        for part in Only::ALL {
            assert!(parts(Some(part), false).eq([part]));
        }
    }

    #[test]
    fn simulation_and_theory_agree() {
        for service in [Service::Exponential, Service::Deterministic] {
            for queues in [Queues::Shared, Queues::PerServer] {
                let simulated = simulate(service, queues, 4, 0.6, 2_000_000, 7);
                let error = simulated.error(theory::latency(service, queues, 4, 0.6));
                assert!(error < 0.02, "{service:?} {queues:?}: {error}");
            }
        }
    }
}
