//! Flows have owners: packets that arrive elsewhere are handed over, and flows move from one worker
//! to another between two packets (docs/design/0036).
//!
//! An order goes to the worker that owns its flows, and flows that have another owner by then are passed on to
//! that. A move goes like this. The old owner marks the flow as *arriving* at the new one, which holds
//! packets that arrive there from then on, and asks every worker to answer through the ring to
//! itself. They do when their device queues are past the moment at which packets were redirected;
//! so an answer comes behind all packets that took the old way. When all have answered, the old
//! owner runs its packets and sends the state. The new owner goes on with it, and then runs the
//! packets it has held.

use std::sync::Arc;

use weever_block::{FlowKey, FlowOwner, FlowOwners, Mask, Priority, bits};
use weever_packet::{BURST, Nanos, first_n};

use super::Engine;
use super::batch::owners;
use super::following::Request;
use super::moving::{Arrived, Listing, Reception};
use super::peers::{Message, Part};
use super::requests::{ToOwner, claim_of_owner, elsewhere};
use super::runtime::Runtime;
use super::task_queues::{Batch, Task};
use super::walk::Walk;
use crate::moves::{FlowMessage, FlowOrder, MoveInbox, MoveOrder, Others, Outcome};
use crate::schedule::{Entry, NodeRef, Step, Update};

impl Walk<'_> {
    /// Runs a node for those tasks whose flows this worker owns, and sends the others to their owners.
    #[inline(never)]
    pub(super) fn sharded(&mut self, step: &Step, input: Mask) -> bool {
        let mut here = input;
        self.state.running = step.node;
        let entry = self.program.nodes[step.node as usize].entry;
        for i in bits(input & self.batch.occupied) {
            let block = self.blocks[step.node as usize].as_ref();
            let Some((block, packet)) = block.zip(self.burst.get(i)) else { break };
            let Some(key) = block.flow_of(packet) else { continue };
            let Some(to) = elsewhere(self.program, self.runtime, step.node, key) else {
                if self.runtime.following.watches() {
                    entry.into_iter().for_each(|e| self.runtime.following.note_run((e, key)));
                }
                continue;
            };
            self.note_handed_over(step.node, key);
            here &= !(1 << i);
            self.claim_for(to, 1 << i, step.node);
        }
        let is_new = self.function(step, here);
        is_new || here != input
    }

    /// Notices a packet of a flow that rests at another worker.
    fn note_handed_over(&mut self, node: u32, key: FlowKey) {
        let owner = owners(self.program, node).and_then(|owners| owners.owner(key));
        let entry = self.program.nodes[node as usize].entry;
        if let (Some(entry), Some(FlowOwner { worker, from: None })) = (entry, owner) {
            self.runtime.following.note_handed_over((entry, key), worker);
        }
    }

    fn claim_for(&mut self, to: ToOwner, tasks: Mask, node: u32) {
        let tasks = tasks & !self.state.disposed;
        self.state.disposed |= tasks;
        match self.state.claims.iter_mut().find(|claim| (claim.to, claim.is_moving) == to) {
            Some(claim) => claim.tasks |= tasks,
            None => self.state.claims.push(claim_of_owner(self.program, node, to, tasks)),
        }
    }
}

impl Engine {
    /// The orders for this engine.
    pub(crate) fn move_inbox(&self) -> Arc<MoveInbox> {
        self.runtime.flows.inbox()
    }

    /// Goes on with moving flows, at the end of a turn.
    #[inline]
    pub(crate) fn move_flows(&mut self, reception: &Reception, now: Nanos) {
        if self.runtime.flows.is_busy() || self.runtime.following.has_requests() {
            self.move_on(reception, now);
        }
    }

    /// Whether another turn has work on moving flows even if no message arrives.
    pub(crate) fn is_moving_flows(&self) -> bool {
        self.runtime.flows.needs_turns()
    }

    #[cold]
    fn move_on(&mut self, reception: &Reception, now: Nanos) {
        // A burst in any case: another link, whose outbox is full, holds no move up.
        let mut room = self.outbox_room().max(BURST);
        for _ in 0..self.runtime.flows.arrived.len() {
            if room == 0 {
                break;
            }
            let Some(arrived) = self.runtime.flows.arrived.pop_front() else { break };
            room -= self.release(arrived, room, now);
        }
        self.send_requests();
        if self.runtime.flows.inbox.has_any() {
            for order in self.runtime.flows.inbox.take() {
                match order {
                    FlowOrder::Move(order) => self.runtime.flows.take_order(order, None),
                    FlowOrder::List(order) => {
                        self.runtime.flows.listings.push(Listing::new(order));
                    }
                }
            }
        }
        self.go_on_listing(now);
        self.go_on_leaving(reception, now);
        let Runtime { flows, peers: Some(peers), .. } = &mut self.runtime else { return };
        for owed in flows.owed.extract_if(.., |owed| owed.queues.is_past(&owed.order, reception)) {
            let order = owed.order;
            flows.answered.retain(|other| other.progress().open > 0 && !Arc::ptr_eq(other, &order));
            flows.answered.push(order);
            peers.send_late(owed.to, Message::Fenced { number: owed.number });
        }
    }

    /// Asks the owners of flows whose packets arrive here. Where the ring is full, the next packets of such a flow
    /// ask again.
    fn send_requests(&mut self) {
        for Request { entry, flow, owner } in self.runtime.following.take_requests() {
            let (at, by) = (self.place(entry), self.runtime.worker);
            if let Some(peers) = &mut self.runtime.peers
                && peers.has_room(owner, Part::Common)
            {
                peers.send_late(owner, Message::Ask { at, flow, by });
            }
        }
    }

    /// Another worker asks for a flow, since its packets arrive there.
    pub(super) fn asked_for(&mut self, at: NodeRef, flow: FlowKey, by: u16) {
        let Some(entry) = self.plan.program.at(at) else { return };
        if self.runtime.following.is_due((entry, flow), by)
            && let Some((_, owners)) = self.owners(entry)
        {
            let order = Arc::new(MoveOrder::new(at, owners, Others::Stay, vec![(flow, by)]));
            order.redirect();
            self.runtime.flows.take_order(order, None);
        }
    }

    pub(super) fn owners(&self, entry: Entry) -> Option<(u32, Arc<FlowOwners>)> {
        let node = self.plan.program.node_of(entry)?;
        Some((node, self.plan.program.nodes[node as usize].flows.as_ref()?.owners.clone()))
    }

    pub(super) fn send_flow(
        &mut self,
        entry: Entry,
        key: FlowKey,
        to: u16,
        order: Option<Arc<MoveOrder>>,
        now: Nanos,
    ) {
        let Some((node, owners)) = self.owners(entry) else { return };
        let state = self.ask_block(node, now, |block| block.export_flow(key)).flatten();
        let at = self.place(entry);
        let flow = FlowMessage { at, key, state, owners, order };
        if let Some(peers) = &mut self.runtime.peers {
            peers.send_late(to, Message::Flow(Box::new(flow)));
        }
    }

    fn place(&self, entry: Entry) -> NodeRef {
        let idp = self.plan.program.entries[entry.index()].idp;
        NodeRef { entry, idp, epoch: self.runtime.epoch }
    }

    /// Goes on with a flow of another worker.
    pub(super) fn take_flow(&mut self, flow: FlowMessage, now: Nanos) {
        let Some(entry) = self.plan.program.at(flow.at) else { return self.forget(flow) };
        let Some((node, _)) = self.owners(entry) else {
            return self.forward(entry, flow);
        };
        let FlowMessage { key, state, order, .. } = flow;
        let outcome = match state.filter(|_| self.blocks[node as usize].is_some()) {
            Some(state) => match self.ask_block(node, now, |block| block.import_flow(key, state)) {
                Some(Ok(())) => {
                    // The flow may have timers, and there is no other call to set them.
                    self.runtime.deadlines.set(node, Some(now), now);
                    Outcome::Moved
                }
                Some(Err(_)) | None => Outcome::Refused,
            },
            None => Outcome::Gone,
        };
        let room = self.outbox_room();
        self.release(Arrived { place: (entry, key), outcome, order }, room, now);
    }

    /// The node has been removed: so are the flow and the packets that wait for it here.
    fn forget(&mut self, flow: FlowMessage) {
        self.runtime.flows.settled += 1;
        for task in self.runtime.flows.take_held((flow.at.entry, flow.key), usize::MAX) {
            self.runtime.refuse(task, self.plan.program.dropped);
        }
        flow.owners.release(flow.key, self.runtime.worker);
        flow.record(Outcome::Gone);
    }

    /// Sends a flow on to the worker that has the node, with the packets that wait for it here.
    fn forward(&mut self, entry: Entry, mut flow: FlowMessage) {
        let me = self.runtime.worker;
        let Some(home) = self.plan.program.home(entry).filter(|home| *home != me) else {
            flow.owners.release(flow.key, me);
            return flow.record(Outcome::Gone);
        };
        let key = flow.key;
        flow.owners.redirect(key, me, home);
        self.runtime.flows.settled += 1;
        flow.at = self.place(entry);
        if let Some(peers) = &mut self.runtime.peers {
            peers.send_late(home, Message::Flow(Box::new(flow)));
        }
        let (program, full) = (&self.plan.program, self.plan.program.dropped);
        for task in self.runtime.flows.take_held((entry, key), usize::MAX) {
            self.runtime.pass_on(program, entry, Priority::High, task, full);
        }
    }

    /// Runs up to `room` packets that waited for a flow; returns how many. Until all have run, the flow
    /// counts as arriving, so that later ones stay behind them.
    fn release(&mut self, mut arrived: Arrived, room: usize, now: Nanos) -> usize {
        let place = arrived.place;
        let entry = place.0;
        let Some((_, owners)) = self.owners(entry) else { return 0 };
        let tasks = self.runtime.flows.take_held(place, room);
        let ran = tasks.len();
        self.run_held(&mut arrived, tasks, now);
        if self.runtime.flows.holds(place) {
            self.runtime.flows.arrived.push_back(arrived);
        } else {
            self.settle(&arrived, &owners);
        }
        ran
    }

    /// Runs packets that waited for a flow. If the block panics, the flow's state is lost.
    fn run_held(&mut self, arrived: &mut Arrived, tasks: Vec<Task>, now: Nanos) {
        self.runtime.flows.releasing = Some(arrived.place);
        self.run_tasks(arrived.place.0, tasks, now);
        if self.runtime.flows.releasing.take().is_none() {
            arrived.outcome = Outcome::Refused;
        }
    }

    /// Ends the move of a flow whose packets have all run.
    fn settle(&mut self, arrived: &Arrived, owners: &FlowOwners) {
        let (key, me) = (arrived.place.1, self.runtime.worker);
        self.runtime.flows.settled += 1;
        match arrived.outcome {
            Outcome::Moved => owners.end_move(key, me),
            Outcome::Gone | Outcome::Refused => owners.release(key, me),
            Outcome::Stays => true,
        };
        if let Some(order) = &arrived.order {
            order.record(arrived.outcome);
        }
    }

    /// Before nodes leave this worker: their flows go to the worker that has the node from now on, and
    /// end if there is none.
    pub(super) fn give_up_flows(&mut self, update: &Update, now: Nanos) {
        for removed in &update.removed {
            let entry = removed.entry;
            let Some((_, owners)) = self.owners(entry) else { continue };
            self.release_all(entry, &owners, now);
            self.finish_orders(entry, now);
            let me = self.runtime.worker;
            let home = update.plan.program.home(entry).filter(|home| *home != me);
            for key in owners.of_worker(me) {
                match home {
                    Some(home) if owners.give_up(key, me, home) => {
                        self.send_flow(entry, key, home, None, now);
                    }
                    _ => drop(owners.release(key, me)),
                }
            }
        }
    }

    /// Runs the held packets of flows that have arrived, whether there is room behind it or not.
    fn release_all(&mut self, entry: Entry, owners: &FlowOwners, now: Nanos) {
        let arrived = std::mem::take(&mut self.runtime.flows.arrived);
        let (here, others): (Vec<Arrived>, _) =
            arrived.into_iter().partition(|arrived| arrived.place.0 == entry);
        self.runtime.flows.arrived = others.into();
        for mut arrived in here {
            let tasks = self.runtime.flows.take_held(arrived.place, usize::MAX);
            self.run_held(&mut arrived, tasks, now);
            self.settle(&arrived, owners);
        }
    }

    /// Runs tasks at once, before any other.
    pub(super) fn run_tasks(&mut self, entry: Entry, tasks: Vec<Task>, now: Nanos) {
        let mut burst = self.burst.take().unwrap_or_default();
        let mut tasks = tasks.into_iter().peekable();
        while tasks.peek().is_some() {
            let (mut n, mut occupied) = (0, 0);
            for (slot, task) in tasks.by_ref().take(BURST).enumerate() {
                n = slot + 1;
                if let Some(buffer) = task {
                    burst.put(slot, buffer);
                    occupied |= 1 << slot;
                }
            }
            self.walk(&mut burst, Batch { entry, tasks: first_n(n), occupied }, now);
        }
        self.burst = Some(burst);
    }
}
