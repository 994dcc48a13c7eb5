//! The sockets of simulated hosts, as blocks in place of applications.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_block::{Block, BlockType, Build, BuildError, Cx, PortDoc, Ports, StateKind};
use weever_graph::{Attr, Effects, Graph, Node, NodeKind, Port};
use weever_packet::{Buffer, Burst, Mask, Nanos, bits};
use weever_wire::ipv4::Ipv4Header;
use weever_wire::ipv6::Ipv6Header;
use weever_wire::udp::{HEADER_LEN, UdpHeader};

/// The first node of the host's own packets.
pub(crate) const SEND: &str = "SimSend";
/// The node that is made to keep the datagrams it gets.
const KEEPER: &str = "RxL4UDPDiscard";
/// The next node in sending.
const UDP: &str = "TxL4UDPAllocateHeader";

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
    let (keeper, udp) = (graph.find(KEEPER)?, graph.find(UDP)?);
    graph.node_mut(keeper).implementation = Some(KEEP.name.into());
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

/// Keeps arriving datagrams.
pub(crate) static KEEP: BlockType =
    block("SimKeep", "Keeps datagrams for a simulated application.", keep);

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

struct Keep(Arc<Inbox>);

fn keep(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    Ok(Box::new(Keep(build.env::<Inbox>("the simulated host's inbox")?)))
}

impl Block for Keep {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let mut inbox = self.0.lock();
        for task in bits(input) {
            let read = burst.get(task).and_then(|packet| read(packet, cx.now));
            inbox.extend(read);
        }
        ports.enable(0, input);
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
    Some(Datagram { at, from, port: udp.dst_port(), payload })
}
