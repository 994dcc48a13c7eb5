//! The link address of the next hop, and waiting for it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, Priority,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::arp::{Lookup as Found, Transmit};
use weever_packet::{Endpoints, Flags};
use weever_wire::MacAddr;

use super::address;
use crate::check::{MARKS, reader};
use crate::host::{Neighbours, Reader, Session, key};
use crate::waiting::{Known, Waiting};

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
    waiting: Waiting<u64>,
}

impl Block for Lookup {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let held = match self.waiting.is_empty() {
            true => 0,
            false => self.hold(cx, burst, input),
        };
        let snapshot = self.reader.load();
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

impl Lookup {
    #[cold]
    fn hold(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask) -> Mask {
        let mut session = self.neighbours.session(cx.now);
        let looks =
            |packet: &Buffer| (!packet.meta().flags.has(Flags::NEXT_MAC)).then(|| next_hop(packet));
        let known = Known { looks, key: |of| of, is_asked: |of| session.is_asked(of) };
        self.waiting.hold(cx, burst, input, (WAITING, known))
    }

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
            self.waiting.begin(packet, of, cx.now);
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
