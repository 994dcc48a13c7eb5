//! The link address of the next hop, and waiting for it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, Priority,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::arp::{Lookup as Found, Transmit};
use weever_packet::Endpoints;
use weever_wire::MacAddr;

use super::address;
use crate::check::{MARKS, reader};
use crate::host::{Neighbours, Reader, key};

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = BlockType {
    spawns: &["request"],
    effects: MARKS.union(Effects::BLOCKS).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["requests"],
    ..reader(
        "TxL3ARPLookup_",
        "Records the next hop's link address. Packets to a neighbour that is not known wait here, \
         by interface and address, while it is asked for.",
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
    Ok(Box::new(Lookup { neighbours, reader }))
}

struct Lookup {
    neighbours: Arc<Neighbours>,
    reader: Reader,
}

impl Block for Lookup {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let snapshot = self.reader.load();
        let (mut known, mut unknown) = (0, 0);
        let mut last: Option<(u64, MacAddr)> = None;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
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
        ports.enable(0, known);
        if unknown != 0 {
            self.ask(cx, burst, unknown, ports);
        }
    }
}

impl Lookup {
    #[cold]
    fn ask(&self, cx: &mut Cx<'_>, burst: &mut Burst, unknown: Mask, ports: &mut Ports<'_>) {
        let mut session = self.neighbours.session(cx.now);
        for task in bits(unknown) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let of = next_hop(packet);
            let Some(found) = session.lookup(of, cx.now) else {
                ports.enable(3, 1 << task);
                continue;
            };
            match found {
                Found::Hit(mac) => {
                    packet.meta_mut().endpoints.next_mac = mac.0;
                    ports.enable(0, 1 << task);
                }
                Found::Incomplete => cx.block(task, of),
                Found::MissSendRequest(request) => {
                    send(cx, packet, &request);
                    cx.block(task, of);
                }
                Found::Failed => ports.enable(1, 1 << task),
                Found::Full => ports.enable(2, 1 << task),
            }
        }
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
    cx.spawn_new(0, Some(buffer), 0, Priority::High);
}
