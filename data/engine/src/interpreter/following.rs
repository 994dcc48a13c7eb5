//! Flows that follow their packets: a flow moves to the worker where its packets arrive by now,
//! without an order. Filters, the device's hash and other programs' settings may change where that is.
//!
//! A worker counts the packets that it hands over to a flow's owner, and asks the owner for the flow
//! after [`ASKS_AFTER`] of them. The owner counts the packets of the flow from then on.
//! When it is asked again, and hardly any were others than those handed over, it moves the flow, as if
//! ordered to.
//! So a flow whose packets arrive at several workers, for instance from a queue that they share, stays
//! at its owner.

use weever_block::FlowKey;

use super::moving::EntryFlow;
use crate::schedule::Entry;

/// Packets handed over to one owner before a worker asks for their flow: handing over so many costs
/// about as much as a move does.
const ASKS_AFTER: u32 = 64;

/// A flow stays if its owner receives so many itself, or has them from a third worker, meanwhile.
const MAX_DIRECT: u32 = 8;

/// Flows that a worker watches at once. Two that share a place displace each other, and follow later.
const PLACES: usize = 256;

/// Flows that an owner was asked for and has not moved. The oldest is forgotten first: it takes two
/// requests more.
const MAX_ASKED: usize = 64;

/// A flow whose packets are handed over.
#[derive(Clone, Copy, Debug)]
struct Astray {
    flow: EntryFlow,
    owner: u16,
    packets: u32,
}

/// A flow that another worker has asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    flow: EntryFlow,
    by: u16,
    /// Packets of it that have run here since, with those that the other worker has handed over.
    ran: u32,
}

/// A request for a flow to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) entry: Entry,
    pub(crate) flow: FlowKey,
    pub(crate) owner: u16,
}

/// The flows that a worker hands packets of over, and those that others ask it for.
#[derive(Debug)]
pub(crate) struct Following {
    /// By key; empty until the first packet is handed over.
    astray: Vec<Option<Astray>>,
    requests: Vec<Request>,
    asked: Vec<Asked>,
}

impl Following {
    pub(crate) fn new() -> Following {
        Following { astray: Vec::new(), requests: Vec::new(), asked: Vec::new() }
    }

    /// Counts a packet that arrived here and goes to the owner of its flow.
    pub(crate) fn note_handed_over(&mut self, flow: EntryFlow, owner: u16) {
        if self.astray.is_empty() {
            self.astray.resize(PLACES, None);
        }
        let place = &mut self.astray[flow.1.bits() as usize % PLACES];
        let packets = match place {
            Some(known) if (known.flow, known.owner) == (flow, owner) => known.packets + 1,
            _ => 1,
        };
        *place = (packets < ASKS_AFTER).then_some(Astray { flow, owner, packets });
        if place.is_none() {
            self.requests.push(Request { entry: flow.0, flow: flow.1, owner });
        }
    }

    /// Requests that were not sent yet.
    pub(crate) fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether packets that arrive here have to be noticed.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Counts a packet of a flow of this worker's.
    pub(crate) fn note_run(&mut self, flow: EntryFlow) {
        for asked in self.asked.iter_mut().filter(|asked| asked.flow == flow) {
            asked.ran = asked.ran.saturating_add(1);
        }
    }

    /// Another worker asks for a flow of this one's; whether it is to have it.
    pub(crate) fn is_due(&mut self, flow: EntryFlow, by: u16) -> bool {
        let known = self.asked.iter().position(|asked| (asked.flow, asked.by) == (flow, by));
        match known.map(|at| self.asked.remove(at)) {
            Some(asked) if asked.ran.saturating_sub(ASKS_AFTER) < MAX_DIRECT => true,
            _ => {
                if self.asked.len() == MAX_ASKED {
                    self.asked.remove(0);
                }
                self.asked.push(Asked { flow, by, ran: 0 });
                false
            }
        }
    }
}
