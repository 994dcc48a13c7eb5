//! Transmit: from a datagram that is too long to its fragments, by the path MTUs that errors teach.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    Priority, READS, StateKind, bits, tasks_where,
};
use weever_graph::Effects;
use weever_net::fragment::{Idents, Split, SplitError, split_v4, split_v6};
use weever_net::iface::IfaceId;
use weever_net::pmtu::{SentPacket, TooBig};
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::icmpv4::{HEADER_LEN, IcmpHeader, kind, unreachable};
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::ipv6::{self, Ipv6Header};
use weever_wire::tcp::put_checksum;
use weever_wire::{checksum, udp};

use crate::host::{PathReader, Paths, Secret, StateReader};
use crate::kinds::{between, interface, network};

const OUT: usize = 0;
const FORBIDDEN: usize = 1;
const NOBUFFER: usize = 2;
const DROP: usize = 3;

/// The source of identifications for all blocks of a host, also those that come with a later graph.
#[derive(Debug, Default)]
struct Identifications(OnceLock<Arc<Idents>>);

/// The identifications of a host, from which all its blocks take.
fn identifications(build: &Build<'_>) -> Arc<Idents> {
    let secret = build.env.get_or_default::<Secret>();
    let idents = build.env.get_or_default::<Identifications>();
    let new = || Arc::new(Idents::new(secret.random("ip identification")));
    Arc::clone(idents.0.get_or_init(new))
}

/// Cuts datagrams up.
pub static FRAGMENT_OUT_V4: BlockType = BlockType {
    spawns: &["fragment"],
    effects: READS.union(Effects::STATEFUL).union(Effects::WRITES),
    state: StateKind::Replicated,
    params: &[ParamDoc {
        name: "identify",
        default: "yes",
        doc: "whether the datagram is ours and gets an identification; `no`: it is forwarded and \
              has one",
    }],
    counters: &["fragments"],
    ..BlockType::new(
        "TxL3IPv4Fragment",
        "Copies a datagram that is too long into fragments that the path and a frame can take \
         (RFC 791 §3.2, RFC 6864).",
        &[
            PortDoc { name: "out", doc: "its fragments are on their way, all of them" },
            PortDoc { name: "forbidden", doc: "it may not be cut, and is too long" },
            PortDoc { name: "nobuffer", doc: "not enough buffers; none was sent" },
            PortDoc { name: "drop", doc: "it cannot be cut" },
        ],
        make,
    )
};

/// Cuts packets of IPv6 up; only their source may.
pub static FRAGMENT_OUT_V6: BlockType = BlockType {
    name: "TxL3IPv6Fragment",
    summary: "Copies a packet of ours that is too long into fragments that the path and a frame can \
              take (RFC 8200 §4.5, RFC 7739).",
    ..FRAGMENT_OUT_V4
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let identify: String = build.param("identify")?;
    let identify = match identify.as_str() {
        "yes" => true,
        "no" => false,
        other => return Err(build.bad_param("identify", other, "use yes or no")),
    };
    Ok(Box::new(Fragment {
        state: network(build)?.reader(),
        paths: build.env.get_or_default::<Paths>().reader(),
        idents: identifications(build),
        identify,
        parts: Vec::with_capacity(64),
    }))
}

struct Fragment {
    state: StateReader,
    paths: PathReader,
    idents: Arc<Idents>,
    identify: bool,
    /// Fragments of the datagram that is being cut; empty between two.
    parts: Vec<Buffer>,
}

impl Block for Fragment {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for task in bits(input) {
            let port = burst.get_mut(task).map_or(DROP, |packet| {
                complete_checksum(packet);
                self.cut(cx, packet)
            });
            ports.enable(port, 1 << task);
        }
    }
}

/// A link that was to complete the checksum will see only pieces.
fn complete_checksum(packet: &mut Buffer) {
    let flags = packet.meta().flags;
    if !flags.has(Flags::PARTIAL_CHECKSUM) {
        return;
    }
    packet.meta_mut().flags = flags.without(Flags::PARTIAL_CHECKSUM);
    let (next, start) = transport(packet.data());
    match (next, packet.data_mut().get_mut(start..)) {
        (protocol::UDP, Some(datagram)) => udp::complete(datagram),
        // The pseudo-header's sum stands in the field.
        (protocol::TCP, Some(segment)) => put_checksum(segment, !checksum::sum(segment)),
        _ => {}
    }
}

/// The transport of a packet of ours, and where it begins.
fn transport(packet: &[u8]) -> (u8, usize) {
    match (Ipv4Header::first(packet), Ipv6Header::first(packet)) {
        (Some(header), _) if header.version() == 4 => (header.protocol(), header.header_len()),
        (_, Some(header)) => (header.next_header(), ipv6::HEADER_LEN),
        _ => (0, 0),
    }
}

impl Fragment {
    fn cut(&mut self, cx: &mut Cx<'_>, packet: &Buffer) -> usize {
        let datagram = packet.data();
        if datagram.first().is_some_and(|byte| byte >> 4 == 6) {
            return self.cut_v6(cx, packet);
        }
        let Some(header) = Ipv4Header::first(datagram) else { return DROP };
        let (src, dst) = (IpAddr::V4(header.src()), IpAddr::V4(header.dst()));
        let mtu = self.mtu(packet, dst).min(cx.room());
        let ident = self.identify.then(|| self.idents.take(src, dst, header.protocol()) as u16);
        match split_v4(datagram, mtu, ident) {
            Ok(split) => self.send(cx, split, packet),
            Err(SplitError::Forbidden) => FORBIDDEN,
            Err(_) => DROP,
        }
    }

    fn cut_v6(&mut self, cx: &mut Cx<'_>, packet: &Buffer) -> usize {
        let Some(header) = Ipv6Header::first(packet.data()) else { return DROP };
        let (src, dst) = (IpAddr::V6(header.src()), IpAddr::V6(header.dst()));
        let link = self.state.load().mtu6(IfaceId(packet.meta().iface)).into();
        let mtu = (self.paths.load().mtu(dst, link) as usize).min(cx.room());
        match split_v6(packet.data(), mtu, self.idents.take(src, dst, 0)) {
            Ok(split) => self.send(cx, split, packet),
            Err(_) => DROP,
        }
    }

    fn mtu(&mut self, packet: &Buffer, dst: IpAddr) -> usize {
        let state: &NetState = self.state.load();
        let link = interface(state, packet).map_or(0, |iface| u32::from(iface.mtu));
        self.paths.load().mtu(dst, link) as usize
    }

    /// All or nothing: a datagram of which a fragment is missing only costs the receiver memory.
    fn send(&mut self, cx: &mut Cx<'_>, mut split: Split<'_>, packet: &Buffer) -> usize {
        let max = split.max_len() as u16;
        for _ in 0..split.count() {
            let Some(part) = cx.alloc().and_then(|part| fill(part, &mut split, max)) else {
                self.parts.drain(..).for_each(|part| cx.free(part));
                return NOBUFFER;
            };
            self.parts.push(part);
        }
        cx.count(0, self.parts.len() as u64);
        for mut part in self.parts.drain(..) {
            let start = part.head();
            let meta = part.meta_mut();
            *meta = *packet.meta();
            meta.l3 = start;
            cx.spawn_new(0, Some(part), 0, Priority::High);
        }
        OUT
    }
}

/// The next fragment in a fresh buffer.
fn fill(mut part: Buffer, split: &mut Split<'_>, max: u16) -> Option<Buffer> {
    let start = part.head();
    if !part.set_bounds(start, start.saturating_add(max)) {
        return None;
    }
    let len = split.next(part.data_mut())?;
    part.truncate(len);
    Some(part)
}

/// Learns path MTUs of IPv4.
pub static PATH_MTU_V4: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::new(
        "RxL3ICMPPathMtu",
        "Learns a path's MTU from an ICMP \"fragmentation needed\", if it can be believed \
         (RFC 1191).",
        &[
            PortDoc { name: "out", doc: "learned: later datagrams to there are shorter" },
            PortDoc {
                name: "drop",
                doc: "not believed, nothing new, or the table was in use: the next large packet causes another",
            },
        ],
        |build| {
            let state = network(build)?.reader();
            Ok(Box::new(PathMtu { state, paths: build.env.get_or_default() }))
        },
    )
};

struct PathMtu {
    state: StateReader,
    paths: Arc<Paths>,
}

impl Block for PathMtu {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let learned =
            tasks_where(burst, input, |packet| learn(state, &self.paths, packet, cx.now).is_some());
        ports.enable(0, learned);
        ports.enable(1, input & !learned);
    }
}

fn learn(state: &NetState, paths: &Paths, packet: &Buffer, now: Nanos) -> Option<u32> {
    let meta = packet.meta();
    let message = between(packet, meta.l4, meta.end);
    let icmp = IcmpHeader::first(message)?;
    let quoted = Ipv4Header::at(message, HEADER_LEN)?;
    let too_big =
        (icmp.kind(), icmp.code()) == (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED);
    if !too_big || !state.is_ours(quoted.src()) {
        return None;
    }
    let route = state.route4(quoted.dst())?;
    let link = state.interface(route.iface)?.mtu.into();
    let transport = message.get(HEADER_LEN + quoted.header_len()..)?.first_chunk::<4>()?;
    let [a, b, c, d] = *transport;
    let packet = SentPacket {
        src: IpAddr::V4(quoted.src()),
        dst: IpAddr::V4(quoted.dst()),
        protocol: quoted.protocol(),
        ports: (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        length: quoted.total_len() as u32,
        fragment: quoted.is_fragment(),
    };
    let mtu = icmp.mtu().into();
    let said = TooBig { packet, dont_fragment: quoted.dont_fragment(), mtu };
    paths.learn(said, link, now)
}
