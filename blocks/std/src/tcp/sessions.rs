//! The records of a worker's connections, found by their slots and by their flows.

use std::collections::HashMap;

use weever_block::FlowKey;
use weever_net::stream::StreamId;
use weever_tcp::Id;

use super::session::Session;

/// Slots of which the connections are listed at once: some microseconds' work.
const LISTED: usize = 256;

/// The records of a worker's connections, by their slots and by their flows.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<Option<Session>>,
    /// The slot of the first connection of a flow.
    flows: HashMap<FlowKey, u32>,
}

impl Sessions {
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Session> {
        let session = self.slots.get_mut(id.slot())?.as_mut()?;
        (session.id == id).then_some(session)
    }

    /// Adds a record; the one that the slot had before is forgotten.
    pub(super) fn add(&mut self, mut session: Session) {
        let at = session.id.slot();
        self.remove_slot(at);
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        session.next = self.flows.insert(session.flow, at as u32);
        self.slots[at] = Some(session);
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Session> {
        self.get_mut(id)?;
        self.remove_slot(id.slot())
    }

    fn remove_slot(&mut self, at: usize) -> Option<Session> {
        let session = self.slots.get_mut(at)?.take()?;
        let first = self.flows.get(&session.flow).copied();
        if first == Some(at as u32) {
            match session.next {
                Some(next) => drop(self.flows.insert(session.flow, next)),
                None => drop(self.flows.remove(&session.flow)),
            }
            return Some(session);
        }
        let mut before = first;
        while let Some(slot) = before {
            let other = self.slots[slot as usize].as_mut()?;
            if other.next == Some(at as u32) {
                other.next = session.next;
                break;
            }
            before = other.next;
        }
        Some(session)
    }

    /// The application's stream of a connection, if it is one's.
    pub(super) fn stream(&self, id: Id) -> Option<StreamId> {
        self.slots.get(id.slot())?.as_ref().filter(|session| session.id == id)?.stream()
    }

    /// The connections of some slots, from number `from` on, with their flows; and where to go on.
    pub(super) fn range(
        &self,
        from: usize,
    ) -> (impl Iterator<Item = (Id, FlowKey)> + '_, Option<usize>) {
        let to = self.slots.len().min(from.saturating_add(LISTED));
        let some = self.slots.get(from..to).unwrap_or_default().iter().flatten();
        (some.map(|session| (session.id, session.flow)), (to < self.slots.len()).then_some(to))
    }

    /// The connections of a flow: nearly always one.
    pub(super) fn of_flow(&self, flow: FlowKey) -> Vec<Id> {
        let mut all = Vec::new();
        let mut at = self.flows.get(&flow).copied();
        while let Some(session) = at.and_then(|slot| self.slots[slot as usize].as_ref()) {
            all.push(session.id);
            at = session.next;
        }
        all
    }

    /// The same record for the id that its connection has at another endpoint.
    pub(super) fn adopt(&mut self, mut session: Session, id: Id) {
        (session.id, session.next, session.listed) = (id, None, false);
        self.add(session);
    }
}
