//! Where a packet of a flow that has an owner goes.

use weever_block::{FlowKey, FlowOwner, Mask, Priority};

use super::batch::{Claimed, Destination};
use super::runtime::Runtime;
use crate::schedule::Program;

/// Where a packet goes whose flow this worker does not own; `None`: it runs here.
pub(super) fn elsewhere(
    program: &Program,
    runtime: &Runtime,
    node: u32,
    key: FlowKey,
) -> Option<Destination> {
    let plan = &program.nodes[node as usize];
    let (entry, flows) = (plan.entry?, plan.flows.as_ref()?);
    let FlowOwner { worker, from } = flows.owners.owner(key)?;
    let (me, place, moving) = (runtime.worker, (entry, key), &runtime.flows);
    match from {
        None => (worker != me).then_some(Destination::Owner { entry, worker }),
        Some(_) if worker == me => {
            (moving.releasing != Some(place)).then_some(Destination::Hold { node, key })
        }
        Some(from) if from == me && moving.leaving.contains(&place) => None,
        // Packets that arrived here before this worker's answer go the old way, which is the
        // shorter one.
        Some(from) if from != me && !moving.has_answered(place, worker) => {
            Some(Destination::Owner { entry, worker: from })
        }
        Some(_) => Some(Destination::Owner { entry, worker }),
    }
}

/// Where a task goes that its block sends to the owner of a flow.
pub(super) fn owner_of(
    program: &Program,
    runtime: &Runtime,
    node: u32,
    key: FlowKey,
) -> Destination {
    let here = program.nodes[node as usize].entry.map(|entry| {
        let priority = Priority::High;
        Destination::Spawn { entry, priority }
    });
    let here = here.unwrap_or(Destination::Hold { node, key });
    elsewhere(program, runtime, node, key).unwrap_or(here)
}

/// The claim of tasks that go to the owner of their flow.
pub(super) fn claim(program: &Program, node: u32, to: Destination, tasks: Mask) -> Claimed {
    let plan = &program.nodes[node as usize];
    let (taken, full) = match (&to, &plan.flows) {
        (Destination::Owner { .. }, Some(flows)) => (Some(flows.handed_over), flows.ring_full),
        _ => (None, plan.block_full),
    };
    Claimed { to, tasks, taken, full }
}
