//! The link address of the next hop, and waiting for it.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, PortDoc, Ports, State,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::neighbour::{Demand, Lookup as Found};
use weever_packet::Flags;
use weever_wire::MacAddr;

use super::waiting::{Waiting, goes_by_itself, shrink};
use super::{Protocol, neighbours, send};
use crate::host::{NeighbourSnapshot as Snapshot, Neighbourhood, Reader, Session};

const REQUEST: usize = 0;
const KNOWN: usize = 0;
const UNREACHABLE: usize = 1;
const FULL: usize = 2;
const DOWN: usize = 3;

/// The ports of [`lookup`]; `down` documents the port of an interface that is down.
pub(crate) const fn ports(down: &'static str) -> [PortDoc; 4] {
    [
        PortDoc { name: "true", doc: "the address is known" },
        PortDoc { name: "unreachable", doc: "the neighbour did not answer" },
        PortDoc { name: "full", doc: "too many neighbours are being resolved" },
        PortDoc { name: "down", doc: down },
    ]
}

/// A block that finds the next hop's link address; packets wait there until it is known.
pub(crate) const fn lookup<F: Protocol>(
    name: &'static str,
    ports: &'static [PortDoc],
) -> BlockType {
    BlockType {
        spawns: &["request"],
        notifies: &["waiting"],
        effects: MARKS.union(Effects::CONSUMES).union(Effects::BLOCKS).union(Effects::STATEFUL),
        state: StateKind::Replicated,
        counters: &["requests"],
        ..BlockType::new(
            name,
            "Records the next hop's link address. Packets to a neighbour that is not known wait \
             here, by interface and address, while it is asked for, and leave before those that \
             come later.",
            ports,
            make::<F>,
        )
    }
}

fn make<F: Protocol>(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let neighbours = neighbours::<F>(build)?;
    let reader = neighbours.reader();
    Ok(Box::new(Lookup { neighbours, reader, waiting: Waiting::default(), is_noted: false }))
}

struct Lookup<F: Protocol> {
    neighbours: Arc<Neighbourhood<F>>,
    reader: Reader<F::Key>,
    waiting: Waiting<F::Key>,
    /// Whether it is noted in the neighbourhood that packets wait here.
    is_noted: bool,
}

impl<F: Protocol> Block for Lookup<F> {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let waits = !self.waiting.is_empty();
        let held = if waits { self.hold(cx, burst, input) } else { 0 };
        let snapshot = self.reader.load();
        let (mut known, mut unknown) = (0, 0);
        let mut last: Option<(F::Key, MacAddr)> = None;
        for task in bits(input & !held) {
            let Some(packet) = burst.get_mut(task) else { continue };
            if goes_by_itself(packet) {
                known |= 1 << task;
                continue;
            }
            let of = F::next_hop(packet);
            // Neighbours in a burst often go the same way.
            let mac = match last {
                Some((same, mac)) if same == of => Some(mac),
                _ => snapshot.find(of),
            };
            match mac {
                Some(mac) => {
                    last = Some((of, mac));
                    packet.meta_mut().endpoints.next_mac = mac.0;
                    known |= 1 << task;
                }
                None => unknown |= 1 << task,
            }
        }
        ports.enable(KNOWN, known);
        let mut left = known;
        if unknown != 0 {
            left |= self.ask(cx, burst, unknown, ports);
        }
        if waits {
            self.let_go(cx, burst, left);
        }
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        self.waiting.wake(cx);
    }

    /// Packets go on waiting at the node: those that come later must not overtake them.
    fn export_state(&mut self) -> Option<State> {
        let waiting = std::mem::take(&mut self.waiting);
        self.note_waiting();
        Some(Box::new(waiting))
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        self.waiting = *state.downcast::<Waiting<F::Key>>()?;
        self.note_waiting();
        Ok(())
    }
}

impl<F: Protocol> Drop for Lookup<F> {
    fn drop(&mut self) {
        if self.is_noted {
            self.neighbours.note_waiting(false);
        }
    }
}

/// Records the next hop's link address if it is known.
#[inline]
pub(crate) fn record_known<F: Protocol>(known: &Snapshot<F::Key>, packet: &mut Buffer) -> bool {
    if goes_by_itself(packet) {
        return true;
    }
    let Some(mac) = known.find(F::next_hop(packet)) else { return false };
    packet.meta_mut().endpoints.next_mac = mac.0;
    true
}

impl<F: Protocol> Lookup<F> {
    #[cold]
    fn hold(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask) -> Mask {
        let held = self.waiting.hold(cx, burst, input, &*self.neighbours);
        self.waiting.set_deadline(cx);
        self.note_waiting();
        held
    }

    #[cold]
    fn let_go(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, left: Mask) {
        self.waiting.let_go(cx, burst, left, &*self.neighbours);
        self.note_waiting();
    }

    /// Looks neighbours up that are not published, and has packets wait until they are; without access to the
    /// neighbours, until they look again. Returns the packets that left by a port.
    #[cold]
    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        burst: &mut Burst,
        unknown: Mask,
        ports: &mut Ports<'_>,
    ) -> Mask {
        let mut left = 0;
        let mut session = self.neighbours.try_session(cx.now);
        for task in bits(unknown) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let of = F::next_hop(packet);
            let port = session.as_mut().and_then(|session| find(cx, session, packet, of));
            if let Some(port) = port.or_else(|| (!shrink(cx, packet)).then_some(FULL)) {
                ports.enable(port, 1 << task);
                left |= 1 << task;
                continue;
            }
            self.waiting.begin(packet, of, cx.now);
            let key = self.neighbours.wait_key(of);
            match session {
                Some(_) => cx.block(task, key),
                None => self.waiting.look_again(cx, task, key),
            }
        }
        drop(session);
        self.waiting.set_deadline(cx);
        self.note_waiting();
        left
    }

    /// Notes in the neighbourhood whether packets wait here: those that come later may not pass by.
    fn note_waiting(&mut self) {
        let waits = !self.waiting.is_empty();
        if waits != self.is_noted {
            self.is_noted = waits;
            self.neighbours.note_waiting(waits);
        }
    }
}

/// The port that a packet to a neighbour which is not published leaves by; `None`: it waits.
fn find<F: Protocol>(
    cx: &mut Cx<'_>,
    session: &mut Session<'_, F>,
    packet: &mut Buffer,
    of: F::Key,
) -> Option<usize> {
    let demand = match packet.meta().flags.has(Flags::PROVOKED) {
        true => Demand::Provoked,
        false => Demand::Own,
    };
    match session.lookup(of, demand, cx.now) {
        Some(Found::Hit(mac)) => {
            packet.meta_mut().endpoints.next_mac = mac.0;
            Some(KNOWN)
        }
        Some(Found::Incomplete) => None,
        Some(Found::MissSendRequest(request)) => {
            // Without a buffer it counts as lost, and the timer repeats it.
            let (iface, queue) = (packet.meta().iface, packet.meta().queue);
            let sent = send::<F>(cx, REQUEST, (iface, queue), &request);
            cx.count(0, sent.into());
            None
        }
        Some(Found::Failed) => Some(UNREACHABLE),
        Some(Found::Full) => Some(FULL),
        None => Some(DOWN),
    }
}
