//! The old owner's part of a move: flows begin to leave, every worker is asked for an answer, and when all have
//! answered, the states are sent.
//!
//! An order may name a hundred thousand flows, and packets come meanwhile. So a turn handles
//! [`FLOWS_PER_TURN`] of them, both where flows begin to leave and where states are sent, and the next turn goes
//! on; and before states are sent, it runs [`TASKS_PER_TURN`] of the packets that came before. Workers are asked
//! once all flows of the round have begun to leave.
//!
//! Ownership may have changed since the order was given. Flows that another worker has by now, because this one is
//! losing the node, say, are passed on to that. Those whose state is on its way here leave when it has come, and
//! while the graphs of workers change, no flow begins to leave. Both are looked at again in the same round, since
//! whoever has given the order may wait for all flows before packets are redirected. Once they are redirected, flows that
//! have begun wait for no others: these are left for the next round.

use std::collections::BTreeMap;

use weever_block::{FlowOwner, MayMove};
use weever_packet::Nanos;

use super::Engine;
use super::moving::{Leaving, Reception};
use super::peers::{Message, Part};
use crate::moves::{FlowMove, MoveOrder, Others, Outcome};
use crate::schedule::Entry;

/// Flows that begin to leave, or whose states are sent, in one turn: the number of messages that the
/// other worker takes in one turn.
pub(crate) const FLOWS_PER_TURN: usize = 256;

/// Packets that run in one turn, ahead of others, so that states can be sent: as many as of others.
const TASKS_PER_TURN: usize = 256;

/// States that are sent to a worker in one turn even if packets fill the ring, beside which they wait: a flood does
/// not delay moves.
const IN_A_FLOOD: usize = 16;

/// What a turn may still do.
struct Budget {
    flows: usize,
    tasks: usize,
    /// Looks at flows of an order that could not begin to leave before.
    looks_each: usize,
    /// Looks at flows of other orders, as far as these cannot begin to leave.
    first_looks: usize,
}

/// What becomes of a flow that is to leave.
enum Begin {
    /// It goes on here until its state is sent.
    Leaves,
    /// It cannot leave yet.
    Later,
    /// Another worker has it.
    At(u16),
    /// It does not leave.
    Ends(Outcome),
}

impl Engine {
    /// Continues every order, the oldest first, up to the limit of a turn.
    pub(super) fn go_on_leaving(&mut self, reception: &Reception, now: Nanos) {
        let mut orders = std::mem::take(&mut self.runtime.flows.orders);
        let waiting = orders.iter().filter(|leaving| leaving.waits).count();
        let looks_each = FLOWS_PER_TURN.div_ceil(waiting.max(1));
        let (flows, tasks, first_looks) = (FLOWS_PER_TURN, TASKS_PER_TURN, FLOWS_PER_TURN);
        let mut budget = Budget { flows, tasks, looks_each, first_looks };
        orders.retain_mut(|leaving| !self.carry_on(leaving, reception, &mut budget, now));
        self.runtime.flows.orders.append(&mut orders);
    }

    /// Continues an order; returns whether it is carried out.
    fn carry_on(
        &mut self,
        leaving: &mut Leaving,
        reception: &Reception,
        budget: &mut Budget,
        now: Nanos,
    ) -> bool {
        if !leaving.has_begun() {
            self.begin_some(leaving, budget, now);
        }
        if !leaving.has_begun() {
            return false;
        }
        if leaving.queues.is_past(&leaving.order, reception) && leaving.unanswered == 0 {
            self.send_some(leaving, budget, now);
        }
        leaving.flows.is_empty() && !leaving.next_round()
    }

    /// Has flows of an order begin to leave, and asks the other workers after the last.
    fn begin_some(&mut self, leaving: &mut Leaving, budget: &mut Budget, now: Nanos) {
        let order = leaving.order.clone();
        let mut elsewhere: BTreeMap<u16, Vec<FlowMove>> = BTreeMap::new();
        let (mut begun, mut later) = (0, 0);
        let most = if leaving.waits { budget.looks_each } else { budget.first_looks };
        let next = leaving.take_next(most.min(budget.flows), self.runtime.flows.settled);
        let handled = next.len();
        for flow in next {
            let (key, to) = flow;
            match self.begin_flow(&order, flow, now) {
                Begin::Leaves => {
                    order.set_under_way();
                    leaving.flows.entry(to).or_default().push(key);
                    begun += 1;
                }
                Begin::Later => {
                    leaving.later.push(flow);
                    later += 1;
                }
                Begin::At(owner) => elsewhere.entry(owner).or_default().push(flow),
                Begin::Ends(outcome) => {
                    order.record(outcome);
                    begun += 1;
                }
            }
        }
        // Flows that wait for others do not delay these.
        budget.flows -= handled - later;
        budget.first_looks -= if leaving.waits { 0 } else { later };
        order.begin(begun);
        if let Some(peers) = &mut self.runtime.peers {
            for (owner, part) in elsewhere {
                peers.send_late(owner, Message::Move { order: order.clone(), part: part.into() });
            }
        }
        if !leaving.has_begun() {
            return;
        }
        let may_look_again = !order.is_redirected() || leaving.flows.is_empty();
        if may_look_again && !leaving.later.is_empty() {
            leaving.look_again();
        } else if !leaving.flows.is_empty() {
            self.ask_for_answers(leaving);
        }
    }

    fn begin_flow(&mut self, order: &MoveOrder, (key, to): FlowMove, now: Nanos) -> Begin {
        let me = self.runtime.worker;
        // A node that has been removed has no flows.
        let Some(entry) = self.plan.program.at(order.at) else {
            return Begin::Ends(Outcome::Gone);
        };
        match order.owners.owner(key) {
            Some(FlowOwner { worker, .. }) if worker == to => return Begin::Ends(Outcome::Gone),
            Some(FlowOwner { worker, .. }) if worker != me => {
                return match order.others {
                    Others::Follow => Begin::At(worker),
                    Others::Stay => Begin::Ends(Outcome::Gone),
                };
            }
            Some(FlowOwner { from: Some(_), .. }) => return Begin::Later,
            Some(FlowOwner { from: None, .. }) => {}
            None => return Begin::Ends(Outcome::Gone),
        }
        let may_move = order.owners.may_move_to(to);
        match may_move {
            MayMove::Now => {}
            MayMove::IfBegun if order.is_under_way() => {}
            MayMove::IfBegun | MayMove::Later => return Begin::Later,
            MayMove::Never => return Begin::Ends(Outcome::Stays),
        }
        let Some(node) = self.plan.program.node_of(entry) else {
            return Begin::Ends(Outcome::Gone);
        };
        if self.ask_block(node, now, |block| block.may_leave(key)) == Some(false) {
            return Begin::Ends(Outcome::Stays);
        }
        let begins = match may_move {
            MayMove::Now => order.owners.begin_move(key, me, to),
            _ => order.owners.give_up(key, me, to),
        };
        if !begins {
            // It has ended meanwhile, or moves have been stopped.
            return match order.owners.owner(key) {
                Some(_) => Begin::Later,
                None => Begin::Ends(Outcome::Gone),
            };
        }
        self.runtime.flows.leaving.insert((entry, key));
        Begin::Leaves
    }

    /// Asks every other worker for an answer.
    fn ask_for_answers(&mut self, leaving: &mut Leaving) {
        let (from, number) = (self.runtime.worker, self.runtime.flows.next_question());
        leaving.asked = Some(number);
        let Some(peers) = &mut self.runtime.peers else { return };
        for to in (0..peers.len() as u16).filter(|worker| *worker != from) {
            peers.send_late(to, Message::Fence { from, number, order: leaving.order.clone() });
            leaving.unanswered += 1;
        }
    }

    pub(super) fn answered(&mut self, number: u32) {
        let mut orders = self.runtime.flows.orders.iter_mut();
        if let Some(leaving) = orders.find(|leaving| leaving.asked == Some(number)) {
            leaving.unanswered -= 1;
        }
    }

    /// Runs the packets that came before, and sends the states of flows of an order, as far as the rings have room
    /// beside packets.
    fn send_some(&mut self, leaving: &mut Leaving, budget: &mut Budget, now: Nanos) {
        let Some(entry) = self.plan.program.at(leaving.order.at) else { return };
        if !self.run_before(entry, leaving, budget, now) {
            return;
        }
        for (to, keys) in &mut leaving.flows {
            let mut sent = 0;
            while budget.flows > 0
                && self.has_room_for_state(*to, sent)
                && let Some(key) = keys.pop()
            {
                self.runtime.flows.leaving.remove(&(entry, key));
                self.send_flow(entry, key, *to, Some(leaving.order.clone()), now);
                (sent, budget.flows) = (sent + 1, budget.flows - 1);
            }
        }
        leaving.flows.retain(|_, keys| !keys.is_empty());
    }

    /// Runs packets that wait at the node since the redirection; whether there are no more of these.
    fn run_before(
        &mut self,
        entry: Entry,
        leaving: &mut Leaving,
        budget: &mut Budget,
        now: Nanos,
    ) -> bool {
        let queues = &mut self.runtime.tasks;
        let before = leaving.before.get_or_insert_with(|| queues.queued(entry));
        let mut tasks = Vec::new();
        budget.tasks -= queues.take_some(entry, before, budget.tasks, |_, task| tasks.push(task));
        let all_run = before.is_empty();
        self.run_tasks(entry, tasks, now);
        all_run
    }

    fn has_room_for_state(&mut self, to: u16, sent: usize) -> bool {
        let Some(peers) = &mut self.runtime.peers else { return false };
        sent < IN_A_FLOOD && peers.may_wait(to, IN_A_FLOOD) || peers.has_room(to, Part::Common)
    }

    /// Before an entry is removed: sends the states of flows that have begun to leave. Others are passed on in
    /// the next round, to the worker that goes on with this one's flows.
    pub(super) fn finish_orders(&mut self, entry: Entry, now: Nanos) {
        let mut orders = std::mem::take(&mut self.runtime.flows.orders);
        orders.retain_mut(|leaving| {
            if self.plan.program.at(leaving.order.at) != Some(entry) {
                return true;
            }
            for (to, keys) in std::mem::take(&mut leaving.flows) {
                for key in keys {
                    self.runtime.flows.leaving.remove(&(entry, key));
                    self.send_flow(entry, key, to, Some(leaving.order.clone()), now);
                }
            }
            leaving.next_round()
        });
        self.runtime.flows.orders.append(&mut orders);
    }
}
