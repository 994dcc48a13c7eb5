//! Blocks that run periodically: a task that spawns itself anew.

use weever_block::{Block, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, Ports, Priority};

/// Work that is done periodically.
pub(crate) trait PeriodicTask: Send {
    /// Does the work that is due.
    fn run_due(&mut self, cx: &mut Cx<'_>);
}

/// The parameter of such a block: milliseconds between two looks, `default` unless the graph says
/// otherwise.
pub(crate) const fn period(default: &'static str, doc: &'static str) -> ParamDoc {
    ParamDoc { name: "period", default, doc }
}

/// A block that looks once per `period`. Spawn edge `again` leads back to it; its task leaves by
/// port 0.
pub(crate) fn periodic(
    build: &Build<'_>,
    again: usize,
    task: impl PeriodicTask + 'static,
) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    Ok(Box::new(Periodic { period: period * weever_net::MILLIS, again, task }))
}

struct Periodic<T> {
    period: Nanos,
    again: usize,
    task: T,
}

impl<T: PeriodicTask> Block for Periodic<T> {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        self.task.run_due(cx);
        cx.spawn_new(self.again, None, self.period, Priority::Low);
        ports.enable(0, input);
    }
}
