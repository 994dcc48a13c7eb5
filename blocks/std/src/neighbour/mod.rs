//! The part that the blocks of ARP and of neighbour discovery share: finding a packet's next hop, waiting
//! for it, and the timer.

pub(crate) mod lookup;
pub(crate) mod timer;
mod waiting;

use std::sync::Arc;

use weever_block::{Build, BuildError, Cx, Priority};
use weever_packet::Buffer;

use crate::host::{Family, Neighbourhood, Sent};

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
