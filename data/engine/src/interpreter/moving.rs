//! The flows that an engine gives away or expects, and the packets that wait for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use weever_block::{FlowEnds, FlowKey};

use super::task_queues::Task;
use crate::moves::{ListOrder, MoveInbox, MoveOrder, Outcome};
use crate::schedule::Entry;

/// A flow at a node.
pub(crate) type EntryFlow = (Entry, FlowKey);

/// The flows that an engine moves.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) inbox: Arc<MoveInbox>,
    pub(crate) orders: Vec<Leaving>,
    /// Questions for flows that are being answered.
    pub(crate) listings: Vec<Listing>,
    /// Answers that this worker owes others.
    pub(crate) owed: Vec<Owed>,
    /// The orders of others that this worker has answered, until they are carried out.
    pub(crate) answered: Vec<Arc<MoveOrder>>,
    /// Flows that go on here until their order is carried out.
    pub(crate) leaving: HashSet<EntryFlow>,
    /// Packets of flows whose state is on its way here.
    held: HashMap<EntryFlow, VecDeque<Task>>,
    held_len: usize,
    /// The most packets held.
    limit: usize,
    /// Flows that have arrived, and whose packets are still held for want of room behind them.
    pub(crate) arrived: Vec<Arrived>,
    /// The flow whose held packets run.
    pub(crate) releasing: Option<EntryFlow>,
}

/// An order that is being carried out.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) order: Arc<MoveOrder>,
    /// The flows of it that were here and stood still, with their new owners.
    pub(crate) flows: Vec<(FlowKey, u16)>,
    /// The workers that have not answered yet.
    pub(crate) unanswered: usize,
    pub(crate) queues: QueueWatch,
}

/// A question that is being answered.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) order: Arc<ListOrder>,
    /// The place in the block where the next turn goes on.
    pub(crate) next: usize,
    pub(crate) found: Vec<FlowEnds>,
}

impl Listing {
    pub(crate) fn new(order: Arc<ListOrder>) -> Listing {
        Listing { order, next: 0, found: Vec::new() }
    }
}

/// An answer to a worker that moves flows away.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) to: u16,
    pub(crate) order: Arc<MoveOrder>,
    pub(crate) queues: QueueWatch,
}

/// A flow that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) place: EntryFlow,
    pub(crate) outcome: Outcome,
    pub(crate) order: Option<Arc<MoveOrder>>,
}

/// How much of the received packets a turn has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reception {
    /// Everything: the queues are empty.
    Drained,
    /// As much as a turn takes; there may be more.
    More,
    /// Less, for want of room.
    Held,
}

/// The most turns until everything has been received that was in the device queues: each receives up
/// to four bursts of every queue.
const MAX_TURNS: u32 = 64;

/// Notices when everything has run that arrived before packets were redirected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueWatch {
    /// Whether packets have been redirected.
    begun: bool,
    /// Turns since then in which each queue gave as many packets as a turn takes.
    turns: u32,
}

impl QueueWatch {
    /// Called at the end of each turn.
    pub(crate) fn is_past(&mut self, order: &MoveOrder, reception: Reception) -> bool {
        let is_past = match reception {
            Reception::Drained => self.begun,
            Reception::More => self.turns >= MAX_TURNS,
            Reception::Held => false,
        };
        self.turns += u32::from(self.begun && reception == Reception::More);
        self.begun |= order.is_redirected();
        is_past
    }
}

impl Flows {
    pub(crate) fn new(limit: usize) -> Flows {
        Flows {
            inbox: Arc::default(),
            orders: Vec::new(),
            listings: Vec::new(),
            owed: Vec::new(),
            answered: Vec::new(),
            leaving: HashSet::new(),
            held: HashMap::new(),
            held_len: 0,
            limit,
            arrived: Vec::new(),
            releasing: None,
        }
    }

    pub(crate) fn inbox(&self) -> Arc<MoveInbox> {
        self.inbox.clone()
    }

    /// Whether there is something to do beside packets.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.inbox.has_any()
            || !self.orders.is_empty()
            || !self.listings.is_empty()
            || !self.owed.is_empty()
            || !self.arrived.is_empty()
    }

    /// Keeps a packet until the state of its flow has arrived; gives it back when too many are kept.
    pub(crate) fn hold(&mut self, entry: Entry, key: FlowKey, task: Task) -> Result<(), Task> {
        if self.held_len >= self.limit {
            return Err(task);
        }
        self.held.entry((entry, key)).or_default().push_back(task);
        self.held_len += 1;
        Ok(())
    }

    /// Whether this worker has answered the order by which a flow moves to worker `to`.
    #[cold]
    pub(crate) fn has_answered(&self, (entry, key): EntryFlow, to: u16) -> bool {
        let is = |order: &Arc<MoveOrder>| order.at.entry == entry && order.names((key, to));
        self.answered.iter().any(is)
    }

    pub(crate) fn holds(&self, place: EntryFlow) -> bool {
        self.held.contains_key(&place)
    }

    /// Takes up to `max` held packets of a flow.
    pub(crate) fn take_held(&mut self, place: EntryFlow, max: usize) -> Vec<Task> {
        let Some(queue) = self.held.get_mut(&place) else { return Vec::new() };
        let tasks: Vec<Task> = queue.drain(..max.min(queue.len())).collect();
        if queue.is_empty() {
            self.held.remove(&place);
        }
        self.held_len -= tasks.len();
        tasks
    }
}
