//! The built-in services: what they do with their connections, and the records of connections.

use std::collections::HashMap;
use std::ops::Range;

use weever_block::{FlowKey, Nanos};
use weever_tcp::{Connection, Endpoint, Events, Id, Payload, Region};

/// Octets of a connection's receive window, and of the region that an echo keeps them in.
pub(super) const REGION: u32 = 256 << 10;

/// A service on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Each octet is sent back (RFC 862).
    Echo,
    /// Octets are read and forgotten (RFC 863).
    Discard,
}

/// The adapter's record of a connection.
#[derive(Debug)]
pub(super) struct Session {
    id: Id,
    pub(super) flow: FlowKey,
    /// The interface by which its last segment came.
    pub(super) iface: u16,
    pub(super) accepted: bool,
    service: Service,
    /// The echo's octets: those received and not yet acknowledged by the peer that they were sent back
    /// to. The stream that is sent is the one that was received, so each octet has one place.
    region: Option<Region>,
    /// The slot of another connection whose flow has the same key.
    next: Option<u32>,
}

impl Session {
    pub(super) fn new(id: Id, flow: FlowKey, service: Service) -> Session {
        let (iface, accepted, region) = (0, false, None);
        Session { id, flow, iface, accepted, service, region, next: None }
    }

    /// Keeps payload that was accepted; `bytes` is the segment's.
    #[inline]
    pub(super) fn keep(&mut self, payload: &Payload, bytes: &[u8]) {
        if self.service == Service::Echo
            && let Some(bytes) = bytes.get(payload.range.clone())
        {
            let region = self.region.get_or_insert_with(|| Region::new(REGION as usize));
            region.write(payload.offset, bytes);
        }
    }

    /// Writes a range of the stream that is sent.
    #[inline]
    pub(super) fn read(&self, range: Range<u64>, out: &mut [u8]) {
        if let Some(region) = &self.region {
            region.read(range.start, out);
        }
    }

    /// Does what the events call for. True once the connection is over.
    pub(super) fn serve(&mut self, endpoint: &mut Endpoint, events: Events, now: Nanos) -> bool {
        if events.has(Events::CLOSED) {
            return true;
        }
        let Some(at) = endpoint.get(self.id).map(Progress::of) else { return true };
        match self.service {
            Service::Echo => {
                // Acknowledged octets make room for as many to be received.
                if at.acknowledged > at.readable.start {
                    endpoint.consume(self.id, at.acknowledged - at.readable.start, now);
                }
                if at.readable.end > at.queued {
                    endpoint.queue(self.id, at.readable.end - at.queued, now);
                }
            }
            Service::Discard => {
                endpoint.consume(self.id, at.readable.end - at.readable.start, now);
            }
        }
        if events.has(Events::FINISHED) {
            // FIN follows the octets that are still to be sent back.
            endpoint.shutdown(self.id, now);
        }
        false
    }
}

struct Progress {
    readable: Range<u64>,
    acknowledged: u64,
    queued: u64,
}

impl Progress {
    fn of(connection: &Connection) -> Progress {
        let (readable, queued) = (connection.readable(), connection.queued());
        Progress { readable, queued, acknowledged: connection.acknowledged() }
    }
}

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
    pub(super) fn adopt(&mut self, session: Session, id: Id) {
        self.add(Session { id, next: None, ..session });
    }
}
