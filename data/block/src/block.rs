//! The trait.

use std::any::Any;

use weever_packet::{Buffer, Burst, Mask};

use crate::{Cx, FlowEnds, FlowKey};

/// The output masks of one node: which tasks enabled which port. Ports are numbered in the order of
/// [`BlockType::ports`](crate::BlockType::ports), in any order of the graph's text.
#[derive(Debug)]
pub struct Ports<'a> {
    masks: &'a mut [Mask],
    /// The ports by which tasks have left, a bit each as far as there are bits.
    used: u64,
}

impl<'a> Ports<'a> {
    /// Output masks over `masks`, one per port. For engines and tests.
    pub fn new(masks: &'a mut [Mask]) -> Ports<'a> {
        Ports { masks, used: 0 }
    }

    /// Sends `tasks` out by `port`. For an F-node, no task may leave by two ports.
    ///
    /// Panics when the block has no such port: that is a bug of the block.
    #[inline]
    pub fn enable(&mut self, port: usize, tasks: Mask) {
        self.masks[port] |= tasks;
        self.used |= u64::from(tasks != 0) << (port % 64);
    }

    /// Sends those of `input` that are in `yes` out by port 1, the others by port 0: the numbering
    /// of `false` and `true` (Dragonet thesis §3.2.1).
    #[inline]
    pub fn decide(&mut self, input: Mask, yes: Mask) {
        self.enable(0, input & !yes);
        self.enable(1, input & yes);
    }

    /// Whether no task has left.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// The one port by which all of `tasks` have left, and no others by any. Also `None` for a port behind the first 64,
    /// which few blocks have.
    #[inline]
    pub fn only(&self, tasks: Mask) -> Option<usize> {
        let port = self.used.trailing_zeros() as usize;
        let one = self.used & self.used.wrapping_sub(1) == 0 && self.masks.len() <= 64;
        (one && self.masks.get(port) == Some(&tasks)).then_some(port)
    }
}

/// A node's implementation.
///
/// Contract: every task of `input` leaves by exactly one port, or is taken away through `cx`
/// ([`Cx::consume`], [`Cx::transmit`], [`Cx::spawn`], [`Cx::block`]) and leaves by none. A burst's
/// slot may be empty unless the type's effects include `needs_buffer`; the engine checks that
/// before it calls. Blocks do not block, do not allocate on the packet path and do not read a
/// clock: the time is `cx.now`.
///
/// A panic in any of these calls costs the block its state and the packets that it was called with:
/// the engine goes on with a fresh block, and without one after repeated panics.
pub trait Block: Send {
    /// Runs the node for the tasks of `input`, in arrival order.
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>);

    /// Receives the packets of the tasks it claimed by [`Cx::consume`], after the last node of
    /// those tasks has run. The engine frees the packets that it leaves in the burst.
    fn collect(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, claimed: Mask) {
        let _ = (cx, burst, claimed);
    }

    /// Called when the deadline has come that the block set by
    /// [`Cx::set_deadline`](crate::Cx::set_deadline), and after
    /// [`import_flow`](Block::import_flow); it may set the next. There are no tasks: packets
    /// of its own leave by [`Cx::spawn_new`](crate::Cx::spawn_new), as many as it likes.
    fn poll(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// Gives the state away that the block which takes this one's place may go on with; called once,
    /// between two bursts, just before this block leaves the graph. `None`: there is none worth
    /// keeping.
    fn export_state(&mut self) -> Option<State> {
        None
    }

    /// Goes on with the state of the block that was at this node before. Gives back state that it
    /// cannot use, and then starts afresh: another type's state, or another version's.
    fn import_state(&mut self, state: State) -> Result<(), State> {
        Err(state)
    }

    /// The flow that a packet belongs to, for types whose state is
    /// [sharded](crate::StateKind::Sharded). The engine asks before it calls
    /// [`run`](Block::run) and hands packets of flows that another worker owns over to that. `None`:
    /// the packet concerns no flow and runs where it is. An ICMP error concerns the flow that it
    /// quotes.
    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        let _ = packet;
        None
    }

    /// Lists flows whose state is here, for a plan that sends sets of flows to other workers. Looks at
    /// a bounded number of the block's own places for flows, from number `from` on, and returns where to go
    /// on; `None` at the end. Flows that come and go between two calls may be missed. A type that lists none
    /// has its flows follow their packets.
    fn list_flows(&self, from: usize, list: &mut Vec<FlowEnds>) -> Option<usize> {
        let _ = (from, list);
        None
    }

    /// Whether the state of a flow can go to another worker. If not, its packets are handed over to this
    /// one for as long as it lasts. Asked before a move begins, and before the move's
    /// [`export_flow`](Block::export_flow) by some turns.
    fn may_leave(&self, flow: FlowKey) -> bool {
        let _ = flow;
        true
    }

    /// Gives the state of a flow away, which another worker's block goes on with; called between two
    /// bursts. `None`: the flow is not here or has ended.
    fn export_flow(&mut self, flow: FlowKey) -> Option<State> {
        let _ = flow;
        None
    }

    /// Goes on with a flow of another worker's block; called between two bursts, before any packet
    /// of the flow. Gives back state that it cannot use; the flow then has no owner any more.
    fn import_flow(&mut self, flow: FlowKey, state: State) -> Result<(), State> {
        let _ = flow;
        Err(state)
    }
}

/// The state that a block hands to its successor. Types that do so agree on its contents.
pub type State = Box<dyn Any + Send>;
