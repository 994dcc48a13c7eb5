//! `weever bench forward`: IPv4 from one device to another, beside the kernel's forwarding, and what
//! the graph costs for it without a device.

use std::time::Duration;

use crate::contender::rate;
use crate::crossing::{Crossing, FORWARDERS, Forwarder};
use crate::forward_in_memory::Memory;
use crate::plan::Plan;
use crate::{BenchError, Report, Samples};

/// Batches for which the graph's cost is measured.
const BATCHES: [usize; 2] = [64, 1];
/// Part of a round that the measurement in memory gets.
const IN_MEMORY: Duration = Duration::from_millis(100);

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let crossing = Crossing::new("forward")?;
    let mut rates: [Samples; FORWARDERS.len()] = Default::default();
    let mut memory = BATCHES.map(|batch| (batch, Samples::default()));
    for _ in plan.rounds() {
        for ((_, forwarder), samples) in FORWARDERS.iter().zip(&mut rates) {
            samples.push(measure(&crossing, *forwarder, 64, plan.each)?);
        }
        for (batch, samples) in &mut memory {
            samples.push(Memory::new()?.ns_per_packet(*batch, IN_MEMORY)?);
        }
    }
    Ok(report(&crossing, &rates, &memory))
}

/// Packets per microsecond that come out at the other side.
pub(crate) fn measure(
    crossing: &Crossing,
    forwarder: Forwarder,
    frame: usize,
    each: Duration,
) -> Result<f64, BenchError> {
    let contender = crossing.start(forwarder)?;
    let traffic = crossing.traffic(frame)?;
    let rate = rate(each, || crossing.arrived())?;
    drop(traffic);
    contender.finish()?;
    Ok(rate)
}

fn report(
    crossing: &Crossing,
    rates: &[Samples; FORWARDERS.len()],
    memory: &[(usize, Samples)],
) -> Report {
    let mut report = Report::new("forward");
    report.setup(crossing.describe());
    report
        .setup("load: UDP in 64-byte frames, 16 flows, live frames, open loop; counted at the end");
    report.setup("in memory: receive, check, route, TTL, neighbour, encapsulate, send; no device");
    for ((name, _), samples) in FORWARDERS.iter().zip(rates) {
        report.row(name, "Mpps", samples);
    }
    for (batch, samples) in memory {
        report.row(&format!("in memory, batch {batch}"), "ns/packet", samples);
    }
    let [weever, kernel] = rates;
    report.ratio("fwd_vs_kernel", "ratio", &weever.ratio(kernel));
    for (batch, samples) in memory {
        let key = if *batch == 64 { "fwd_ns" } else { "fwd_ns_batch1" };
        report.ratio(key, "ns/packet", samples);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forwarders_forward() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let report = run(Plan { rounds: 1, each: Duration::from_millis(100) }).unwrap();
        assert!(report.rows.iter().all(|row| row.median > 0.0), "{report}");
        assert!(report.ratios.contains_key("fwd_vs_kernel"), "{report}");
    }
}
