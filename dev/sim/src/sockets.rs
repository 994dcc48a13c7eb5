//! The sockets of simulated hosts, as blocks in place of applications.
//!
//! A listening port has state for each flow: how many datagrams of it have come. It lives at the worker that
//! owns the flow, so a datagram that another one took shows by its number.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_block::{
    Block, BlockType, Build, BuildError, Cx, FlowClaim, FlowEnds, FlowKey, PortDoc, Ports, State,
    StateKind,
};
use weever_graph::{Attr, Edge, Effects, Graph, Node, NodeKind, Port};
use weever_packet::{Buffer, Burst, Mask, Nanos, bits};
use weever_wire::ipv4::Ipv4Header;
use weever_wire::ipv6::Ipv6Header;
use weever_wire::udp::{HEADER_LEN, UdpHeader};

/// The first node of the host's own packets.
pub(crate) const SEND: &str = "SimSend";
/// The node that is made to hand over the datagrams it gets, and the one that then keeps them.
const LISTENER: &str = "RxL4UDPDiscard";
pub(crate) const FLOWS: &str = "SimFlows";
/// The next node in sending.
const UDP: &str = "TxL4UDPAllocateHeader";
const UDP_NUMBER: u8 = weever_wire::ipv4::protocol::UDP;

/// A datagram that a host has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it arrived.
    pub at: Nanos,
    /// The sender.
    pub from: SocketAddr,
    /// The port it was sent to.
    pub port: u16,
    /// The payload.
    pub payload: Vec<u8>,
    /// How many datagrams of this flow the host had kept before.
    pub serial: u64,
    /// The worker that kept it.
    pub worker: u16,
}

/// The datagrams that came to a host's listening sockets.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Vec<Datagram>>);

impl Inbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Datagram>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a host's graph a first node for its own packets, and an end that keeps received datagrams.
pub(crate) fn fit(graph: &mut Graph) -> Option<()> {
    let (listener, udp) = (graph.find(LISTENER)?, graph.find(UDP)?);
    let mut flows = Node::new(FLOWS, NodeKind::Function);
    flows.implementation = Some(KEEP.name.into());
    flows.attrs.push(Attr::parse("ends=out"));
    flows.ports.push(Port { name: "out".into(), ..Port::default() });
    let target = graph.add(flows);
    let listener = graph.node_mut(listener);
    listener.implementation = Some(LISTEN.name.into());
    listener.spawns.push(Edge { label: "datagram".into(), target, predicates: Vec::new() });
    let mut send = Node::new(SEND, NodeKind::Function);
    send.attrs.push(Attr::Source);
    send.ports.push(Port { name: "out".into(), targets: vec![udp], ..Port::default() });
    graph.add(send);
    Some(())
}

const OUT: &[PortDoc] = &[PortDoc { name: "out", doc: "every packet" }];

/// Passes on the simulation's packets.
pub(crate) static SEND_TYPE: BlockType =
    block(SEND, "Where a simulated application's datagrams enter the graph.", |_| {
        Ok(Box::new(Send))
    });

/// Hands arriving datagrams over to the owners of their flows.
pub(crate) static LISTEN: BlockType = BlockType {
    spawns: &["datagram"],
    effects: Effects::READS.union(Effects::CONSUMES),
    ..block("SimListen", "Hands datagrams for a simulated application over.", |_| {
        Ok(Box::new(Listen))
    })
};

/// Keeps arriving datagrams.
pub(crate) static KEEP: BlockType = BlockType {
    state: StateKind::Sharded,
    ..block("SimKeep", "Keeps datagrams for a simulated application.", keep)
};

type Make = fn(&Build<'_>) -> Result<Box<dyn Block>, BuildError>;

const fn block(name: &'static str, summary: &'static str, make: Make) -> BlockType {
    BlockType {
        name,
        summary,
        ports: OUT,
        spawns: &[],
        notifies: &[],
        effects: Effects::READS.union(Effects::NEEDS_BUFFER),
        state: StateKind::Replicated,
        params: &[],
        counters: &[],
        make,
    }
}

struct Send;

impl Block for Send {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

struct Listen;

impl Block for Listen {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

struct Keep {
    inbox: Arc<Inbox>,
    flows: HashMap<FlowKey, Kept>,
}

/// A flow, and how many datagrams of it have come.
#[derive(Clone, Copy)]
struct Kept {
    ends: FlowEnds,
    datagrams: u64,
}

fn keep(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let inbox = build.env::<Inbox>("the simulated host's inbox")?;
    Ok(Box::new(Keep { inbox, flows: HashMap::new() }))
}

/// The flow of a peer's datagrams to a port.
pub(crate) fn flow_key(peer: SocketAddr, port: u16) -> FlowKey {
    let address = match peer.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let halves = [(address.to_bits() >> 64) as u64, address.to_bits() as u64];
    let ports = u64::from(peer.port()) << 16 | u64::from(port);
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    FlowKey::of_hash(halves.into_iter().chain([ports]).fold(1, mix))
}

fn flow(datagram: &Datagram) -> FlowKey {
    flow_key(datagram.from, datagram.port)
}

impl Block for Keep {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for task in bits(input) {
            let Some(datagram) = burst.get(task).and_then(|packet| read(packet, cx.now)) else {
                ports.enable(0, 1 << task);
                continue;
            };
            let flow = flow(&datagram);
            let known = self.flows.contains_key(&flow);
            if !known && let FlowClaim::Elsewhere(_) = cx.claim_flow(flow) {
                cx.send_to_owner(task, flow);
                continue;
            }
            // The address of the host's end is of no interest to the filters here.
            let local = SocketAddr::from(([0; 4], datagram.port));
            let ends = FlowEnds { key: flow, protocol: UDP_NUMBER, local, remote: datagram.from };
            let kept = self.flows.entry(flow).or_insert(Kept { ends, datagrams: 0 });
            let datagram = Datagram { serial: kept.datagrams, worker: cx.worker, ..datagram };
            kept.datagrams += 1;
            self.inbox.lock().push(datagram);
            ports.enable(0, 1 << task);
        }
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        read(packet, 0).as_ref().map(flow)
    }

    /// In one part: there are few.
    fn list_flows(&self, _: usize, list: &mut Vec<FlowEnds>) -> Option<usize> {
        list.extend(self.flows.values().map(|kept| kept.ends));
        None
    }

    fn export_flow(&mut self, key: FlowKey) -> Option<State> {
        self.flows.remove(&key).map(|kept| Box::new(kept) as State)
    }

    fn import_flow(&mut self, key: FlowKey, state: State) -> Result<(), State> {
        self.flows.insert(key, *state.downcast::<Kept>()?);
        Ok(())
    }
}

fn source(packet: &Buffer, at: u16) -> Option<IpAddr> {
    if packet.array_at::<1>(at)?[0] >> 4 == 6 {
        return packet.array_at(at).map(Ipv6Header::of).map(|header| header.src().into());
    }
    packet.array_at(at).map(Ipv4Header::of).map(|header| header.src().into())
}

fn read(packet: &Buffer, at: Nanos) -> Option<Datagram> {
    let meta = packet.meta();
    let udp = packet.array_at(meta.l4).map(UdpHeader::of)?;
    let from = source(packet, meta.l3)?;
    let start = usize::from(meta.l4 - packet.head()) + HEADER_LEN;
    let end = usize::from(meta.end - packet.head());
    let payload = packet.data().get(start..end)?.to_vec();
    let from = SocketAddr::new(from, udp.src_port());
    Some(Datagram { at, from, port: udp.dst_port(), payload, serial: 0, worker: 0 })
}
