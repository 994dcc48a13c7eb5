//! What a block has asked for in a call: counts, a place for its tasks, new tasks, wake-ups.

use weever_block::{Claim, FlowKey, FlowOwner, Priority, SpawnRequest, When};
use weever_packet::Mask;

use super::batch::{BatchState, Claimed, Destination, count_conflict};
use super::course::Fresh;
use super::runtime::Runtime;
use super::walk::Walk;
use crate::schedule::{NodePlan, Program, Step};

impl Walk<'_> {
    /// Carries out a block's requests. Returns the tasks that it claimed.
    #[inline]
    pub(super) fn drain(&mut self, step: &Step, input: Mask) -> Mask {
        self.count_requested(step);
        let BatchState { requests, claims, disposed, .. } = &mut *self.state;
        let claimed = match requests.claims[..] {
            [] => 0,
            // Mostly a block takes all of its tasks to one place, and no other has taken them.
            [(claim, tasks)] if tasks == input && tasks & *disposed == 0 => {
                *disposed |= tasks;
                claims.push(record(self.program, self.runtime, step.node, claim, tasks));
                requests.claims.clear();
                tasks
            }
            _ => self.drain_claims(step, input),
        };
        // Packets are mostly taken away and counted, and nothing else.
        if self.state.requests.has_rare() {
            self.drain_rare(step);
        }
        claimed
    }

    /// Adds to the block's own counters what it has asked for.
    #[inline(always)]
    pub(super) fn count_requested(&mut self, step: &Step) {
        let requests = &mut self.state.requests;
        match requests.counts[..] {
            [] => {}
            [(counter, n)] => {
                let own = self.program.nodes[step.node as usize].own;
                self.runtime.counters.add(own.plus(counter as usize), n);
                requests.counts.clear();
            }
            _ => self.drain_counts(step),
        }
    }

    #[inline(never)]
    fn drain_counts(&mut self, step: &Step) {
        let own = self.program.nodes[step.node as usize].own;
        let (requests, counters) = (&mut self.state.requests, &*self.runtime.counters);
        for (counter, n) in &requests.counts {
            counters.add(own.plus(*counter as usize), *n);
        }
        requests.counts.clear();
    }

    #[inline(never)]
    fn drain_claims(&mut self, step: &Step, input: Mask) -> Mask {
        let BatchState { requests, claims, disposed, .. } = &mut *self.state;
        let mut claimed = 0;
        for (claim, tasks) in &requests.claims {
            claimed |= tasks;
            let tasks = tasks & input;
            if tasks & *disposed != 0 {
                count_conflict(&self.runtime.counters, tasks & *disposed);
            }
            let tasks = tasks & !*disposed;
            *disposed |= tasks;
            if tasks != 0 {
                claims.push(record(self.program, self.runtime, step.node, *claim, tasks));
            }
        }
        requests.claims.clear();
        claimed
    }

    /// Carries out requests that few packets cause: new tasks, wake-ups, deadlines.
    #[inline(never)]
    fn drain_rare(&mut self, step: &Step) {
        let plan = &self.program.nodes[step.node as usize];
        if !self.state.requests.spawns.is_empty() {
            self.spawn_requested(plan);
        }
        let BatchState { requests, notifies, .. } = &mut *self.state;
        for (edge, key) in &requests.notifies {
            notifies.push((plan.notifies[*edge as usize], *key));
        }
        requests.notifies.clear();
        if let Some(at) = requests.deadline.take() {
            self.runtime.deadlines.set(step.node, at, self.now);
        }
    }
}

impl Walk<'_> {
    /// Starts new tasks. One alone that would be the next to run is not queued yet: it may go on in the burst.
    fn spawn_requested(&mut self, plan: &NodePlan) {
        let BatchState { requests, fresh, .. } = &mut *self.state;
        if let [SpawnRequest { edge, buffer, when: When::After(0), priority: Priority::High }] =
            &mut requests.spawns[..]
            && fresh.is_none()
            && self.runtime.tasks.is_empty()
            && let edge = &plan.spawns[*edge as usize]
            && self.runtime.is_home(self.program.home(edge.entry))
        {
            self.runtime.counters.add(edge.spawned, 1);
            *fresh = Some(Fresh { entry: edge.entry, task: buffer.take(), full: edge.full });
            requests.spawns.clear();
            return;
        }
        if let Some(first) = fresh.take() {
            first.queue(self.program, self.runtime);
        }
        for request in requests.spawns.drain(..) {
            let edge = &plan.spawns[request.edge as usize];
            self.runtime.spawn(self.program, edge, request, self.now);
        }
    }
}

/// The disposition that a block asked for.
#[inline(always)]
pub(super) fn record(
    program: &Program,
    runtime: &Runtime,
    node: u32,
    claim: Claim,
    tasks: Mask,
) -> Claimed {
    let plan = &program.nodes[node as usize];
    match claim {
        Claim::Spawn { edge, priority } => {
            let edge = &plan.spawns[edge as usize];
            if !runtime.is_home(program.home(edge.entry)) {
                let to = Destination::Elsewhere { entry: edge.entry, priority };
                let (taken, full) = (Some(edge.spawned), edge.ring_full);
                return Claimed { to, tasks, taken, full, is_moving: false };
            }
            let to = Destination::Spawn { entry: edge.entry, priority };
            Claimed { to, tasks, taken: Some(edge.spawned), full: edge.full, is_moving: false }
        }
        Claim::SpawnLater { edge, delay } => {
            let edge = &plan.spawns[edge as usize];
            let to = Destination::Later { entry: edge.entry, delay };
            Claimed { to, tasks, taken: Some(edge.spawned), full: edge.full, is_moving: false }
        }
        Claim::Transmit { link } => {
            let to = Destination::Transmit { link };
            Claimed { to, tasks, taken: None, full: plan.outbox_full, is_moving: false }
        }
        Claim::Collect => {
            let to = Destination::Collect { node };
            Claimed { to, tasks, taken: None, full: plan.outbox_full, is_moving: false }
        }
        Claim::Owner { flow } => {
            claim_of_owner(program, node, owner_of(program, runtime, node, flow), tasks)
        }
        Claim::Block { key } => {
            let to = Destination::Block { node, key };
            Claimed { to, tasks, taken: None, full: plan.block_full, is_moving: false }
        }
    }
}

/// Where a packet of a flow goes, and whether the flow is on its way to another worker.
pub(super) type ToOwner = (Destination, bool);

/// Where a packet goes whose flow this worker does not own; `None`: it runs here.
pub(super) fn elsewhere(
    program: &Program,
    runtime: &Runtime,
    node: u32,
    key: FlowKey,
) -> Option<ToOwner> {
    let plan = &program.nodes[node as usize];
    let (entry, flows) = (plan.entry?, plan.flows.as_ref()?);
    let FlowOwner { worker, from } = flows.owners.owner(key)?;
    let (me, place, moving) = (runtime.worker, (entry, key), &runtime.flows);
    let to = match from {
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
    };
    to.map(|to| (to, from.is_some()))
}

/// Where a task goes that its block sends to the owner of a flow.
fn owner_of(program: &Program, runtime: &Runtime, node: u32, key: FlowKey) -> ToOwner {
    let here = program.nodes[node as usize].entry.map(|entry| {
        let priority = Priority::High;
        Destination::Spawn { entry, priority }
    });
    let here = here.unwrap_or(Destination::Hold { node, key });
    elsewhere(program, runtime, node, key).unwrap_or((here, false))
}

/// The claim of tasks that go to the owner of their flow.
pub(super) fn claim_of_owner(
    program: &Program,
    node: u32,
    (to, is_moving): ToOwner,
    tasks: Mask,
) -> Claimed {
    let plan = &program.nodes[node as usize];
    let (taken, full) = match (&to, &plan.flows) {
        (Destination::Owner { .. }, Some(flows)) => (Some(flows.handed_over), flows.ring_full),
        _ => (None, plan.block_full),
    };
    Claimed { to, tasks, taken, full, is_moving }
}
