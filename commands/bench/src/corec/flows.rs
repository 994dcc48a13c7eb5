//! What sharing does to the kernel's TCP through a router (COREC §4.3.2): the goodput of one huge flow, and how
//! long many short flows take.
//!
//! Two threads that forward packets of one flow may change their order. A receiver answers that with duplicate
//! acknowledgements, and a sender may send again what is not lost.

use super::kernel_tcp::{Carried, Load, carry};
use super::path::{Path, Serving};
use crate::samples::{Plan, Samples, quantile};
use crate::{BenchError, Report};

/// Routers for a huge flow: with queues of their own, only one of several threads would receive it.
const HUGE: [Serving; 3] = [Serving::Shared(1), Serving::Shared(2), Serving::Shared(4)];
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

/// A router, and what it did to a kind of load.
struct Routed {
    serving: Serving,
    goodput: Samples,
    mean: Samples,
    p99: Samples,
    again: Samples,
}

impl Routed {
    fn new(serving: Serving) -> Routed {
        let empty = Samples::default;
        Routed { serving, goodput: empty(), mean: empty(), p99: empty(), again: empty() }
    }

    fn add(&mut self, load: Load, carried: &Carried) {
        let Carried { times, again, .. } = carried;
        self.goodput.push(carried.goodput(load));
        self.mean.push(times.iter().sum::<f64>() / times.len().max(1) as f64);
        self.p99.push(quantile(times, 0.99).unwrap_or_default());
        self.again.push(*again as f64);
    }
}

/// Measures, with huge flows of so many octets. Needs root. Blocks for a minute and more.
pub(super) fn measure(plan: Plan, huge: u64, report: &mut Report) -> Result<(), BenchError> {
    report.setup(
        "TCP: kernel, weever, kernel in three namespaces; veth, offloads off at both ends; cubic, or as the kernel is set",
    );
    report.setup(
        "a flow's time: from before it is opened until the server has all of it and has closed",
    );
    one_huge(plan, huge, report)?;
    many_short(plan, report)
}

fn one_huge(plan: Plan, octets: u64, report: &mut Report) -> Result<(), BenchError> {
    let load = Load { parallel: 1, each: 1, octets };
    let mut all = HUGE.map(Routed::new);
    for _ in plan.rounds() {
        for routed in &mut all {
            let path = Path::new(routed.serving)?;
            routed.add(load, &carry(&path, load)?);
            path.finish()?;
        }
    }
    for Routed { serving, goodput, again, .. } in &all {
        let name = format!("one flow of {:.1} GB, {}", octets as f64 / 1e9, serving.name());
        report.row(&format!("{name}: goodput"), "Gbit/s", goodput);
        report.row(&format!("{name}: sent again"), "segments", again);
    }
    let [one, two, four] = &all;
    for (key, routed) in [("huge_flow_loss", two), ("huge_flow_loss_4_threads", four)] {
        let lost = routed.goodput.ratio(&one.goodput).0.iter().map(|kept| 1.0 - kept).collect();
        report.ratio(key, "ratio", &Samples(lost));
    }
    Ok(())
}

fn many_short(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let loads = PARALLEL.into_iter().flat_map(|parallel| {
        SHORT.map(|(name, octets, each)| (name, Load { parallel, each, octets }))
    });
    let mut all: Vec<_> = loads.map(|(name, load)| (name, load, MANY.map(Routed::new))).collect();
    for _ in plan.rounds() {
        for (number, serving) in MANY.into_iter().enumerate() {
            let path = Path::new(serving)?;
            for (_, load, routed) in &mut all {
                routed[number].add(*load, &carry(&path, *load)?);
            }
            path.finish()?;
        }
    }
    for (name, load, routed) in &all {
        let what = format!("{} flows of {name}", load.parallel);
        for Routed { serving, mean, p99, again, .. } in routed {
            let name = format!("{what}, {}", serving.name());
            report.row(&format!("{name}: mean"), "ms", mean);
            report.row(&format!("{name}: p99"), "ms", p99);
            report.row(&format!("{name}: sent again"), "segments", again);
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
    fn a_short_measurement_has_every_figure() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let mut report = Report::new("corec");
        let plan = Plan { rounds: 1, each: Duration::ZERO };
        measure(plan, 5_000_000, &mut report).unwrap();
        println!("{report}");
        assert!(report.ratios.contains_key("huge_flow_loss"), "{report}");
        for key in ["flows_64_1kb_mean", "flows_128_100kb_p99"] {
            assert!(report.ratios[key] > 0.0, "{key}: {report}");
        }
    }
}
