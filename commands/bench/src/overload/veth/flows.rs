//! Flows with state that move between two workers, on a veth of two queues: the source redirects a flow by sending it
//! through the other queue, since what leaves by queue *q* of a veth arrives at queue *q* of its peer.
//!
//! A device may drop packets by itself: at the source's end those that its peer's ring has no room for (`tx_dropped`
//! of `left0`), or that it cannot send; at the workers' end those that a socket has no room for (`rx_dropped` of
//! `right0`). These are no loss of the moves: they have a row of their own, and are taken off.

use weever_link::Link;
use weever_testbed::Fixture;

use super::super::flood::pool;
use super::super::flows::{AT_REST, Cable, FLOWS, Job, MOVES, Outcome, WORKERS, run};
use super::station::open;
use crate::{BenchError, Report, Samples};

/// Adds `flow_moves_lost_veth`.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let at_rest = on_veth(Job::Rest(AT_REST))?;
    let outcome = on_veth(Job::Moves(MOVES))?;
    report.setup(format!(
        "flow_moves_lost_veth: the same {FLOWS} flows, {} moves; the source sends as fast as it can; what the \
         devices dropped (tx_dropped of left0, rx_dropped of right0) is not counted as lost",
        outcome.moved
    ));
    report.row("veth: dropped by the devices", "packets", &Samples(vec![outcome.dropped as f64]));
    outcome.show(&at_rest, "veth: ", "_veth", report);
    Ok(())
}

fn on_veth(job: Job) -> Result<Outcome, BenchError> {
    let net = Fixture::pair(WORKERS as u32)?;
    let pools = [pool()?, pool()?];
    let mut workers_end = net.right.run(|| open("right0", &pools[0]))?;
    let mut source_end = net.left.run(|| open("left0", &pools[1]))?;
    let dropped = || {
        let (left, right) = (net.veth.left.info()?.counters, net.veth.right.info()?.counters);
        Ok(left.tx_dropped + right.rx_dropped)
    };
    let (near, far) = (workers_end.take_queues(), source_end.take_queues());
    run(Cable { near, far, pools, dropped: &dropped }, job)
}

#[cfg(test)]
mod tests {
    use weever_testbed::require_net_admin;

    use super::*;

    #[test]
    fn flows_that_move_lose_nothing_on_a_veth() {
        require_net_admin!();
        let outcome = on_veth(Job::Moves(25)).unwrap();
        assert!(outcome.moved >= 25 && outcome.sent > 100, "{outcome:?}");
        assert_eq!(outcome.lost(), 0, "{outcome:?}");
    }
}
