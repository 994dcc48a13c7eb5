//! `weever bench memcached`: an unmodified memcached whose high-priority clients a policy protects, as in §4.3 of
//! the Dragonet queue management paper.
//!
//! ```text
//!  core of the generator                          the contender's core
//!  2 high-priority clients ─┐                   ┌─ worker 1 ─┐
//!                           ├─ 16 flows each ──►│            ├─► memcached, two threads
//!  18 best-effort clients ──┘   a queue         └─ worker 2 ─┘   under `weever run`
//! ```
//!
//! Under *balance* each flow gets a worker by turns, under *isolate* the high-priority class has one to itself, and
//! with it every other place in memcached's backlog. A best-effort client joins and leaves, then a high-priority one
//! joins. Every flow has one request in flight; one in ten sets the value, the others get it. For comparison, the same
//! runs on the kernel's stack, which has no such policy.

mod figures;
mod population;
mod scene;

use std::path::Path;

use crate::rig::Rig;
use crate::samples::Plan;
use crate::{BenchError, Report, app};
use figures::Figures;
use scene::Under;

/// Measures; with `svg`, draws the clients' latency and throughput into that file, and the new high-priority client's
/// beginning into one beside it.
pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    if !scene::is_there() {
        return Err(BenchError::of("memcached")("it is not installed (Debian: memcached)"));
    }
    let rig = Rig::new("memcached")?;
    rig.kernel_host()?;
    let mut figures = Figures::default();
    for _ in plan.rounds() {
        for (size, len) in app::VALUES.into_iter().enumerate() {
            for under in Under::ALL {
                figures.add(size, under, &scene::play(&rig, under, len, plan.each)?);
            }
        }
    }
    if let Some(path) = svg {
        figures.draw(path)?;
    }
    Ok(figures.report(&rig))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::population::{NEW_BEST_EFFORT, NEW_HIGH};
    use super::*;

    /// On the kernel's stack alone: the test's executable has no command `run`.
    #[test]
    fn clients_come_and_go() {
        weever_testbed::require_net_admin!();
        if !scene::is_there() {
            return println!("skipped: needs memcached");
        }
        let rig = Rig::new("memcached").unwrap();
        rig.kernel_host().unwrap();
        let played = scene::play(&rig, Under::Kernel, 64, Duration::from_millis(200)).unwrap();
        let answers = |phase: &scene::Phase, client: usize| phase.clients[client].answers;
        assert_eq!(answers(&played.alone, NEW_BEST_EFFORT), 0);
        assert!(answers(&played.best_effort, NEW_BEST_EFFORT) > 0);
        assert_eq!(answers(&played.best_effort, NEW_HIGH), 0);
        assert!(answers(&played.high, NEW_HIGH) > 0);
        let mut figures = Figures::default();
        figures.add(0, Under::Kernel, &played);
        let report = figures.report(&rig);
        assert!(
            report.rows.iter().any(|row| row.name == "64 B, kernel: latency" && row.median > 0.0)
        );
    }
}
