//! A trace of the interpreter, for tests: per batch, which ports each task enabled.

use weever_packet::{BURST, Burst, Mask, bits};

use super::batch::{Claimed, Destination};
use super::task_queues::Batch;
use crate::schedule::{CompiledGraph, NO_NODE};

/// One node of one batch: its input, and the mask of each port by the block's numbers.
#[derive(Clone, Debug)]
pub(crate) struct NodeTrace {
    pub(crate) node: u32,
    pub(crate) input: Mask,
    pub(crate) outputs: Vec<Mask>,
}

#[derive(Clone, Debug)]
pub(crate) struct BatchTrace {
    pub(crate) start: u32,
    pub(crate) tasks: Mask,
    pub(crate) packets: Vec<Option<Vec<u8>>>,
    pub(crate) nodes: Vec<NodeTrace>,
    pub(crate) claims: Vec<(Destination, Mask)>,
    /// The node of each entry.
    pub(crate) entries: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) batches: Vec<BatchTrace>,
}

impl Trace {
    pub(crate) fn begin(&mut self, batch: &Batch, burst: &Burst, plan: &CompiledGraph) {
        assert_eq!(burst.occupied() & batch.tasks, batch.occupied);
        let packets = (0..BURST).map(|i| burst.get(i).map(|b| b.data().to_vec())).collect();
        let node = |place| plan.id_at(place).map_or(NO_NODE, |id| id.0);
        let entries: Vec<u32> = plan.program.entries.iter().map(|e| node(e.node)).collect();
        self.batches.push(BatchTrace {
            start: entries[batch.entry.index()],
            tasks: batch.tasks,
            packets,
            nodes: Vec::new(),
            claims: Vec::new(),
            entries,
        });
    }

    pub(crate) fn step(&mut self, node: u32, input: Mask, outputs: &[Mask]) {
        let batch = self.batches.last_mut().expect("a step belongs to a batch");
        if input != 0 {
            batch.nodes.push(NodeTrace { node, input, outputs: outputs.to_vec() });
        }
    }

    pub(crate) fn end(&mut self, claims: &[Claimed], settled: &[Claimed], plan: &CompiledGraph) {
        let id = |place| plan.id_at(place).map_or(NO_NODE, |id| id.0);
        let named = |to| match to {
            Destination::Collect { node } => Destination::Collect { node: id(node) },
            Destination::Block { node, key } => Destination::Block { node: id(node), key },
            other => other,
        };
        let batch = self.batches.last_mut().expect("an end belongs to a batch");
        let claims = claims.iter().chain(settled);
        batch.claims = claims.map(|c| (named(c.to), c.tasks)).collect();
    }
}

impl BatchTrace {
    /// The nodes that ran for task `i`, each with the port that it enabled.
    pub(crate) fn of_task(&self, i: usize) -> Vec<(u32, Option<usize>)> {
        let has = |mask: &Mask| mask >> i & 1 == 1;
        let nodes = self.nodes.iter().filter(|n| has(&n.input));
        nodes.map(|n| (n.node, n.outputs.iter().position(has))).collect()
    }

    /// The tasks in order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = usize> {
        bits(self.tasks)
    }
}
