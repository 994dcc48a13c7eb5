//! Receive: header, checksum (RFC 9293 §3.1), and the way to the endpoint for segments and for ICMP errors
//! about them.

use std::net::{IpAddr, SocketAddr};

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, FlowKey, MARKS, Mask, PortDoc, Ports, Priority, READS,
    bits, tasks_marked,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::random::Key;
use weever_net::state::NetState;
use weever_net::{icmp, icmp6};
use weever_packet::{Endpoints, Flags};
use weever_tcp::Tuple;
use weever_wire::checksum::Pseudo;
use weever_wire::icmpv6;
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::ipv6::{Chain, Ipv6Header};
use weever_wire::tcp::{TcpHeader, TcpView};

use crate::headers::{is_v6, reversed};
use crate::host::{Secret, StateReader};
use crate::kinds::{between, network};

/// The segment of a received packet; nothing if its options do not end within it.
#[inline]
pub(super) fn view(packet: &Buffer) -> Option<TcpView<'_>> {
    TcpView::new(between(packet, packet.meta().l4, packet.meta().end)).ok()
}

/// Is the checksum right or partial?
pub static VALID_CHECKSUM: BlockType = BlockType {
    effects: MARKS,
    counters: &["partial"],
    ..BlockType::validator(
        "RxL4TCPValidChecksum",
        "Is the checksum right, or partial where the link allows that?",
        |_| Ok(Box::new(ValidChecksum)),
    )
};

struct ValidChecksum;

impl Block for ValidChecksum {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let mut partial = 0;
        let right = tasks_marked(burst, input, |packet| match judge(packet) {
            Checksum::Right => true,
            Checksum::Wrong => false,
            Checksum::Partial => {
                partial += 1;
                let meta = packet.meta_mut();
                meta.flags = meta.flags.with(Flags::PARTIAL_CHECKSUM);
                true
            }
        });
        cx.count(0, partial);
        ports.decide(input, right);
    }
}

enum Checksum {
    Right,
    /// Left by the sender's kernel to a device that never saw the packet.
    Partial,
    Wrong,
}

#[inline]
fn judge(packet: &Buffer) -> Checksum {
    let meta = packet.meta();
    if meta.flags.has(Flags::CHECKSUM_VERIFIED) {
        return Checksum::Right;
    }
    let segment = between(packet, meta.l4, meta.end);
    let (Some(pseudo), Some(header)) = (pseudo(packet, segment.len()), TcpHeader::first(segment))
    else {
        return Checksum::Wrong;
    };
    if meta.flags.has(Flags::MAY_BE_PARTIAL) && pseudo.is_partial(header.checksum()) {
        Checksum::Partial
    } else if pseudo.verifies(segment) {
        Checksum::Right
    } else {
        Checksum::Wrong
    }
}

/// Whether header and checksum are as they should be. A partial checksum is not: the block counts those.
#[inline]
pub(crate) fn is_sound(packet: &Buffer) -> bool {
    let segment = between(packet, packet.meta().l4, packet.meta().end);
    TcpHeader::first(segment).is_some() && matches!(judge(packet), Checksum::Right)
}

#[inline]
fn pseudo(packet: &Buffer, len: usize) -> Option<Pseudo> {
    let l3 = packet.meta().l3;
    if is_v6(packet) {
        let ip = packet.array_at(l3).map(Ipv6Header::of)?;
        return Some(Pseudo::v6(&ip.addresses(), protocol::TCP, len as u32));
    }
    let ip = packet.array_at(l3).map(Ipv4Header::of)?;
    Some(Pseudo::v4(&ip.addresses(), protocol::TCP, len as u16))
}

/// Both ends of a received segment.
#[inline]
pub(super) fn tuple(packet: &Buffer) -> Option<Tuple> {
    let (local, remote) = if is_v6(packet) {
        let (local, remote) = reversed(packet)?;
        (address(&local), address(&remote))
    } else {
        let ip = packet.array_at(packet.meta().l3).map(Ipv4Header::of)?;
        (ip.dst().into(), ip.src().into())
    };
    let header = packet.array_at(packet.meta().l4).map(TcpHeader::of)?;
    Some(Tuple { local, remote, local_port: header.dst_port(), remote_port: header.src_port() })
}

/// The use of the key by which flows are named.
pub(super) const FLOWS: &str = "tcp flows";

/// The flow of the connection between these ends, at endpoints under this root key.
pub fn flow_of(secret: &Secret, local: SocketAddr, remote: SocketAddr) -> FlowKey {
    let tuple = Tuple {
        local: local.ip().to_canonical(),
        remote: remote.ip().to_canonical(),
        local_port: local.port(),
        remote_port: remote.port(),
    };
    flow_key(&tuple, secret.key(FLOWS))
}

/// The name of a connection's flow.
pub(super) fn flow_key(tuple: &Tuple, key: Key) -> FlowKey {
    FlowKey::of_hash(tuple.hash(key))
}

/// An address in the form of [`Endpoints`].
#[inline]
pub(super) fn address(bytes: &[u8; 16]) -> IpAddr {
    IpAddr::from(*bytes).to_canonical()
}

/// The same the other way.
#[inline]
pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => Endpoints::mapped(v4.to_bits()),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Ends a segment's task and starts one at the endpoint.
pub static DELIVER: BlockType = BlockType {
    spawns: &["segment"],
    effects: READS.union(Effects::CONSUMES),
    ..BlockType::new(
        "TcpDeliver",
        "Starts a task at the endpoint for each sound segment.",
        &[],
        |_| Ok(Box::new(Deliver)),
    )
};

struct Deliver;

impl Block for Deliver {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

/// Tells the endpoint of ICMP errors.
pub static ERROR: BlockType = BlockType {
    spawns: &["error"],
    counters: &["errors", "lost"],
    ..BlockType::new(
        "TcpError",
        "Tells the TCP endpoint of an ICMP error about a segment that it could have sent (RFC 5927 §4.1).",
        &[PortDoc { name: "out", doc: "every message, since others read it, too" }],
        |build| Ok(Box::new(Tell { state: network(build)?.reader() })),
    )
};

/// An ICMP error about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) tuple: Tuple,
    /// The sequence number of the segment that it quotes.
    pub(super) seq: u32,
    /// The longest packet that the path takes, if that is the error; otherwise the peer cannot be reached.
    pub(super) mtu: Option<u16>,
}

struct Tell {
    state: StateReader,
}

impl Block for Tell {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let (mut told, mut lost) = (0, 0);
        for task in bits(input) {
            let Some(said) = burst.get(task).and_then(|packet| read(state, packet)) else {
                continue;
            };
            match cx.alloc() {
                Some(mut facts) => {
                    said.write(&mut facts);
                    cx.spawn_new(0, Some(facts), 0, Priority::High);
                    told += 1;
                }
                None => lost += 1,
            }
        }
        cx.count(0, told);
        cx.count(1, lost);
        ports.enable(0, input);
    }
}

impl Said {
    /// Into the metadata of a packet without bytes, which is marked as an error.
    fn write(&self, packet: &mut Buffer) {
        let meta = packet.meta_mut();
        meta.flags = Flags::ENDPOINTS.with(Flags::ERROR);
        (meta.entry, meta.segment) = (self.seq, self.mtu.unwrap_or(0));
        meta.endpoints = Endpoints {
            local: octets(self.tuple.local),
            remote: octets(self.tuple.remote),
            local_port: self.tuple.local_port,
            remote_port: self.tuple.remote_port,
            protocol: protocol::TCP,
            ..Endpoints::default()
        };
    }

    /// From there; nothing if it is a segment.
    #[inline]
    pub(super) fn of(packet: &Buffer) -> Option<Said> {
        let meta = packet.meta();
        if !meta.flags.has(Flags::ERROR) {
            return None;
        }
        let ends = &meta.endpoints;
        let tuple = Tuple {
            local: address(&ends.local),
            remote: address(&ends.remote),
            local_port: ends.local_port,
            remote_port: ends.remote_port,
        };
        Some(Said { tuple, seq: meta.entry, mtu: (meta.segment != 0).then_some(meta.segment) })
    }
}

/// The facts of a sound error about a segment from an address of ours.
fn read(state: &NetState, packet: &Buffer) -> Option<Said> {
    let message = between(packet, packet.meta().l4, packet.meta().end);
    let (local, remote, quoted, mtu): (IpAddr, IpAddr, [u8; 8], _) = if is_v6(packet) {
        let iface = IfaceId(packet.meta().iface);
        let error = icmp6::check_error(message, |ip| state.is_ours6(iface, ip)).ok()?;
        let quote = message.get(icmpv6::HEADER_LEN..)?;
        let (_, at) = Chain::skim(quote).filter(|(last, _)| *last == protocol::TCP)?;
        let is_too_big = error.kind == icmpv6::kind::PACKET_TOO_BIG;
        let mtu = is_too_big.then_some(error.value.min(u16::MAX.into()) as u16);
        (error.local.into(), error.remote.into(), *quote.get(at..)?.first_chunk()?, mtu)
    } else {
        let error = icmp::check_error(message, state).ok()?;
        if error.protocol() != protocol::TCP {
            return None;
        }
        // A router older than RFC 1191 states no MTU: what every host takes is right, if slow.
        let mtu = error.is_too_big().then_some(error.mtu.max(576));
        (error.local.into(), error.remote.into(), *error.transport().first_chunk()?, mtu)
    };
    let [a, b, c, d, seq @ ..] = quoted;
    let (local_port, remote_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let tuple = Tuple { local, remote, local_port, remote_port };
    Some(Said { tuple, seq: u32::from_be_bytes(seq), mtu })
}
