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
use crate::host::{Neighbours, Reader};

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = BlockType {
    spawns: &["request"],
    effects: MARKS.union(Effects::BLOCKS).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["requests"],
    ..reader(
        "TxL3ARPLookup_",
        "Records the next hop's link address. Packets to a neighbour that is not known wait here, \
         by its IPv4 address, while it is asked for.",
        &[
            PortDoc { name: "true", doc: "the address is known" },
            PortDoc { name: "unreachable", doc: "the neighbour did not answer" },
            PortDoc { name: "full", doc: "too many neighbours are being asked for" },
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
        let mut last: Option<(u32, MacAddr)> = None;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let ip = Endpoints::v4(&packet.meta().endpoints.next_hop);
            // Neighbours in a burst often go the same way.
            let mac = match last {
                Some((of, mac)) if of == ip => Some(mac),
                _ => snapshot.find(ip),
            };
            match mac {
                Some(mac) => {
                    last = Some((ip, mac));
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
        let mut session = self.neighbours.session();
        for task in bits(unknown) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let ip = Endpoints::v4(&packet.meta().endpoints.next_hop);
            match session.lookup(Ipv4Addr::from_bits(ip), cx.now) {
                Found::Hit(mac) => {
                    packet.meta_mut().endpoints.next_mac = mac.0;
                    ports.enable(0, 1 << task);
                }
                Found::Incomplete => cx.block(task, ip.into()),
                Found::MissSendRequest(request) => {
                    send(cx, packet, &request);
                    cx.block(task, ip.into());
                }
                Found::Failed => ports.enable(1, 1 << task),
                Found::Full => ports.enable(2, 1 << task),
            }
        }
    }
}

/// Has the request sent where the packet would have gone. Without a buffer it counts as lost, and
/// the timer repeats it.
fn send(cx: &mut Cx<'_>, packet: &Buffer, request: &Transmit) {
    let Some(mut buffer) = cx.alloc() else { return };
    address(&mut buffer, request);
    let (from, to) = (packet.meta(), buffer.meta_mut());
    (to.link, to.queue) = (from.link, from.queue);
    cx.count(0, 1);
    cx.spawn_new(0, Some(buffer), 0, Priority::High);
}
