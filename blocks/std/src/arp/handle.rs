//! ARP packets update the neighbour cache and wake the packets that wait for it.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Build, BuildError, Burst, Cx, MARKS, Mask, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::arp::{Outcome, Verdict};
use weever_wire::arp::{ArpRepr, ArpView};

use super::address;
use crate::host::{Key4, NeighbourKey, Neighbours, V4};
use crate::kinds::LOOK_AGAIN;
use crate::neighbour::neighbours;

const PORTS: &[PortDoc] = &[
    PortDoc { name: "out", doc: "taken, and nothing to send" },
    PortDoc { name: "conflict", doc: "another station uses one of our addresses" },
    PortDoc { name: "limited", doc: "its sender asked too often lately" },
    PortDoc { name: "drop", doc: "the cache refused it, or its interface is gone" },
];
const DROP: usize = 3;

/// The spawn edge back to the block, for packets that come while another worker has access to the neighbours.
const AGAIN: usize = 1;
const EFFECTS: Effects = MARKS.union(Effects::CONSUMES).union(Effects::STATEFUL);

const fn handler(name: &'static str, summary: &'static str) -> BlockType {
    BlockType {
        spawns: &["response", "again"],
        notifies: &["resolved"],
        effects: EFFECTS,
        state: StateKind::Replicated,
        counters: &["answered", "learned", "conflicts"],
        ..BlockType::new(name, summary, PORTS, make)
    }
}

/// Learns from a request to us and answers it.
pub static INIT_RESPONSE: BlockType =
    handler("RxL3ARPInitResponse", "Learns the sender of a request to us, and has it answered.");

/// Learns from neighbours that are known or asked for.
pub static PROCESS_PENDING_RESPONSE: BlockType = handler(
    "RxL3ARPProcessPendingResponse",
    "Enters a neighbour's link address and wakes the packets that wait for it; defends our addresses.",
);

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let neighbours = neighbours::<V4>(build)?;
    Ok(Box::new(Handle { neighbours, resolved: Vec::with_capacity(64) }))
}

struct Handle {
    neighbours: Arc<Neighbours>,
    resolved: Vec<u64>,
}

impl Block for Handle {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let Some(mut session) = self.neighbours.try_session(cx.now) else {
            return cx.spawn_later(AGAIN, input, LOOK_AGAIN);
        };
        let mut answered: Mask = 0;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let Ok(view) = ArpView::new(packet.at(packet.meta().l3)) else {
                ports.enable(DROP, 1 << task);
                continue;
            };
            let iface = packet.meta().iface;
            let Some(outcome) = session.handle(iface, &ArpRepr::parse(view), cx.now) else {
                ports.enable(DROP, 1 << task);
                continue;
            };
            note(cx, (&self.neighbours, &mut self.resolved), iface, &outcome);
            match outcome.reply {
                Some(reply) => {
                    address(packet, iface, &reply);
                    answered |= 1 << task;
                }
                None => ports.enable(port_of(outcome.verdict), 1 << task),
            }
        }
        // Packets that wake up must find the new address published.
        drop(session);
        self.resolved.drain(..).for_each(|key| cx.notify(0, key));
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
    }
}

fn note(
    cx: &mut Cx<'_>,
    (neighbours, resolved): (&Neighbours, &mut Vec<u64>),
    iface: u16,
    outcome: &Outcome,
) {
    if let Some(learned) = outcome.learned {
        cx.count(1, 1);
        let key = neighbours.wait_key(Key4::new(iface, learned.ip));
        resolved.extend(learned.resolves.then_some(key));
    }
    let ours = matches!(outcome.verdict, Verdict::Conflict { .. } | Verdict::Duplicate { .. });
    cx.count(2, ours.into());
}

fn port_of(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Taken => 0,
        Verdict::Conflict { .. } | Verdict::Duplicate { .. } => 1,
        Verdict::Limited => 2,
        _ => DROP,
    }
}
