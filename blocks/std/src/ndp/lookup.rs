//! The link address of the next hop, and waiting for it.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::ipv6::addr::multicast_mac;
use weever_net::ndp::Lookup as Found;
use weever_wire::MacAddr;

use super::handle::next_hop;
use super::send;
use crate::check::{MARKS, reader};
use crate::host::{Neighbours6, Reader6, key6};
use crate::waiting::{Known, Waiting};

const KNOWN: usize = 0;
const WAITING: usize = 0;

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = BlockType {
    spawns: &["request"],
    notifies: &["waiting"],
    effects: MARKS.union(Effects::BLOCKS).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["requests"],
    ..reader(
        "TxL3NDLookup_",
        "Records the next hop's link address. Packets to a neighbour that is not known wait here, \
         by interface and address, while it is asked for, and leave before those that come later.",
        &[
            PortDoc { name: "true", doc: "the address is known" },
            PortDoc { name: "unreachable", doc: "the neighbour did not answer" },
            PortDoc { name: "full", doc: "too many neighbours are being asked for" },
            PortDoc { name: "down", doc: "the interface is down, gone or does not speak IPv6" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let neighbours = build.env::<Neighbours6>("the IPv6 neighbours")?;
    let reader = neighbours.reader();
    Ok(Box::new(Lookup { neighbours, reader, waiting: Waiting::default() }))
}

struct Lookup {
    neighbours: Arc<Neighbours6>,
    reader: Reader6,
    waiting: Waiting<(u16, Ipv6Addr)>,
}

impl Block for Lookup {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let held = match self.waiting.is_empty() {
            true => 0,
            false => self.hold(cx, burst, input),
        };
        let snapshot = self.reader.load();
        let (mut known, mut unknown) = (0, 0);
        let mut last: Option<((u16, Ipv6Addr), MacAddr)> = None;
        for task in bits(input & !held) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let of = next_hop(packet);
            let mac = match last {
                _ if goes_by_itself(packet) => {
                    known |= 1 << task;
                    continue;
                }
                Some((same, mac)) if same == of => Some(mac),
                _ if of.1.is_multicast() => Some(multicast_mac(of.1)),
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

/// Neighbour discovery says itself where its messages go.
#[inline(always)]
fn goes_by_itself(packet: &Buffer) -> bool {
    packet.meta().endpoints.next_mac != [0; 6]
}

impl Lookup {
    #[cold]
    fn hold(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask) -> Mask {
        let mut session = self.neighbours.session(cx.now);
        let looks = |packet: &Buffer| (!goes_by_itself(packet)).then(|| next_hop(packet));
        let known = Known { looks, key: key6, is_asked: |of| session.is_asked(of) };
        self.waiting.hold(cx, burst, input, (WAITING, known))
    }

    #[cold]
    fn ask(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, unknown: Mask, ports: &mut Ports<'_>) {
        let mut session = self.neighbours.session(cx.now);
        for task in bits(unknown) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let (of, queue) = (next_hop(packet), packet.meta().queue);
            match session.lookup(of, cx.now) {
                Some(Found::Hit(mac)) => {
                    packet.meta_mut().endpoints.next_mac = mac.0;
                    ports.enable(KNOWN, 1 << task);
                }
                Some(Found::Incomplete) => {
                    self.waiting.begin(packet, of, cx.now);
                    cx.block(task, key6(of));
                }
                Some(Found::MissSendRequest(request)) => {
                    // Without a buffer it counts as lost, and the timer repeats it.
                    let sent = send(cx, 0, of.0, queue, &request);
                    cx.count(0, sent.into());
                    self.waiting.begin(packet, of, cx.now);
                    cx.block(task, key6(of));
                }
                Some(Found::Failed) => ports.enable(1, 1 << task),
                Some(Found::Full) => ports.enable(2, 1 << task),
                None => ports.enable(3, 1 << task),
            }
        }
    }
}
