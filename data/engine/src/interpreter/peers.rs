//! Messages between workers: tasks for nodes that run on another worker, wake-ups for tasks that
//! wait there, packets for links that only another worker serves.

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use weever_block::{FlowKey, Priority};
use weever_packet::{BURST, Buffer};

use super::task_queues::Task;
use crate::mailbox::Doorbell;
use crate::moves::{FlowMessage, FlowMove, MoveOrder};
use crate::schedule::NodeRef;

/// The most wake-ups that may wait for room in a ring. Beyond that, all tasks of the node are woken
/// instead: a task woken without cause blocks again, whereas a lost wake-up would leave a task
/// blocked forever.
const MAX_PENDING_WAKES: usize = 256;

/// Room in a ring that only packets of flows, and messages about them, may fill, so that strangers keep them from no
/// ring. Half of a small ring.
const RESERVE: usize = BURST;

/// The part of a ring that a message may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// What is not reserved for packets of flows.
    Common,
}

/// An entry of a ring between workers.
#[derive(Debug)]
pub(crate) enum Message {
    /// Starts a task.
    Task { at: NodeRef, priority: Priority, task: Task },
    /// Wakes the tasks that wait for a key, or for any key if there is none.
    Wake { at: NodeRef, key: Option<u64> },
    /// Sends a packet.
    Send { link: u16, buffer: Buffer },
    /// Asks for an answer, which comes behind everything that was sent before.
    Fence { from: u16, number: u32, order: Arc<MoveOrder> },
    /// The answer to the question of that number.
    Fenced { number: u32 },
    /// Flows of an order that this worker has by now.
    Move { order: Arc<MoveOrder>, part: Box<[FlowMove]> },
    /// The state of a flow.
    Flow(Box<FlowMessage>),
    /// Asks the owner of a flow to move it to worker `by`, where its packets arrive.
    Ask { at: NodeRef, flow: FlowKey, by: u16 },
}

impl Message {
    /// The graph that the receiver must run before it handles this.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Message::Task { at, .. } | Message::Wake { at, .. } | Message::Ask { at, .. } => {
                at.epoch
            }
            Message::Flow(flow) => flow.at.epoch,
            Message::Move { order, .. } => order.at.epoch,
            Message::Send { .. } | Message::Fence { .. } | Message::Fenced { .. } => 0,
        }
    }
}

/// The sending side of the ring to another worker.
#[derive(Debug)]
pub(crate) struct PeerSender {
    ring: Producer<Message>,
    /// The free room as it was last seen; there may be more.
    free: usize,
    /// The room that is reserved for packets of flows.
    reserve: usize,
    bell: Arc<Doorbell>,
    /// Messages put into the ring so far.
    put: u64,
    /// Whether something was pushed since the other worker was last notified.
    unannounced: bool,
    wakes: VecDeque<(NodeRef, Option<u64>)>,
    /// Packets of flows that move, messages about them, and tasks of removed nodes, waiting for room in the ring.
    overflow: VecDeque<Message>,
    /// The number of tasks among them.
    waiting_tasks: usize,
}

impl PeerSender {
    pub(crate) fn new(ring: Producer<Message>, bell: Arc<Doorbell>) -> PeerSender {
        let wakes = VecDeque::with_capacity(MAX_PENDING_WAKES);
        let (free, reserve) = (ring.slots(), RESERVE.min(ring.buffer().capacity() / 2));
        let overflow = VecDeque::new();
        let (put, unannounced, waiting_tasks) = (0, false, 0);
        PeerSender { ring, free, reserve, bell, put, unannounced, wakes, overflow, waiting_tasks }
    }

    fn has_room(&mut self, part: Part) -> bool {
        let kept = if part == Part::Common { self.reserve } else { 0 };
        if self.free <= kept {
            self.free = self.ring.slots();
        }
        self.free > kept
    }

    fn put(&mut self, message: Message) -> Result<(), Message> {
        match self.ring.push(message) {
            Ok(()) => {
                self.unannounced = true;
                self.put += 1;
                self.free = self.free.saturating_sub(1);
                Ok(())
            }
            Err(rtrb::PushError::Full(message)) => Err(message),
        }
    }

    fn wake(&mut self, at: NodeRef, key: Option<u64>) {
        if self.wakes.len() < MAX_PENDING_WAKES {
            self.wakes.push_back((at, key));
        } else {
            // Compares dispatch points: the same entry may be another node in an older graph.
            self.wakes.retain(|(place, _)| place.idp != at.idp);
            self.wakes.push_back((at, None));
        }
        self.send_wakes();
    }

    /// Sends the messages that wait for room, as far as there is any.
    fn send_waiting(&mut self) {
        self.send_wakes();
        while let Some(message) = self.overflow.pop_front() {
            let is_task = matches!(message, Message::Task { .. });
            if let Err(message) = self.put(message) {
                return self.overflow.push_front(message);
            }
            self.waiting_tasks -= usize::from(is_task);
        }
    }

    fn send_wakes(&mut self) {
        while let Some((at, key)) = self.wakes.pop_front() {
            if self.put(Message::Wake { at, key }).is_err() {
                self.wakes.push_front((at, key));
                return;
            }
        }
    }
}

/// One worker's connections to the others.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) me: u16,
    /// Indexed by worker; `None` for this worker.
    senders: Box<[Option<PeerSender>]>,
    receivers: Box<[Option<Consumer<Message>>]>,
    /// Indexed by link: a worker that serves it.
    link_workers: Box<[Option<u16>]>,
    /// Messages sent and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Peers {
    pub(crate) fn new(
        me: u16,
        senders: Vec<Option<PeerSender>>,
        receivers: Vec<Option<Consumer<Message>>>,
        link_workers: Vec<Option<u16>>,
    ) -> Peers {
        let (senders, receivers) = (senders.into(), receivers.into());
        Peers { me, senders, receivers, link_workers: link_workers.into(), sent: 0, received: 0 }
    }

    fn push(&mut self, to: u16, message: Message, part: Part) -> Result<(), Message> {
        match self.senders.get_mut(to as usize) {
            Some(Some(sender)) => {
                if !sender.has_room(part) {
                    return Err(message);
                }
                sender.put(message)?;
                self.sent += 1;
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// Whether the ring to worker `to` has room for a message in the part for such messages, and none
    /// waits before it.
    pub(crate) fn has_room(&mut self, to: u16, part: Part) -> bool {
        let sender = self.senders.get_mut(to as usize).and_then(Option::as_mut);
        sender.is_some_and(|sender| sender.overflow.is_empty() && sender.has_room(part))
    }

    /// Hands a task over; returns it when its part of the ring is full.
    pub(crate) fn start(
        &mut self,
        to: u16,
        at: NodeRef,
        priority: Priority,
        task: Task,
        part: Part,
    ) -> Result<(), Task> {
        // Tasks that have waited longer go first.
        if let Some(Some(sender)) = self.senders.get_mut(to as usize)
            && !sender.overflow.is_empty()
        {
            sender.send_waiting();
            if !sender.overflow.is_empty() {
                return Err(task);
            }
        }
        self.push(to, Message::Task { at, priority, task }, part).map_err(|message| match message {
            Message::Task { task, .. } => task,
            _ => None,
        })
    }

    /// Hands a task over, queueing it if the ring is full. The queue is bounded by the tasks that waited at removed
    /// nodes, and by the [limit](crate::Limits::held) for packets of flows that move.
    pub(crate) fn send_task_late(&mut self, to: u16, at: NodeRef, priority: Priority, task: Task) {
        self.send_late(to, Message::Task { at, priority, task });
    }

    /// Sends a message that must not be lost, behind all that were sent before.
    pub(crate) fn send_late(&mut self, to: u16, message: Message) {
        if let Some(Some(sender)) = self.senders.get_mut(to as usize) {
            sender.waiting_tasks += usize::from(matches!(message, Message::Task { .. }));
            sender.overflow.push_back(message);
            sender.send_waiting();
            self.sent += 1;
        }
    }

    /// Tasks that wait beside full rings.
    pub(crate) fn waiting_tasks(&self) -> usize {
        self.senders.iter().flatten().map(|sender| sender.waiting_tasks).sum()
    }

    /// Whether fewer than `max` messages wait beside the ring to worker `to`, not counting tasks.
    pub(crate) fn may_wait(&self, to: u16, max: usize) -> bool {
        let sender = self.senders.get(to as usize).and_then(Option::as_ref);
        sender.is_some_and(|sender| sender.overflow.len() - sender.waiting_tasks < max)
    }

    /// The free room in the fullest ring to another worker, less the messages that already wait for
    /// room.
    pub(crate) fn least_room(&self) -> usize {
        let room = |s: &PeerSender| s.ring.slots().saturating_sub(s.overflow.len());
        self.senders.iter().flatten().map(room).min().unwrap_or(usize::MAX)
    }

    /// Wakes the tasks that wait for `key` on worker `to`, or on all others. A wake-up is never
    /// lost.
    pub(crate) fn wake(&mut self, to: Option<u16>, at: NodeRef, key: Option<u64>) {
        for (worker, sender) in self.senders.iter_mut().enumerate() {
            if to.is_none_or(|to| to as usize == worker)
                && let Some(sender) = sender
            {
                sender.wake(at, key);
                self.sent += 1;
            }
        }
    }

    /// Hands packets for a link over to a worker that serves it, as far as there is room. `false`:
    /// no worker serves it.
    pub(crate) fn send_by_peer(
        &mut self,
        link: u16,
        packets: &mut VecDeque<Buffer>,
        part: Part,
    ) -> bool {
        let worker = self.link_workers.get(link as usize).copied().flatten();
        let Some(worker) = worker.filter(|worker| *worker != self.me) else { return false };
        while let Some(buffer) = packets.pop_front() {
            if let Err(message) = self.push(worker, Message::Send { link, buffer }, part) {
                if let Message::Send { buffer, .. } = message {
                    packets.push_front(buffer);
                }
                break;
            }
        }
        true
    }

    /// This worker's number.
    pub(super) fn me(&self) -> u16 {
        self.me
    }

    /// The number of workers, this one included.
    pub(crate) fn len(&self) -> usize {
        self.receivers.len()
    }

    /// The next message from a worker, without removing it.
    #[inline]
    pub(crate) fn next(&mut self, from: usize) -> Option<&Message> {
        self.receivers[from].as_mut()?.peek().ok()
    }

    /// Removes the next message from a worker.
    pub(crate) fn take(&mut self, from: usize) -> Option<Message> {
        let message = self.receivers[from].as_mut()?.pop().ok();
        self.received += u64::from(message.is_some());
        message
    }

    /// How many messages wait from a worker.
    pub(crate) fn depth(&self, from: usize) -> usize {
        self.receivers[from].as_ref().map_or(0, Consumer::slots)
    }

    /// Whether any message waits here.
    pub(crate) fn has_messages(&self) -> bool {
        (0..self.len()).any(|from| self.depth(from) > 0)
    }

    /// Messages put into rings to other workers so far.
    pub(crate) fn put(&self) -> u64 {
        self.senders.iter().flatten().map(|sender| sender.put).sum()
    }

    /// Whether wake-ups or tasks wait for room in a ring.
    pub(crate) fn has_unsent(&self) -> bool {
        let waits = |sender: &PeerSender| !sender.wakes.is_empty() || !sender.overflow.is_empty();
        self.senders.iter().flatten().any(waits)
    }

    /// Wakes sleeping workers that have new messages. Called once per turn, since a turn may send
    /// many.
    pub(crate) fn flush_and_wake(&mut self) {
        for sender in self.senders.iter_mut().flatten() {
            sender.send_waiting();
            if std::mem::take(&mut sender.unannounced) {
                sender.bell.ring();
            }
        }
    }
}
