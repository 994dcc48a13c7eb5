//! What a batch writes down on its way through a graph.

use weever_packet::Mask;

use super::Program;

/// Which tasks were where. Empty between two batches: whoever reads it last clears what was written,
/// which is little, as most batches see a small part of a graph.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Who reached each node and enabled each port, by the entry's slot numbers.
    pub(crate) slots: Box<[Mask]>,
    /// The entry's steps that some task has reached and that have not run, a bit each.
    pub(crate) due: Box<[u64]>,
    /// Those that tasks have passed.
    pub(crate) passed: Box<[u64]>,
}

impl Board {
    pub(crate) fn new(program: &Program) -> Board {
        let steps = vec![0; program.max_steps().div_ceil(64)];
        Board {
            slots: vec![0; program.max_slots()].into(),
            due: steps.clone().into(),
            passed: steps.into(),
        }
    }
}
