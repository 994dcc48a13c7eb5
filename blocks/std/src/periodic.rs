//! Blocks that look at something again and again: a task that starts itself anew.

use weever_block::{Block, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, Ports, Priority};

/// Something to be looked at from time to time.
pub(crate) trait Look: Send {
    /// Does what is due.
    fn look(&mut self, cx: &mut Cx<'_>);
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
    look: impl Look + 'static,
) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    Ok(Box::new(Periodic { period: period * weever_net::MILLIS, again, look }))
}

struct Periodic<L> {
    period: Nanos,
    again: usize,
    look: L,
}

impl<L: Look> Block for Periodic<L> {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        self.look.look(cx);
        cx.spawn_new(self.again, None, self.period, Priority::Low);
        ports.enable(0, input);
    }
}
