//! What sharing does to the kernel's TCP through a router (COREC §4.3.2): the goodput of one huge flow, and how
//! long many short flows take.
//!
//! Two threads that forward packets of one flow may change their order. A receiver answers that with duplicate
//! acknowledgements, and a sender may send again what is not lost.

use super::counts::Counts;
use super::kernel_tcp::{Carried, Load, carry};
use super::pairs::interval;
use super::path::{Path, Received, Serving};
use crate::samples::{Plan, Samples, quantile};
use crate::{BenchError, Report};

/// Routers for a huge flow: with queues of their own, only one of several threads would receive it.
const HUGE: [Serving; 5] = [
    Serving::Shared(1),
    Serving::Shared(2),
    Serving::Shared(4),
    Serving::Ordered(2),
    Serving::Ordered(4),
];
/// Routers for many flows.
const MANY: [Serving; 5] = [
    Serving::Shared(1),
    Serving::Shared(2),
    Serving::ScaleOut(2),
    Serving::Shared(4),
    Serving::ScaleOut(4),
];
/// Octets of short flows, by name, and how many each client sends.
const SHORT: [(&str, u64, usize); 3] =
    [("1 KB", 1_000, 12), ("10 KB", 10_000, 12), ("100 KB", 100_000, 6)];
/// Clients at once.
const PARALLEL: [usize; 2] = [64, 128];

/// A name, and what it counts.
type Count = (&'static str, fn(&Counts) -> u64);

/// What the kernels counted.
const COUNTS: [Count; 4] = [
    ("sent again", |counts| counts.again),
    ("sent again in vain", |counts| counts.in_vain),
    ("arrived early", |counts| counts.early),
    ("acknowledgements", |counts| counts.acknowledgements),
];

/// What is counted at the router, with its unit.
type AtRouter = (&'static str, &'static str, fn(&Received) -> f64);

const AT_ROUTER: [AtRouter; 3] = [
    ("taken by helpers", "ratio", Received::share_of_helpers),
    ("no room in the router's ring", "segments", |received| received.lost as f64),
    ("order given up", "times", |received| received.given_up as f64),
];

/// The keys of what all but the first of [`HUGE`] lose against the first: on a link of a rate, and on one without.
const LOSSES: [[&str; HUGE.len() - 1]; 2] = [
    [
        "huge_flow_loss",
        "huge_flow_loss_4_threads",
        "huge_flow_loss_ordered",
        "huge_flow_loss_ordered_4_threads",
    ],
    [
        "huge_flow_loss_unlimited",
        "huge_flow_loss_unlimited_4_threads",
        "huge_flow_loss_unlimited_ordered",
        "huge_flow_loss_unlimited_ordered_4_threads",
    ],
];

/// A huge flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Huge {
    /// Its length.
    pub(crate) octets: u64,
    /// The rate of the client's link, in megabits a second.
    pub(crate) megabits: u32,
}

/// A router, and what it did to a kind of load.
struct Routed {
    serving: Serving,
    goodput: Samples,
    mean: Samples,
    p99: Samples,
    counts: [Samples; COUNTS.len()],
}

impl Routed {
    fn new(serving: Serving) -> Routed {
        let empty = Samples::default;
        let counts = std::array::from_fn(|_| empty());
        Routed { serving, goodput: empty(), mean: empty(), p99: empty(), counts }
    }

    fn add(&mut self, load: Load, carried: &Carried) {
        let Carried { times, counts, .. } = carried;
        self.goodput.push(carried.goodput(load));
        self.mean.push(times.iter().sum::<f64>() / times.len().max(1) as f64);
        self.p99.push(quantile(times, 0.99).unwrap_or_default());
        for (samples, (_, count)) in self.counts.iter_mut().zip(COUNTS) {
            samples.push(count(counts) as f64);
        }
    }

    /// The rows of what the kernels counted.
    fn report_counts(&self, name: &str, report: &mut Report) {
        for (samples, (what, _)) in self.counts.iter().zip(COUNTS) {
            report.row(&format!("{name}: {what}"), "segments", samples);
        }
    }
}

fn describe(report: &mut Report) {
    let path = "TCP: kernel, weever, kernel in three namespaces; veth, offloads off at both ends; cubic, or as the kernel is set";
    if report.setup.iter().any(|line| line == path) {
        return;
    }
    report.setup(path);
    report.setup(
        "a flow's time: from before it is opened until the server has all of it and has closed",
    );
}

/// So many places, each first in its turn, since a machine gets slower or faster while it is measured.
fn in_turn(places: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..places).map(move |place| (place + round) % places)
}

/// Measures one huge flow in all planned rounds, however long they take, since few of them decide nothing: with the
/// whole of a link of a rate, as the paper's, and with a link that carries what the processors can. Needs root. Blocks
/// for a minute a round at 1 GB and 1 Gbit/s.
pub(super) fn one_huge(plan: Plan, huge: Huge, report: &mut Report) -> Result<(), BenchError> {
    describe(report);
    report.setup(format!(
        "huge flows: {} rounds, in which each number of threads comes first in turn; their ratios: the median, with its \
         confidence interval of 95 % as min and max",
        plan.rounds,
    ));
    for (rate, keys) in [Some(huge.megabits), None].into_iter().zip(LOSSES) {
        at_rate(plan, huge.octets, rate, keys, report)?;
    }
    Ok(())
}

/// Measures a huge flow on a link of that rate, in megabits a second, or without one.
fn at_rate(
    plan: Plan,
    octets: u64,
    rate: Option<u32>,
    keys: [&str; HUGE.len() - 1],
    report: &mut Report,
) -> Result<(), BenchError> {
    let load = Load { parallel: 1, each: 1, octets };
    let mut all = HUGE.map(Routed::new);
    let mut at_router = HUGE.map(|_| <[Samples; AT_ROUTER.len()]>::default());
    for round in 0..plan.rounds {
        for place in in_turn(HUGE.len(), round) {
            let routed = &mut all[place];
            let path = Path::new(routed.serving)?;
            if let Some(megabits) = rate {
                path.set_rate(megabits)?;
            }
            routed.add(load, &carry(&path, load)?);
            let received = path.finish()?;
            for (samples, (_, _, figure)) in at_router[place].iter_mut().zip(AT_ROUTER) {
                samples.push(figure(&received));
            }
        }
    }
    let link =
        rate.map_or("no rate".into(), |megabits| format!("{} Gbit/s", f64::from(megabits) / 1e3));
    for (routed, at_router) in all.iter().zip(&at_router) {
        let Routed { serving, goodput, .. } = routed;
        let name = format!("{link}, {:.1} GB, {}", octets as f64 / 1e9, serving.name());
        report.row(&format!("{name}: goodput"), "Gbit/s", goodput);
        routed.report_counts(&name, report);
        for (samples, (what, unit, _)) in at_router.iter().zip(AT_ROUTER) {
            report.row(&format!("{name}: {what}"), unit, samples);
        }
    }
    let [one, others @ ..] = &all;
    for (key, routed) in keys.into_iter().zip(others) {
        let lost = routed.goodput.ratio(&one.goodput).0.iter().map(|kept| 1.0 - kept).collect();
        report.ratio(key, "ratio", &interval(&Samples(lost)));
    }
    Ok(())
}

/// Measures how long many short flows take. Needs root. Blocks for up to a minute.
pub(super) fn many_short(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    describe(report);
    let loads = PARALLEL.into_iter().flat_map(|parallel| {
        SHORT.map(|(name, octets, each)| (name, Load { parallel, each, octets }))
    });
    let mut all: Vec<_> = loads.map(|(name, load)| (name, load, MANY.map(Routed::new))).collect();
    for round in plan.rounds() {
        for place in in_turn(MANY.len(), round) {
            let path = Path::new(MANY[place])?;
            for (_, load, routed) in &mut all {
                routed[place].add(*load, &carry(&path, *load)?);
            }
            path.finish()?;
        }
    }
    for (name, load, routed) in &all {
        let what = format!("{} flows of {name}", load.parallel);
        for routed in routed {
            let Routed { serving, mean, p99, .. } = routed;
            let name = format!("{what}, {}", serving.name());
            report.row(&format!("{name}: mean"), "ms", mean);
            report.row(&format!("{name}: p99"), "ms", p99);
            routed.report_counts(&name, report);
        }
        let [_, shared, apart, ..] = routed;
        let key = format!("flows_{}_{}", load.parallel, name.replace(' ', "").to_lowercase());
        report.ratio(&format!("{key}_mean"), "ratio", &shared.mean.ratio(&apart.mean));
        report.ratio(&format!("{key}_p99"), "ratio", &shared.p99.ratio(&apart.p99));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_is_first_in_its_turn() {
        let orders: Vec<Vec<usize>> = (0..3).map(|round| in_turn(3, round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert!(in_turn(3, 4).eq(in_turn(3, 1)));
    }

    #[test]
    fn a_short_measurement_has_every_figure() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let mut report = Report::new("corec");
        let plan = Plan { rounds: 1, each: Duration::ZERO };
        one_huge(plan, Huge { octets: 5_000_000, megabits: 400 }, &mut report).unwrap();
        many_short(plan, &mut report).unwrap();
        println!("{report}");
        for key in LOSSES.concat() {
            assert!(report.ratios.contains_key(key), "{key}: {report}");
        }
        for key in ["flows_64_1kb_mean", "flows_128_100kb_p99"] {
            assert!(report.ratios[key] > 0.0, "{key}: {report}");
        }
    }
}
