//! The order in which packets leave that several workers receive from one queue
//! ([`keeps_order`](weever_link::LinkQueue::keeps_order)).
//!
//! A worker has packets of one such queue in hand at a time. They pass the graph at once and wait in the outboxes until the
//! workers before it have sent theirs; meanwhile it receives from no such queue, so that what waits is a burst.

use weever_packet::Nanos;

use super::queues::Attached;

/// For so long a worker that may send tries to before it receives again: a device may take nothing.
const MAX_SENDING: Nanos = 10_000_000;

/// The queue whose packets a worker has in hand and sends in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand {
    queue: usize,
    /// Since when it may send them.
    sending: Option<Nanos>,
}

/// Nothing, or one queue's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order(Option<InHand>);

impl Order {
    /// Packets were received.
    #[inline]
    pub(super) fn received(&mut self, queue: usize, from: &Attached) {
        if from.queue.keeps_order() {
            self.0 = Some(InHand { queue, sending: None });
        }
    }

    /// Whether to receive from that queue: from any unless packets are in hand, and then from none that keeps order too.
    #[inline]
    pub(super) fn may_receive(&self, from: Option<&Attached>) -> bool {
        self.0.is_none() || from.is_none_or(|from| !from.queue.keeps_order())
    }

    /// Whether to send.
    #[inline]
    pub(super) fn may_send(&mut self, queues: &mut [Option<Attached>], now: Nanos) -> bool {
        let Some(in_hand) = &mut self.0 else { return true };
        // A queue that has failed has left.
        let may = queues[in_hand.queue].as_mut().is_none_or(|from| from.queue.may_send());
        if may {
            in_hand.sending.get_or_insert(now);
        }
        may
    }

    /// The worker has tried to send; `is_left` says whether anything is left.
    #[inline]
    pub(super) fn tried(
        &mut self,
        queues: &mut [Option<Attached>],
        now: Nanos,
        is_left: impl FnOnce(&[Option<Attached>]) -> bool,
    ) {
        let Some(InHand { queue, sending: Some(since) }) = self.0 else { return };
        if now.saturating_sub(since) < MAX_SENDING && is_left(queues) {
            return;
        }
        self.0 = None;
        queues[queue].iter_mut().for_each(|from| from.queue.sent());
    }
}
