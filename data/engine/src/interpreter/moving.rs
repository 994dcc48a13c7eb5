//! The flows that an engine gives away or expects, and the packets that wait for them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use weever_block::{FlowEnds, FlowKey};

use super::task_queues::{Queued, Task};
use crate::moves::{FlowMove, ListOrder, MoveInbox, MoveOrder, Outcome};
use crate::schedule::Entry;

/// A flow at a node.
pub(crate) type EntryFlow = (Entry, FlowKey);

/// The flows that an engine moves.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) inbox: Arc<MoveInbox>,
    pub(crate) orders: Vec<Leaving>,
    /// The number of the last question to all workers.
    questions: u32,
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
    /// Flows that have come to rest here, or have gone on elsewhere, so far.
    pub(crate) settled: u64,
    /// The most packets held, with those that wait beside full rings.
    limit: usize,
    /// Flows that have arrived, and whose packets are still held for want of room behind them.
    pub(crate) arrived: VecDeque<Arrived>,
    /// The flow whose held packets run.
    pub(crate) releasing: Option<EntryFlow>,
}

/// An order that is being carried out, or the part of one that concerns this worker.
///
/// In a round, its flows begin to leave, every worker is asked for an answer, and the states are sent. Flows
/// that cannot begin to leave are looked at again until packets are redirected, and then are in the next round.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) order: Arc<MoveOrder>,
    /// The flows of this round that are looked at; `None`: all that the order names.
    part: Option<Vec<FlowMove>>,
    /// The number of these that are handled.
    handled: usize,
    /// The [occasion](Leaving::occasion) when the first of these was looked at.
    looked: u64,
    /// That of the last look at all flows that wait.
    all_looked: Option<u64>,
    /// Flows that cannot begin to leave yet: their state is still on its way here, or the graphs of
    /// workers change.
    pub(crate) later: Vec<FlowMove>,
    /// Whether nothing but such flows is looked at.
    pub(crate) waits: bool,
    /// Its flows at this worker whose states have not been sent, by new owner.
    pub(crate) flows: BTreeMap<u16, Vec<FlowKey>>,
    /// The number by which other workers answer, once they have been asked.
    pub(crate) asked: Option<u32>,
    /// The workers that have not answered yet.
    pub(crate) unanswered: usize,
    pub(crate) queues: QueueWatch,
    /// The tasks of the node that run before the first state is sent, once they have been counted.
    pub(crate) before: Option<Queued>,
}

impl Leaving {
    fn new(order: Arc<MoveOrder>, part: Option<Vec<FlowMove>>) -> Leaving {
        Leaving {
            order,
            part,
            handled: 0,
            looked: 0,
            all_looked: None,
            later: Vec::new(),
            waits: false,
            flows: BTreeMap::new(),
            asked: None,
            unanswered: 0,
            queues: QueueWatch::default(),
            before: None,
        }
    }

    fn round(&self) -> &[FlowMove] {
        self.part.as_ref().unwrap_or(&self.order.moves)
    }

    /// Takes up to `max` flows that are not handled yet, when so many flows have come to rest here.
    pub(crate) fn take_next(&mut self, max: usize, settled: u64) -> Vec<FlowMove> {
        let next: Vec<_> = self.round()[self.handled..].iter().take(max).copied().collect();
        if self.handled == 0 {
            self.looked = self.occasion(settled);
        }
        self.handled += next.len();
        next
    }

    /// Looks again, in the same round, at the flows that could not begin to leave.
    pub(crate) fn look_again(&mut self) {
        self.part = Some(std::mem::take(&mut self.later));
        (self.handled, self.waits, self.all_looked) = (0, true, Some(self.looked));
    }

    /// A number that grows when flows that wait may be able to leave: one has come to rest here, or where flows may
    /// move has changed.
    fn occasion(&self, settled: u64) -> u64 {
        settled + self.order.owners.limited()
    }

    /// Whether all flows of the round are handled.
    pub(crate) fn has_begun(&self) -> bool {
        self.handled == self.round().len()
    }

    /// Goes on to the next round, with the flows that are left; whether there are any. Copies none of them unless the
    /// round has been cut short: there may be many, and a round may last a few turns only.
    pub(crate) fn next_round(&mut self) -> bool {
        let mut left = std::mem::take(&mut self.later);
        left.extend_from_slice(&self.round()[self.handled..]);
        *self = Leaving { waits: true, ..Leaving::new(self.order.clone(), Some(left)) };
        !self.has_begun()
    }

    /// Whether a turn will go on with it although no message arrives, when so many flows have come to rest here.
    fn needs_turns(&self, settled: u64) -> bool {
        if !self.has_begun() {
            let may_ask = self.order.is_redirected() && !self.flows.is_empty();
            return self.all_looked != Some(self.occasion(settled)) || may_ask;
        }
        self.order.is_redirected() && (self.unanswered == 0 || !self.queues.was_past)
    }
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
    /// The number of the question.
    pub(crate) number: u32,
    pub(crate) queues: QueueWatch,
}

/// A flow that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) place: EntryFlow,
    pub(crate) outcome: Outcome,
    pub(crate) order: Option<Arc<MoveOrder>>,
}

/// What a worker has received from each of its queues.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    turn: u64,
    queues: Vec<Received>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Received {
    packets: u64,
    /// The last turn in which nothing was left in the queue that matters to a move.
    drained: u64,
}

/// More packets than a device's ring holds.
const MORE_THAN_A_RING: u64 = 16_384;

impl Reception {
    pub(crate) fn new(queues: usize) -> Reception {
        Reception { turn: 0, queues: vec![Received::default(); queues] }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.turn += 1;
    }

    /// A queue has given so many packets in this turn. `drained`: none is left, or those left are not
    /// affected by redirections.
    #[inline]
    pub(crate) fn note(&mut self, queue: usize, packets: usize, drained: bool) {
        let received = &mut self.queues[queue];
        received.packets += packets as u64;
        if drained {
            received.drained = self.turn;
        }
    }
}

/// Notices when everything has run that arrived before packets were redirected. Counts for each queue,
/// since one that is never empty, or held back in every turn, is past the redirection at some time, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueWatch {
    begun: Option<Begun>,
    /// Whether packets were redirected already when it was last checked.
    was_past: bool,
}

/// The moment at which the redirection was noticed.
#[derive(Clone, Debug)]
struct Begun {
    turn: u64,
    /// By queue: the packets received until then.
    packets: Vec<u64>,
}

impl QueueWatch {
    /// Called at the end of each turn.
    pub(crate) fn is_past(&mut self, order: &MoveOrder, reception: &Reception) -> bool {
        let Some(begun) = &self.begun else {
            self.begun = order.is_redirected().then(|| Begun {
                turn: reception.turn,
                packets: reception.queues.iter().map(|queue| queue.packets).collect(),
            });
            return false;
        };
        self.was_past = self.was_past
            || reception.queues.iter().zip(&begun.packets).all(|(queue, before)| {
                queue.drained > begun.turn || queue.packets - before > MORE_THAN_A_RING
            });
        self.was_past
    }
}

impl Flows {
    pub(crate) fn new(limit: usize) -> Flows {
        Flows {
            inbox: Arc::default(),
            orders: Vec::new(),
            questions: 0,
            listings: Vec::new(),
            owed: Vec::new(),
            answered: Vec::new(),
            leaving: HashSet::new(),
            held: HashMap::new(),
            held_len: 0,
            settled: 0,
            limit,
            arrived: VecDeque::new(),
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

    /// Whether a turn will find something to do although nothing arrives. Orders whose packets are not redirected
    /// yet wait for that, and others for the answers of workers: the worker is woken for either.
    pub(crate) fn needs_turns(&self) -> bool {
        self.inbox.has_any()
            || !self.listings.is_empty()
            || !self.arrived.is_empty()
            || self.orders.iter().any(|leaving| leaving.needs_turns(self.settled))
            || self.owed.iter().any(|owed| owed.order.is_redirected())
    }

    /// Takes an order, or a part of one that another worker has passed on.
    pub(crate) fn take_order(&mut self, order: Arc<MoveOrder>, part: Option<Vec<FlowMove>>) {
        self.orders.push(Leaving::new(order, part));
    }

    /// The number of the next question to all workers.
    pub(crate) fn next_question(&mut self) -> u32 {
        self.questions = self.questions.wrapping_add(1);
        self.questions
    }

    /// The states of a node's flows are lost: flows that leave do not wait any longer, and flows that
    /// have arrived end.
    #[cold]
    pub(crate) fn lose_states(&mut self, entry: Entry) {
        self.leaving.retain(|(at, _)| *at != entry);
        let arrived = self.arrived.iter_mut().filter(|arrived| arrived.place.0 == entry);
        arrived.for_each(|arrived| arrived.outcome = Outcome::Refused);
        self.releasing = self.releasing.filter(|(at, _)| *at != entry);
    }

    /// Whether one more packet of flows that move may wait, while `beside` wait beside full rings.
    fn may_hold(&self, beside: usize) -> bool {
        self.held_len + beside < self.limit
    }

    /// Whether one more may wait beside full rings: these leave half of the room to those that wait for a state.
    pub(crate) fn may_wait_beside(&self, beside: usize) -> bool {
        beside < self.limit / 2 && self.may_hold(beside)
    }

    /// Keeps a packet until the state of its flow has arrived; gives it back when too many wait, with those beside
    /// full rings.
    pub(crate) fn hold(
        &mut self,
        entry: Entry,
        key: FlowKey,
        task: Task,
        beside: usize,
    ) -> Result<(), Task> {
        if !self.may_hold(beside) {
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
