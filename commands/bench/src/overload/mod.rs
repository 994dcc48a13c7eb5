//! `weever bench overload`: the stack when much happens at once, in memory and on veth, with threads of its own.

mod attacks;
mod change;
mod errors;
mod established;
mod flood;
mod flows;
mod paced;
mod sequence;
mod slow_link;
mod veth;

use crate::samples::Plan;
use crate::{BenchError, Report};

pub(crate) use change::turns as turns_of_changes;

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let mut report = Report::new("overload");
    slow_link::measure(&mut report)?;
    flood::measure(plan, &mut report)?;
    errors::measure(&mut report)?;
    flows::measure(&mut report)?;
    established::measure(&mut report)?;
    change::measure(plan, &mut report)?;
    veth::measure(plan, &mut report)?;
    Ok(report)
}
