//! Table 1 of "Intelligent NIC Queue Management in the Dragonet Network Stack".

use super::rig::Times;
use crate::{Report, Samples};

/// The times of a search there, in milliseconds.
struct Paper {
    flows: u32,
    basic: f64,
    /// With the incremental flow map: full, +1, +10, -1, -10.
    incremental: [f64; 5],
}

const TABLE_1: [Paper; 4] = [
    Paper { flows: 10, basic: 11.0, incremental: [17.0, 2.0, 22.0, 0.009, 0.0237] },
    Paper { flows: 100, basic: 1_200.0, incremental: [600.0, 9.0, 94.0, 0.074, 0.117] },
    Paper { flows: 250, basic: 13_000.0, incremental: [4_000.0, 21.0, 219.0, 0.190, 0.277] },
    Paper { flows: 500, basic: 76_000.0, incremental: [17_000.0, 43.0, 484.0, 0.382, 0.548] },
];

/// Rows of one line of the table, each with the paper's beside it.
pub(super) fn beside(report: &mut Report, flows: u32, times: &Times) {
    let Some(paper) = TABLE_1.iter().find(|p| p.flows == flows) else { return };
    let columns = ["full", "+1", "+10", "-1", "-10"];
    let ours = [&times.full, &times.add1, &times.add10, &times.del1, &times.del10];
    let one = |ms: f64| Samples(vec![ms]);
    report.row(&format!("82599 {flows} flows, basic (paper)"), "ms", &one(paper.basic));
    for ((column, ours), theirs) in columns.iter().zip(ours).zip(paper.incremental) {
        report.row(&format!("82599 {flows} flows, {column}"), "ms", ours);
        report.row(&format!("82599 {flows} flows, {column} (paper)"), "ms", &one(theirs));
    }
}
