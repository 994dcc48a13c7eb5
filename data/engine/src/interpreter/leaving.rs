//! The old owner's part of a move: flows begin to leave, every worker is asked for an answer, and when all have
//! answered, the states are sent.
//!
//! An order may name a hundred thousand flows, and packets come meanwhile. So a turn handles
//! [`FLOWS_PER_TURN`] of them, both where flows begin to leave and where states are sent, and the next turn goes
//! on. Workers are asked once all flows of the order have begun to leave.

use std::sync::Arc;

use weever_block::{FlowKey, FlowOwners};
use weever_packet::Nanos;

use super::Engine;
use super::moving::{Leaving, Reception};
use super::peers::{Message, Part};
use crate::moves::{MoveOrder, Outcome};
use crate::schedule::Entry;

/// Flows that begin to leave, or whose states are sent, in one turn: the number of messages that the
/// other worker takes in one turn.
pub(crate) const FLOWS_PER_TURN: usize = 256;

/// States that are sent to a worker in one turn even if other packets fill their part of the ring, so
/// that a flood does not delay moves.
const IN_A_FLOOD: usize = 16;

impl Engine {
    /// Continues every order, the oldest first, up to the limit of a turn.
    pub(super) fn go_on_leaving(&mut self, reception: &Reception, now: Nanos) {
        let mut left = FLOWS_PER_TURN;
        let mut orders = std::mem::take(&mut self.runtime.flows.orders);
        orders.retain_mut(|leaving| !self.carry_on(leaving, reception, &mut left, now));
        self.runtime.flows.orders.append(&mut orders);
    }

    /// Continues an order with up to `left` flows; returns whether it is carried out.
    fn carry_on(
        &mut self,
        leaving: &mut Leaving,
        reception: &Reception,
        left: &mut usize,
        now: Nanos,
    ) -> bool {
        if !leaving.has_begun() {
            self.begin_some(leaving, left, now);
        }
        if !leaving.has_begun() || leaving.flows.is_empty() {
            return leaving.has_begun();
        }
        if leaving.queues.is_past(&leaving.order, reception) && leaving.unanswered == 0 {
            self.send_some(leaving, left, now);
        }
        leaving.flows.is_empty()
    }

    /// Has up to `left` flows of an order begin to leave, and asks the other workers after the last.
    fn begin_some(&mut self, leaving: &mut Leaving, left: &mut usize, now: Nanos) {
        let order = leaving.order.clone();
        let entry = self.plan.program.at(order.at);
        let place = entry.and_then(|entry| Some((entry, self.owners(entry)?)));
        let flows = &order.moves[leaving.begun..];
        for (key, to) in flows.iter().take(*left) {
            let begins = place.as_ref().map_or(Err(Outcome::Gone), |(entry, (node, owners))| {
                self.begin_flow((*entry, *node), owners, (*key, *to), now)
            });
            match begins {
                Ok(()) => leaving.flows.entry(*to).or_default().push(*key),
                Err(outcome) => order.record(outcome),
            }
        }
        let handled = flows.len().min(*left);
        (leaving.begun, *left) = (leaving.begun + handled, *left - handled);
        if leaving.has_begun() {
            order.begin();
            if !leaving.flows.is_empty() {
                leaving.unanswered = self.ask_for_answers(&order);
            }
        }
    }

    fn begin_flow(
        &mut self,
        (entry, node): (Entry, u32),
        owners: &FlowOwners,
        (key, to): (FlowKey, u16),
        now: Nanos,
    ) -> Result<(), Outcome> {
        let me = self.runtime.worker;
        if self.ask_block(node, now, |block| block.may_leave(key)) == Some(false) {
            return Err(Outcome::Stays);
        }
        if to == me || !owners.begin_move(key, me, to) {
            return Err(Outcome::Gone);
        }
        self.runtime.flows.leaving.insert((entry, key));
        Ok(())
    }

    /// Asks every other worker for an answer; returns their number.
    fn ask_for_answers(&mut self, order: &Arc<MoveOrder>) -> usize {
        let me = self.runtime.worker;
        let Some(peers) = &mut self.runtime.peers else { return 0 };
        let others = (0..peers.len() as u16).filter(|worker| *worker != me);
        others
            .map(|to| peers.send_late(to, Message::Fence { from: me, order: order.clone() }))
            .count()
    }

    pub(super) fn answered(&mut self, order: &Arc<MoveOrder>) {
        let orders = &mut self.runtime.flows.orders;
        if let Some(leaving) = orders.iter_mut().find(|l| Arc::ptr_eq(&l.order, order)) {
            leaving.unanswered -= 1;
        }
    }

    /// Runs the packets that came before, and sends the states of up to `left` flows of an order, as far as the
    /// rings have room beside packets.
    fn send_some(&mut self, leaving: &mut Leaving, left: &mut usize, now: Nanos) {
        let Some(entry) = self.plan.program.at(leaving.order.at) else { return };
        let mut tasks = Vec::new();
        self.runtime.tasks.take_all(entry, |_, task| tasks.push(task));
        self.run_tasks(entry, tasks, now);
        for (to, keys) in &mut leaving.flows {
            let mut sent = 0;
            while *left > 0
                && self.has_room_for_state(*to, sent)
                && let Some(key) = keys.pop()
            {
                self.runtime.flows.leaving.remove(&(entry, key));
                self.send_flow(entry, key, *to, Some(leaving.order.clone()), now);
                (sent, *left) = (sent + 1, *left - 1);
            }
        }
        leaving.flows.retain(|_, keys| !keys.is_empty());
    }

    fn has_room_for_state(&mut self, to: u16, sent: usize) -> bool {
        let part = if sent < IN_A_FLOOD { Part::Whole } else { Part::Common };
        self.runtime.peers.as_mut().is_some_and(|peers| peers.has_room(to, part))
    }

    /// Carries out the orders for an entry that is removed. Flows that have not begun to leave are given up
    /// with the others of this worker.
    pub(super) fn finish_orders(&mut self, entry: Entry, now: Nanos) {
        let orders = std::mem::take(&mut self.runtime.flows.orders);
        let (here, others): (Vec<Leaving>, _) = orders
            .into_iter()
            .partition(|leaving| self.plan.program.at(leaving.order.at) == Some(entry));
        self.runtime.flows.orders = others;
        for leaving in here {
            if !leaving.has_begun() {
                let rest = &leaving.order.moves[leaving.begun..];
                rest.iter().for_each(|_| leaving.order.record(Outcome::Gone));
                leaving.order.begin();
            }
            for (to, keys) in leaving.flows {
                for key in keys {
                    self.runtime.flows.leaving.remove(&(entry, key));
                    self.send_flow(entry, key, to, Some(leaving.order.clone()), now);
                }
            }
        }
    }
}
