//! The same over AF_XDP on veth pairs, in namespaces of their own.
//!
//! With two cores, the unmeasured half has one of them (the flood's sender, its softirqs and the flooded worker, or the
//! source and the sinks), and the measured worker has the other. So figures show how workers disturb each other, and
//! not how the system divides a core.

mod flood;
mod flows;
mod slow_link;
mod station;

use weever_link::Link;
use weever_testbed::{Fixture, allowed_cores, privileged};

use super::change;
use super::flood::pool;
use crate::samples::Plan;
use crate::{BenchError, Report};

/// Adds the figures, where the process may make namespaces and has two cores.
pub(super) fn measure(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let cores = allowed_cores().map_err(BenchError::of("cores"))?;
    let [other, own, ..] = cores[..] else {
        report.setup("veth: left out, as it needs two cores");
        return Ok(());
    };
    if !privileged() {
        report.setup("veth: left out, as it needs CAP_NET_ADMIN and CAP_BPF");
        return Ok(());
    }
    report.setup(format!("veth: the measured worker on core {own}, all else on core {other}"));
    slow_link::measure([other, own], plan, report)?;
    flood::measure([other, own], plan, report)?;
    flows::measure(report)?;
    let (net, frames) = (Fixture::pair(1)?, pool()?);
    let mut link = net.right.run(|| station::open("right0", &frames))?;
    change::measure_on(link.take_queues(), frames, "_veth", plan, report)
}
