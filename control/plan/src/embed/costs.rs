//! How long the way through each queue's graph is, for policies.

use super::Embedded;
use crate::policy::{GraphCosts, Subject};

/// Estimated cycles per packet by queue: so many for each node on the way. Queues of which nothing is
/// known cost what the whole graph does.
#[derive(Clone, Debug)]
pub struct PathCosts {
    per_node: u64,
    whole: u64,
    steps: Vec<(u32, u64)>,
}

impl PathCosts {
    /// What the graphs of an embedding cost if a node takes `per_node` cycles.
    pub fn of(embedded: &[Embedded], per_node: u64) -> PathCosts {
        let steps = |e: &Embedded| (e.arrival.queue, e.simplified.report.after.steps as u64);
        let whole = embedded.iter().map(|e| e.simplified.report.before.steps as u64).max();
        PathCosts {
            per_node,
            whole: whole.unwrap_or(0),
            steps: embedded.iter().map(steps).collect(),
        }
    }
}

impl GraphCosts for PathCosts {
    fn cycles(&self, _: &Subject, queue: u32) -> u64 {
        let known = self.steps.iter().find(|(q, _)| *q == queue);
        known.map_or(self.whole, |(_, steps)| *steps) * self.per_node
    }
}
