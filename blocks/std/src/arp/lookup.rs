//! The link address of the next hop, and waiting for it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, PortDoc, Ports, Priority,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::arp::{Lookup as Found, Transmit};
use weever_packet::{Endpoints, Flags};
use weever_wire::MacAddr;

use super::address;
use crate::check::{MARKS, reader};
use crate::host::{Neighbours, Reader, Session, key};

const REQUEST: usize = 0;
const WAITING: usize = 0;
const KNOWN: usize = 0;
const UNREACHABLE: usize = 1;
const FULL: usize = 2;
const DOWN: usize = 3;

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = BlockType {
    spawns: &["request"],
    notifies: &["waiting"],
    effects: MARKS.union(Effects::BLOCKS).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["requests"],
    ..reader(
        "TxL3ARPLookup_",
        "Records the next hop's link address. Packets to a neighbour that is not known wait here, \
         by interface and address, while it is asked for, and leave before those that come later.",
        &[
            PortDoc { name: "true", doc: "the address is known" },
            PortDoc { name: "unreachable", doc: "the neighbour did not answer" },
            PortDoc { name: "full", doc: "too many neighbours are being asked for" },
            PortDoc { name: "down", doc: "the interface is down or gone" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let neighbours = build.env::<Neighbours>("the neighbour cache")?;
    let reader = neighbours.reader();
    Ok(Box::new(Lookup { neighbours, reader, waiting: Waiting::default() }))
}

struct Lookup {
    neighbours: Arc<Neighbours>,
    reader: Reader,
    waiting: Waiting,
}

/// The neighbours that packets wait for here, on this worker. Another worker may have heard from
/// one of them before those that wait have been told: what comes meanwhile joins them, lest it
/// overtakes.
#[derive(Debug, Default)]
struct Waiting {
    /// Neighbours, and when each was last known to be waited for.
    list: Vec<(u64, Nanos)>,
    tidied: Nanos,
}

/// Neighbours whose packets are kept in order at a time.
const MOST_WAITING: usize = 1024;
/// Longer than it takes packets to go on once their neighbour has answered.
const TIDY: Nanos = weever_net::SECOND;

impl Waiting {
    fn add(&mut self, neighbour: u64, now: Nanos) {
        let known = self.list.iter_mut().find(|(waited, _)| *waited == neighbour);
        if let Some((_, since)) = known {
            *since = now;
        } else if self.list.len() < MOST_WAITING {
            self.list.push((neighbour, now));
        }
    }

    fn contains(&self, neighbour: u64) -> bool {
        self.list.iter().any(|(waited, _)| *waited == neighbour)
    }

    fn remove(&mut self, neighbour: u64) -> bool {
        let at = self.list.iter().position(|(waited, _)| *waited == neighbour);
        at.map(|at| self.list.swap_remove(at)).is_some()
    }

    /// Forgets neighbours that nobody asks for any more and of whose packets none came back: there
    /// was no room for them to wait.
    fn tidy(&mut self, now: Nanos, mut is_asked: impl FnMut(u64) -> bool) {
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
}

impl Block for Lookup {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let snapshot = self.reader.load();
        let held = match self.waiting.list.is_empty() {
            true => 0,
            false => self.waiting.hold(cx, &self.neighbours, burst, input),
        };
        let (mut known, mut unknown) = (0, 0);
        let mut last: Option<(u64, MacAddr)> = None;
        for task in bits(input & !held) {
            let Some(packet) = burst.get_mut(task) else { continue };
            if packet.meta().flags.has(Flags::NEXT_MAC) {
                known |= 1 << task;
                continue;
            }
            let of = next_hop(packet);
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
        if unknown != 0 {
            self.ask(cx, burst, unknown, ports);
        }
    }
}

impl Waiting {
    /// Has those tasks wait whose neighbour others wait for already, and those that waited go on:
    /// when the first of them comes, whoever joined them meanwhile is woken after them. If nobody
    /// else is to wake them, because the news has been told or those before were dropped, they are
    /// woken here.
    #[cold]
    fn hold(
        &mut self,
        cx: &mut Cx<'_>,
        neighbours: &Neighbours,
        burst: &mut Burst,
        input: Mask,
    ) -> Mask {
        let (mut held, mut session) = (0, neighbours.session(cx.now));
        self.tidy(cx.now, |of| session.is_asked(of));
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let (of, flags) = (next_hop(packet), packet.meta().flags);
            if flags.has(Flags::NEXT_MAC) {
                continue;
            }
            if flags.has(Flags::WAITED) {
                if self.remove(of) {
                    cx.notify(WAITING, of);
                }
            } else if self.contains(of) {
                packet.meta_mut().flags = flags.with(Flags::WAITED);
                cx.block(task, of);
                held |= 1 << task;
                if !session.is_asked(of) {
                    cx.notify(WAITING, of);
                }
            }
        }
        held
    }
}

impl Lookup {
    #[cold]
    fn ask(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, unknown: Mask, ports: &mut Ports<'_>) {
        let mut session = self.neighbours.session(cx.now);
        for task in bits(unknown) {
            let Some(packet) = burst.get_mut(task) else { continue };
            if let Some(port) = find(cx, &mut session, packet) {
                ports.enable(port, 1 << task);
                continue;
            }
            let of = next_hop(packet);
            packet.meta_mut().flags = packet.meta().flags.with(Flags::WAITED);
            self.waiting.add(of, cx.now);
            cx.block(task, of);
        }
    }
}

/// The port that a packet to a neighbour which is not published leaves by; `None`: it waits.
fn find(cx: &mut Cx<'_>, session: &mut Session<'_>, packet: &mut Buffer) -> Option<usize> {
    match session.lookup(next_hop(packet), cx.now) {
        Some(Found::Hit(mac)) => {
            packet.meta_mut().endpoints.next_mac = mac.0;
            Some(KNOWN)
        }
        Some(Found::Incomplete) => None,
        Some(Found::MissSendRequest(request)) => {
            send(cx, packet, &request);
            None
        }
        Some(Found::Failed) => Some(UNREACHABLE),
        Some(Found::Full) => Some(FULL),
        None => Some(DOWN),
    }
}

/// Interface and neighbour: what the packet waits for.
#[inline(always)]
fn next_hop(packet: &Buffer) -> u64 {
    let meta = packet.meta();
    key(meta.iface, Ipv4Addr::from_bits(Endpoints::v4(&meta.endpoints.next_hop)))
}

/// Has the request sent where the packet would have gone. Without a buffer it counts as lost, and
/// the timer repeats it.
fn send(cx: &mut Cx<'_>, packet: &Buffer, request: &Transmit) {
    let Some(mut buffer) = cx.alloc() else { return };
    address(&mut buffer, packet.meta().iface, request);
    buffer.meta_mut().queue = packet.meta().queue;
    cx.count(0, 1);
    cx.spawn_new(REQUEST, Some(buffer), 0, Priority::High);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_whose_packets_never_came_back_are_forgotten() {
        let mut waiting = Waiting::default();
        (0..2 * MOST_WAITING as u64).for_each(|of| waiting.add(of, TIDY));
        assert_eq!(waiting.list.len(), MOST_WAITING, "there is a bound");
        waiting.tidy(2 * TIDY - 1, |_| false);
        assert_eq!(waiting.list.len(), MOST_WAITING, "they may still be on their way");
        waiting.tidy(3 * TIDY, |of| of == 7);
        assert!(waiting.contains(7) && waiting.list.len() == 1, "it is still asked for");
        waiting.tidy(4 * TIDY, |_| false);
        assert!(waiting.list.is_empty() && !waiting.remove(7));
    }
}
