//! The order in which packets leave that several workers receive from one queue
//! ([`keeps_order`](weever_link::LinkQueue::keeps_order)).
//!
//! A worker has packets of one such queue in hand at a time. They pass the graph at once and wait in the outboxes until the
//! workers before it have sent theirs; meanwhile it receives from no such queue, so that what waits is a burst. Its turn ends
//! when so many packets have left as there were in the outboxes when it began: what comes later is not waited for.

use weever_packet::Nanos;

use super::queues::{Attached, Egress};
use crate::Engine;

/// For so long a worker that may send tries to before it receives again: a device may take nothing.
const MAX_SENDING: Nanos = 10_000_000;

/// The queue whose packets a worker has in hand and sends in order.
#[derive(Clone, Copy, Debug)]
struct InHand {
    queue: usize,
    /// Since when it may send them.
    sending: Option<Nanos>,
    /// Whether all of them are in the outboxes, and counted.
    counted: bool,
}

/// Nothing, or one queue's packets.
#[derive(Debug)]
pub(super) struct Order {
    in_hand: Option<InHand>,
    /// By link.
    links: Box<[Owed]>,
}

/// What has to leave by a link before the packets in hand have left.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    /// How many packets will have left by then since the worker began; `None`: none of these goes there.
    until: Option<u64>,
    /// Whether it was waited for in vain; until it is in time again, it is not.
    late: bool,
}

impl Order {
    pub(super) fn new(links: u16) -> Order {
        Order { in_hand: None, links: vec![Owed::default(); links.into()].into() }
    }

    /// Packets were received.
    #[inline]
    pub(super) fn received(&mut self, queue: usize, from: &Attached) {
        if from.queue.has_turn() {
            self.in_hand = Some(InHand { queue, sending: None, counted: false });
        }
    }

    /// Whether packets wait for their turn, or for a device to take them in time.
    pub(super) fn has_in_hand(&self) -> bool {
        self.in_hand.is_some()
    }

    /// Whether to receive from that queue: from any unless packets are in hand, and then from none that keeps order too.
    #[inline]
    pub(super) fn may_receive(&self, from: Option<&Attached>) -> bool {
        self.in_hand.is_none() || from.is_none_or(|from| !from.queue.keeps_order())
    }

    /// Whether to send.
    #[inline]
    pub(super) fn may_send(&mut self, queues: &mut [Option<Attached>], now: Nanos) -> bool {
        let Some(in_hand) = &mut self.in_hand else { return true };
        // A queue that has failed has left.
        let may = queues[in_hand.queue].as_mut().is_none_or(|from| from.queue.may_send());
        if may {
            in_hand.sending.get_or_insert(now);
        }
        may
    }

    /// Before the worker sends: counts what has to leave, once all that the packets in hand cause is in the outboxes.
    #[inline]
    pub(super) fn count(
        &mut self,
        egress: &Egress,
        engine: &mut Engine,
        queues: &[Option<Attached>],
    ) {
        let Some(InHand { counted, .. }) = &mut self.in_hand else { return };
        if *counted || !engine.idle() {
            return;
        }
        *counted = true;
        for (link, owed) in self.links.iter_mut().enumerate() {
            owed.until = egress.sends_until(link, engine, queues);
        }
    }

    /// The worker has tried to send.
    #[inline]
    pub(super) fn tried(
        &mut self,
        egress: &Egress,
        engine: &mut Engine,
        queues: &mut [Option<Attached>],
        now: Nanos,
    ) {
        let Some(InHand { queue, sending: Some(since), counted }) = self.in_hand else { return };
        let mut is_left = !counted;
        for (link, owed) in self.links.iter_mut().enumerate() {
            owed.until = owed.until.filter(|until| !egress.has_sent(link, *until, engine, queues));
            is_left |= owed.until.is_some() && !owed.late;
        }
        if is_left && now.saturating_sub(since) < MAX_SENDING {
            return;
        }
        for owed in &mut self.links {
            owed.late = owed.until.take().is_some();
        }
        self.in_hand = None;
        queues[queue].iter_mut().for_each(|from| from.queue.sent());
    }
}
