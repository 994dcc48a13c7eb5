//! A block with state of flows that notices packets which come out of order or without the state, and the packets
//! that it checks.

use std::collections::HashMap;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, FlowClaim, FlowKey, Mask, PortDoc,
    Ports, State, StateKind, bits,
};
use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Port};

/// A packet behind a gap counts as in order: the missing ones show in the sum.
pub(super) const COUNTERS: &[&str] = &["in order", "out of order", "unknown"];
pub(super) const IN_ORDER: usize = 0;
const OUT_OF_ORDER: usize = 1;
const UNKNOWN: usize = 2;

const OUT: &[PortDoc] = &[PortDoc { name: "out", doc: "every packet" }];
const EITHER: &[PortDoc] =
    &[PortDoc { name: "out", doc: "the benchmark's" }, PortDoc { name: "other", doc: "others" }];

/// Ends packets that are not the benchmark's, such as the kernel's on a veth.
pub(super) static ARRIVE: BlockType = BlockType {
    effects: Effects::READS.union(Effects::NEEDS_BUFFER),
    ..BlockType::new("Arrive", "Passes the benchmark's packets on.", EITHER, |_: &Build<'_>| {
        Ok(Box::new(Arrive))
    })
};

/// Expects each flow's packets one after the other.
pub(super) static SEQUENCE: BlockType = BlockType {
    state: StateKind::Sharded,
    effects: Effects::READS.union(Effects::NEEDS_BUFFER),
    counters: COUNTERS,
    ..BlockType::new("Sequence", "Checks the order of each flow.", OUT, make)
};

fn make(_: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    Ok(Box::new(Sequence::default()))
}

struct Arrive;

impl Block for Arrive {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let is_ours =
            |i: &usize| burst.get(*i).is_some_and(|packet| packet.data().starts_with(&HEADER));
        let ours = bits(input).filter(is_ours).fold(0, |ours, i| ours | 1 << i);
        ports.enable(0, ours);
        ports.enable(1, input & !ours);
    }
}

#[derive(Default)]
struct Sequence {
    next: HashMap<u64, u64>,
}

/// An Ethernet header with a type for experiments (IEEE Std 802).
const HEADER: [u8; 14] = [2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2, 0x88, 0xb5];

/// A packet of 64 bytes, less the frame check sequence.
pub(super) fn packet(flow: u64, position: u64) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..14].copy_from_slice(&HEADER);
    packet[14..22].copy_from_slice(&flow.to_be_bytes());
    packet[22..30].copy_from_slice(&position.to_be_bytes());
    packet
}

/// A packet's flow, and its position in the flow.
fn position(packet: &Buffer) -> (u64, u64) {
    let word = |at: usize| packet.data().get(at..at + 8).and_then(|b| b.try_into().ok());
    (word(14).map_or(0, u64::from_be_bytes), word(22).map_or(0, u64::from_be_bytes))
}

pub(super) fn key(flow: u64) -> FlowKey {
    FlowKey::of_hash((flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Block for Sequence {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            let (flow, position) = burst.get(i).map_or((0, 0), position);
            match self.next.get_mut(&flow) {
                Some(next) => {
                    cx.count(if position >= *next { IN_ORDER } else { OUT_OF_ORDER }, 1);
                    *next = (*next).max(position + 1);
                }
                None if position > 0 => cx.count(UNKNOWN, 1),
                None => match cx.claim_flow(key(flow)) {
                    FlowClaim::Mine => {
                        self.next.insert(flow, 1);
                        cx.count(IN_ORDER, 1);
                    }
                    FlowClaim::Elsewhere(_) => {
                        cx.send_to_owner(i, key(flow));
                        continue;
                    }
                    FlowClaim::Full => cx.count(UNKNOWN, 1),
                },
            }
            ports.enable(0, 1 << i);
        }
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        Some(key(position(packet).0))
    }

    fn export_flow(&mut self, wanted: FlowKey) -> Option<State> {
        let flow = *self.next.keys().find(|flow| key(**flow) == wanted)?;
        Some(Box::new((flow, self.next.remove(&flow)?)))
    }

    fn import_flow(&mut self, _: FlowKey, state: State) -> Result<(), State> {
        let (flow, next) = *state.downcast::<(u64, u64)>()?;
        self.next.insert(flow, next);
        Ok(())
    }
}

/// `Arrive` and `Sequence`.
pub(super) fn graph() -> Graph {
    let mut graph = Graph::new("flows");
    let out = |name: &str, targets| Port { name: name.into(), targets, ..Port::default() };
    let ends = |port: &str| Attr::Param { key: weever_graph::ENDS.into(), value: port.into() };
    let mut arrive = Node::new("Arrive", NodeKind::Function);
    arrive.attrs.push(Attr::Source);
    arrive.ports.push(out("out", vec![NodeId(1)]));
    arrive.ports.push(out("other", Vec::new()));
    arrive.attrs.push(ends("other"));
    graph.add(arrive);
    let mut sequence = Node::new("Sequence", NodeKind::Function);
    sequence.ports.push(out("out", Vec::new()));
    sequence.attrs.push(ends("out"));
    graph.add(sequence);
    graph
}
