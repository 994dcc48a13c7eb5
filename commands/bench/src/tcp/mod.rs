//! `weever bench tcp`: TCP beside smoltcp's in memory, and beside the kernel's.

mod memory;

pub(crate) use memory::{Smoltcp, Weever};

use crate::samples::Plan;
use crate::{BenchError, Report};

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let mut report = Report::new("tcp");
    memory::measure(plan, &mut report);
    Ok(report)
}
