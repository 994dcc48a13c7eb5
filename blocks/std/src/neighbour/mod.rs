//! The part that the blocks of ARP and of neighbour discovery share: finding a packet's next hop, waiting
//! for it, and the timer.

pub(crate) mod lookup;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod waiting;

use std::sync::Arc;

use weever_block::{Block, Build, BuildError, Cx, Nanos, Priority};
use weever_packet::Buffer;

use crate::host::{Family, Neighbourhood, Paths, Sent};
use crate::kinds::{PeriodicTask, periodic};

/// The part of the blocks that is different in each family.
pub(crate) trait Protocol: Family {
    /// Its name, for the error of a graph without it.
    const WHAT: &'static str;

    /// The neighbour that a packet on its way out goes to next.
    fn next_hop(packet: &Buffer) -> Self::Key;

    /// Writes a packet to send by `iface` into an empty buffer, or into the metadata of a packet
    /// that is sent in its place; false if there is no room.
    fn write(buffer: &mut Buffer, iface: u16, sent: &Sent<Self>) -> bool;

    /// Whether it is no question, but tells others of us.
    fn is_announcement(sent: &Sent<Self>) -> bool;
}

/// The neighbours of the blocks of one stack.
pub(crate) fn neighbours<F: Protocol>(
    build: &Build<'_>,
) -> Result<Arc<Neighbourhood<F>>, BuildError> {
    build.env::<Neighbourhood<F>>(F::WHAT)
}

/// Has a packet sent along spawn edge `edge`, on this device queue; false without a buffer, when it
/// counts as lost and its sender repeats it.
pub(crate) fn send<F: Protocol>(
    cx: &mut Cx<'_>,
    edge: usize,
    (iface, queue): (u16, u16),
    sent: &Sent<F>,
) -> bool {
    let Some(mut buffer) = cx.alloc() else { return false };
    if !F::write(&mut buffer, iface, sent) {
        cx.free(buffer);
        return false;
    }
    buffer.meta_mut().queue = queue;
    cx.spawn_new(edge, Some(buffer), 0, Priority::High);
    true
}

pub(crate) const AGAIN: usize = 0;
/// The spawn edge of questions; that of announcements is the next.
const QUESTION: usize = 1;

/// A block that repeats questions, tells others of us, wakes those that wait for a neighbour, and has old path MTUs
/// forgotten.
pub(crate) fn make<F: Protocol>(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let (neighbours, paths) = (neighbours::<F>(build)?, build.env.get_or_default());
    periodic(build, AGAIN, Timer { neighbours, paths, seen: 0, look_at: 0 })
}

struct Timer<F: Protocol> {
    neighbours: Arc<Neighbourhood<F>>,
    paths: Arc<Paths>,
    /// The latest news that waiting packets, on any worker, have been told.
    seen: u64,
    /// When to report the used neighbours, even if nothing else is due.
    look_at: Nanos,
}

impl<F: Protocol> PeriodicTask for Timer<F> {
    fn run_due(&mut self, cx: &mut Cx<'_>) {
        if cx.now >= self.look_at || self.neighbours.is_due(self.seen, cx.now) {
            self.paths.poll(cx.now);
            self.catch_up(cx);
        }
    }
}

impl<F: Protocol> Timer<F> {
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        // Another worker has access: at the next look.
        let Some(mut session) = self.neighbours.try_session(now) else { return };
        self.look_at = now + weever_net::SECOND;
        session.poll(now, |iface, message| {
            let kind = usize::from(F::is_announcement(&message));
            let sent = send::<F>(cx, QUESTION + kind, (iface, 0), &message);
            cx.count(kind, sent.into());
        });
        let mut woken = Vec::new();
        self.seen = session.news_since(self.seen, |key| woken.push(key));
        // Woken packets must find the new address published.
        drop(session);
        for key in woken {
            match key {
                Some(key) => cx.notify(0, key),
                None => cx.notify_all(0),
            }
        }
    }
}
