//! Packets that wait for their neighbour leave before those that come later.

use std::collections::BTreeSet;

use weever_block::{Buffer, Burst, Cx, Mask, Nanos, bits};
use weever_packet::{Flags, Meta, NOWHERE};

use super::Protocol;
use crate::host::{NeighbourKey, Neighbourhood};
use crate::kinds::LOOK_AGAIN;

/// The neighbours that packets wait for at one block, on this worker. Another worker may have heard
/// from one of them before the waiting packets are woken: packets that come meanwhile join them,
/// lest they overtake.
#[derive(Debug)]
pub(super) struct Waiting<K> {
    /// Neighbours, ascending, and when each was last known to be waited for. Every packet looks here
    /// while any packet waits, and strangers choose the neighbours: a search has no worst case.
    list: Vec<(K, Nanos)>,
    tidied: Nanos,
    /// The keys of packets that wait only because another worker had access to the neighbours: they are to look again.
    again: BTreeSet<u64>,
    /// When they look.
    again_at: Nanos,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Waiting { list: Vec::new(), tidied: 0, again: BTreeSet::new(), again_at: 0 }
    }
}

/// The notify edge of [`lookup`](super::lookup::lookup), which leads back to it.
const WAITING: usize = 0;
/// Neighbours whose packets are kept in order at a time.
const MOST_WAITING: usize = 1024;
/// Longer than it takes packets to go on once their neighbour has answered.
const TIDY: Nanos = weever_net::SECOND;

impl<K: NeighbourKey> Waiting<K> {
    /// Whether no packet waits.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Notes that `packet` is about to wait for this neighbour.
    pub(super) fn begin(&mut self, packet: &mut Buffer, neighbour: K, now: Nanos) {
        packet.meta_mut().flags = packet.meta().flags.with(Flags::WAITED);
        self.add(neighbour, now);
    }

    /// Has a packet that has [begun](Self::begin) to wait look again soon, since another worker has access to the neighbours.
    pub(super) fn look_again(&mut self, cx: &mut Cx<'_>, task: usize, key: u64) {
        if self.again.is_empty() {
            self.again_at = cx.now + LOOK_AGAIN;
        }
        self.again.insert(key);
        cx.block(task, key);
    }

    /// Sets the block's deadline for packets that look again: after a change of the graph it is set anew with the next packet.
    pub(super) fn set_deadline(&self, cx: &mut Cx<'_>) {
        if !self.again.is_empty() {
            cx.set_deadline(Some(self.again_at));
        }
    }

    /// At the block's deadline: wakes the packets that look again.
    pub(super) fn wake(&mut self, cx: &mut Cx<'_>) {
        std::mem::take(&mut self.again).into_iter().for_each(|key| cx.notify(WAITING, key));
    }

    fn find(&self, neighbour: K) -> Result<usize, usize> {
        self.list.binary_search_by_key(&neighbour, |(waited, _)| *waited)
    }

    fn add(&mut self, neighbour: K, now: Nanos) {
        match self.find(neighbour) {
            Ok(at) => self.list[at].1 = now,
            Err(at) if self.list.len() < MOST_WAITING => self.list.insert(at, (neighbour, now)),
            Err(_) => {}
        }
    }

    fn contains(&self, neighbour: K) -> bool {
        self.find(neighbour).is_ok()
    }

    fn remove(&mut self, neighbour: K) -> bool {
        self.find(neighbour).map(|at| self.list.remove(at)).is_ok()
    }

    /// Forgets neighbours that are no longer asked for and whose packets did not come back: there
    /// was no room for them to wait.
    fn tidy(&mut self, now: Nanos, mut is_asked: impl FnMut(K) -> bool) {
        if now.saturating_sub(self.tidied) < TIDY {
            return;
        }
        self.tidied = now;
        self.list.retain_mut(|(neighbour, since)| {
            if is_asked(*neighbour) {
                *since = now;
            }
            now.saturating_sub(*since) < TIDY
        });
    }

    /// Has those tasks wait whose neighbour others wait for already; those that waited go on. Returns the tasks that
    /// wait. If no other event will wake them, because the news has been told or those before were dropped, they are
    /// woken here, and come back to the block; without access to the neighbours they look again.
    pub(super) fn hold<F: Protocol<Key = K>>(
        &mut self,
        cx: &mut Cx<'_>,
        burst: &mut Burst,
        input: Mask,
        neighbours: &Neighbourhood<F>,
    ) -> Mask {
        let now = cx.now;
        // Packets to other neighbours need no access.
        let mut session = None;
        let mut is_asked = |of| {
            let session = session.get_or_insert_with(|| neighbours.try_session(now));
            session.as_mut().map(|session| session.is_asked(of))
        };
        self.tidy(now, |of| is_asked(of) != Some(false));
        let mut held = 0;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let Some(of) = waits_for::<F>(packet) else { continue };
            let flags = packet.meta().flags;
            if flags.has(Flags::WAITED) || !self.contains(of) {
                continue;
            }
            // Without a frame to move to, it waits where it is.
            shrink(cx, packet);
            packet.meta_mut().flags = flags.with(Flags::WAITED);
            held |= 1 << task;
            let key = neighbours.wait_key(of);
            let Some(is_asked) = is_asked(of) else {
                self.look_again(cx, task, key);
                continue;
            };
            cx.block(task, key);
            if !is_asked {
                cx.notify(WAITING, key);
            }
        }
        held
    }

    /// When the first of those that waited for a neighbour has left, the packets that joined them meanwhile are woken.
    pub(super) fn let_go<F: Protocol<Key = K>>(
        &mut self,
        cx: &mut Cx<'_>,
        burst: &Burst,
        left: Mask,
        neighbours: &Neighbourhood<F>,
    ) {
        for task in bits(left) {
            let Some(packet) = burst.get(task) else { continue };
            let waited = packet.meta().flags.has(Flags::WAITED);
            if let Some(of) = waits_for::<F>(packet).filter(|_| waited)
                && self.remove(of)
            {
                cx.notify(WAITING, neighbours.wait_key(of));
            }
        }
    }
}

/// Whether the packet already has its link address: a group's, the broadcast address, or the sender's
/// of the packet that it answers.
#[inline(always)]
pub(super) fn goes_by_itself(packet: &Buffer) -> bool {
    packet.meta().flags.has(Flags::NEXT_MAC)
}

/// The neighbour whose link address the packet needs.
fn waits_for<F: Protocol>(packet: &Buffer) -> Option<F::Key> {
    (!goes_by_itself(packet)).then(|| F::next_hop(packet))
}

/// Bytes of the largest ordinary frame.
const ORDINARY: usize = 4096;

/// Moves a packet in a large frame into an ordinary one, before it waits: large frames are few, and
/// packets that strangers provoke to silent neighbours must not hold them. False, and nothing
/// changed, if no frame is free.
pub(super) fn shrink(cx: &mut Cx<'_>, packet: &mut Buffer) -> bool {
    let from = packet.head();
    if usize::from(from) + packet.len() + packet.tailroom() <= ORDINARY {
        return true;
    }
    let Some(mut small) = cx.alloc() else { return false };
    if !small.append(packet.data()) {
        cx.free(small);
        return false;
    }
    let to = small.head();
    let moved = |at: u16| if at == NOWHERE || at < from { NOWHERE } else { at - from + to };
    let meta = *packet.meta();
    let (l2, l3, l4, end) = (moved(meta.l2), moved(meta.l3), moved(meta.l4), moved(meta.end));
    *small.meta_mut() = Meta { l2, l3, l4, end, ..meta };
    std::mem::swap(packet, &mut small);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Key4;

    fn number(of: u32) -> Key4 {
        Key4::new(0, of.into())
    }

    #[test]
    fn in_whatever_order_they_come_they_are_found() {
        let mut waiting = Waiting::default();
        for of in [5, 1, 9, 3, 1, 7] {
            waiting.add(number(of), 0);
        }
        assert!(waiting.remove(number(3)) && !waiting.remove(number(3)));
        let found: Vec<u32> = (0..12).filter(|of| waiting.contains(number(*of))).collect();
        assert_eq!((found, waiting.list.len()), (vec![1, 5, 7, 9], 4));
    }

    #[test]
    fn neighbours_whose_packets_never_came_back_are_forgotten() {
        let mut waiting = Waiting::default();
        (0..2 * MOST_WAITING as u32).for_each(|of| waiting.add(number(of), TIDY));
        assert_eq!(waiting.list.len(), MOST_WAITING, "there is a bound");
        waiting.tidy(2 * TIDY - 1, |_| false);
        assert_eq!(waiting.list.len(), MOST_WAITING, "they may still be on their way");
        waiting.tidy(3 * TIDY, |of| of == number(7));
        assert!(waiting.contains(number(7)) && waiting.list.len() == 1, "it is still asked for");
        waiting.tidy(4 * TIDY, |_| false);
        assert!(waiting.is_empty() && !waiting.remove(number(7)));
    }
}
