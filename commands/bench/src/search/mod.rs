//! `weever bench search`: the cost of finding a configuration.
//!
//! Repeats table 1 of the Dragonet queue management paper (82599, 10 queues, balance), with the
//! paper's own times beside, and goes on to where it stopped: 100,000 flows on the `xdp` model, and
//! a NIC whose tables run full. All of it is computing; no NIC is needed.

mod gap;
mod optimum;
mod quality;
mod rig;

use std::path::Path;

use crate::samples::Plan;
use crate::{BenchError, Report, Samples};
use rig::{Case, Growth, Times};
pub(crate) use rig::{flows, xdp};

/// The paper's numbers of flows.
const PAPER_FLOWS: [u32; 4] = [10, 100, 250, 500];
/// How far it goes on the `xdp` model.
const XDP_FLOWS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];

/// Measures, and writes the plot to `svg` if wanted. Blocks for about a minute with the defaults.
pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    let mut report = Report::new("search");
    report.setup("one thread, no NIC: the computation of the search, without telling a device");
    report.setup("82599: silicon, 10 queues, balance by flows, as in the paper; xdp: 64 queues");
    report.setup("flows are connected UDP four-tuples; +1 and -1 are the means of 100 in a row");
    // First, so that the memory is theirs.
    quality::measure_overlap(&mut report)?;
    let paper = rig::i82599()?;
    for flows in PAPER_FLOWS {
        let times = Case::new(&paper, flows).measure(plan);
        rig::beside_paper(&mut report, flows, &times);
        if flows == 500 {
            keys(&mut report, "500", &times, true);
        }
    }
    let mut growth = Growth::default();
    let xdp = rig::xdp()?;
    for flows in XDP_FLOWS {
        let times = Case::new(&xdp, flows).measure(plan);
        rows(&mut report, &format!("xdp {flows}"), &times);
        growth.add(flows, &times);
        match flows {
            10_000 => keys(&mut report, "10k", &times, false),
            100_000 => report.ratio("full_100k", "ms", &times.full),
            _ => {}
        }
    }
    connectx5(&mut report, plan)?;
    gap::measure(&mut report)?;
    quality::measure_churn(&mut report)?;
    growth.report(&mut report);
    if let Some(path) = svg {
        std::fs::write(path, growth.to_svg()).map_err(BenchError::of("plot"))?;
        report.setup(format!("plot: {}", path.display()));
    }
    Ok(report)
}

/// The figures that have names.
fn keys(report: &mut Report, size: &str, times: &Times, removal: bool) {
    report.ratio(&format!("full_{size}"), "ms", &times.full);
    report.ratio(&format!("add1_{size}"), "ms", &times.add1);
    if removal {
        report.ratio(&format!("del1_{size}"), "ms", &times.del1);
    }
}

fn rows(report: &mut Report, name: &str, times: &Times) {
    let all: [(&str, &Samples); 5] = [
        ("full", &times.full),
        ("+1", &times.add1),
        ("+10", &times.add10),
        ("-1", &times.del1),
        ("-10", &times.del10),
    ];
    for (column, samples) in all {
        report.row(&format!("{name} flows, {column}"), "ms", samples);
    }
}

/// As far as the tables of a ConnectX-5 reach: as Linux exposes them, and as the silicon has them.
fn connectx5(report: &mut Report, plan: Plan) -> Result<(), BenchError> {
    for (view, nic) in [("Linux", rig::connectx5(true)?), ("silicon", rig::connectx5(false)?)] {
        let reach = rig::reach(&nic);
        // Beyond one table's worth the silicon's tables only repeat each other.
        let sizes = match view {
            "Linux" => vec![reach / 2, reach, reach + reach / 10],
            _ => vec![reach.min(64_000)],
        };
        let plan = Plan { rounds: plan.rounds.min(2), ..plan };
        for flows in sizes {
            let case = Case::new(&nic, flows);
            let times = case.measure(plan);
            let name = format!("ConnectX-5 {view} {flows}");
            rows(report, &name, &times);
            report.row(&format!("{name} flows, placed"), "flows", &times.placed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn small_cases_have_all_their_figures() {
        let nic = rig::i82599().unwrap();
        let times = Case::new(&nic, 50).measure(Plan { rounds: 2, each: Duration::ZERO });
        let mut report = Report::new("search");
        rig::beside_paper(&mut report, 10, &times);
        keys(&mut report, "500", &times, true);
        for key in ["full_500", "add1_500", "del1_500"] {
            assert!(report.ratios[key] > 0.0, "{key}");
        }
        assert_eq!(times.placed.summary().min, 50.0);
    }

    #[test]
    fn a_table_that_runs_full_places_what_it_can() {
        let nic = rig::connectx5(true).unwrap();
        let reach = rig::reach(&nic);
        let case = Case::new(&nic, reach + 10);
        let times = case.measure(Plan { rounds: 1, each: Duration::ZERO });
        assert_eq!(times.placed.summary().max, f64::from(reach));
    }
}
