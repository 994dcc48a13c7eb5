#![doc = include_str!("README.md")]

mod association;

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, ParamDoc, PortDoc, Ports,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::ipv4::{HEADER_LEN, Ipv4Header, complete_partial, template};
use weever_net::route::{Hop, Kind};
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_wire::ethernet::ethertype;

use crate::headers::push;
use crate::host::StateReader;
use crate::kinds::network;
use association::{Association, Associations, HEADER, Key, TAG};

const OUT: usize = 0;
const UNROUTED: usize = 1;
const TOO_LONG: usize = 2;
const SPENT: usize = 3;
const MALFORMED: usize = 4;

/// The IP protocol number of ESP.
const ESP: u8 = 50;
/// IPv4 and IPv6 as what ESP carries.
const NEXT_HEADER: [(u8, u8); 2] = [(4, 4), (6, 41)];
/// The counter: bytes of the packets that were encrypted.
const BYTES: usize = 0;

/// The block type.
pub static ENCRYPT: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES).union(Effects::MOVES_HEAD).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[
        ParamDoc { name: "remote", default: "0.0.0.0", doc: "the other end of the tunnel" },
        ParamDoc {
            name: "local",
            default: "0.0.0.0",
            doc: "our end; `0.0.0.0`: the route's source",
        },
        ParamDoc { name: "spi", default: "256", doc: "security parameters index, from 256" },
        ParamDoc {
            name: "key",
            default: "",
            doc: "40 hexadecimal digits, the key and 4 bytes of salt",
        },
        ParamDoc {
            name: "passes",
            default: "1",
            doc: "how often each packet is encrypted, from 1 to 1000; all but the last go nowhere, for \
                  workloads of a chosen cost",
        },
    ],
    counters: &["bytes"],
    ..BlockType::new(
        "EspEncrypt",
        "Puts each datagram into an IPsec tunnel over IPv4 (RFC 4303), encrypted with AES-128-GCM (RFC \
         4106).",
        &[
            PortDoc { name: "out", doc: "encrypted, with its next hop" },
            PortDoc { name: "unrouted", doc: "no route to the other end of the tunnel" },
            PortDoc { name: "toolong", doc: "the next link or the frame has no room for it" },
            PortDoc { name: "spent", doc: "the key has no sequence number left" },
            PortDoc { name: "malformed", doc: "no IP packet" },
        ],
        |build| Ok(Box::new(Encrypt::new(build)?)),
    )
};

struct Encrypt {
    state: StateReader,
    tunnel: Tunnel,
    scratch: Vec<u8>,
}

/// A tunnel: its ends, its key, and how often a packet is encrypted.
struct Tunnel {
    local: Ipv4Addr,
    remote: Ipv4Addr,
    association: Arc<Association>,
    passes: u32,
}

/// How a burst's packets leave: towards the other end of the tunnel.
struct Path {
    hop: Hop<Ipv4Addr>,
    mtu: usize,
    ttl: u8,
}

impl Encrypt {
    fn new(build: &Build<'_>) -> Result<Encrypt, BuildError> {
        let remote: Ipv4Addr = build.param("remote")?;
        if remote.is_unspecified() {
            let problem = "name the other end of the tunnel, as in remote=192.0.2.1";
            return Err(build.bad_param("remote", "0.0.0.0", problem));
        }
        let spi: u32 = build.param("spi")?;
        if spi < 256 {
            return Err(build.bad_param(
                "spi",
                &spi.to_string(),
                "use 256 or more (RFC 4303 §2.1)",
            ));
        }
        let key: String = build.param("key")?;
        // The value itself does not go into logs.
        let key: Key = key.parse().map_err(|problem| build.bad_param("key", "…", problem))?;
        let passes: u32 = build.param("passes")?;
        if !(1..=1000).contains(&passes) {
            return Err(build.bad_param("passes", &passes.to_string(), "use 1 to 1000"));
        }
        let associations = build.env.get_or_default::<Associations>();
        let secret = build.env.get_or_default::<crate::host::Secret>();
        let association = associations.of(remote, spi, &key, &secret);
        let tunnel = Tunnel { local: build.param("local")?, remote, association, passes };
        Ok(Encrypt { state: network(build)?.reader(), tunnel, scratch: Vec::with_capacity(2048) })
    }
}

impl Block for Encrypt {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let Some(path) = path(self.state.load(), self.tunnel.remote) else {
            return ports.enable(UNROUTED, input);
        };
        let path = Path { mtu: path.mtu.min(cx.room()), ..path };
        // One step on the shared counter for all of them; what is dropped leaves a gap.
        let mut number = self.tunnel.association.numbers(input.count_ones());
        let (mut by, mut bytes) = ([0; 5], 0);
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else {
                by[MALFORMED] |= 1 << task;
                continue;
            };
            let (this, length) = (number, packet.len() as u64);
            number += 1;
            let port = self.tunnel.send(packet, &path, this, &mut self.scratch);
            bytes += if port == OUT { length } else { 0 };
            by[port] |= 1 << task;
        }
        cx.count(BYTES, bytes);
        by.into_iter().enumerate().for_each(|(port, tasks)| ports.enable(port, tasks));
    }
}

/// The way to the other end, if there is one.
fn path(state: &NetState, remote: Ipv4Addr) -> Option<Path> {
    let hop = *state.route4(remote).filter(|hop| hop.kind == Kind::Unicast)?;
    let mtu = usize::from(state.interface(hop.iface)?.mtu);
    Some(Path { hop, mtu, ttl: state.settings().default_ttl })
}

impl Tunnel {
    /// Encrypts a packet and gives it its outer header and its next hop; returns its port. One that does
    /// not leave by [`OUT`] stays as it was.
    fn send(&self, packet: &mut Buffer, path: &Path, number: u64, scratch: &mut Vec<u8>) -> usize {
        let first = packet.data().first().copied().unwrap_or_default();
        let carried = NEXT_HEADER.into_iter().find(|(version, _)| *version == first >> 4);
        let (Some((version, next_header)), Some(second)) = (carried, packet.data().get(1)) else {
            return MALFORMED;
        };
        // RFC 4301 §5.1.2.1; RFC 6040 §4.1 for the bits of congestion notification.
        let tos = if version == 4 { *second } else { first << 4 | second >> 4 };
        let Some(number) = u32::try_from(number).ok() else { return SPENT };
        let mut trailer = [0; 5];
        let trailer = padding(packet.len(), next_header, &mut trailer);
        let front = HEADER_LEN + HEADER;
        let whole = front + packet.len() + trailer.len() + TAG;
        let room = usize::from(packet.head()) >= front && packet.tailroom() >= trailer.len() + TAG;
        if whole > path.mtu || !room {
            return TOO_LONG;
        }
        complete_checksum(packet);
        let fits = packet.append(trailer);
        debug_assert!(fits, "there is room for the trailer");
        for _ in 1..self.passes {
            scratch.clear();
            scratch.extend_from_slice(packet.data());
            std::hint::black_box(self.association.seal(number, scratch));
        }
        let (header, tag) = self.association.seal(number, packet.data_mut());
        let fits = packet.append(&tag) && push(packet, front as u16);
        debug_assert!(fits, "there is room for tag and headers");
        packet.data_mut()[HEADER_LEN..front].copy_from_slice(&header);
        self.address(packet, path, tos);
        OUT
    }

    /// Writes the outer header and records where the packet goes.
    fn address(&self, packet: &mut Buffer, path: &Path, tos: u8) {
        let local = if self.local.is_unspecified() { path.hop.source } else { self.local };
        let length = (packet.len() - HEADER_LEN) as u16;
        let mut outer = template(local, self.remote, ESP, length);
        (outer.tos, outer.ttl) = (tos, path.ttl);
        let written = outer.emit(packet.data_mut());
        debug_assert!(written.is_ok(), "there is room for the header");
        let (head, end) = (packet.head(), packet.head() + packet.len() as u16);
        let meta = packet.meta_mut();
        (meta.l3, meta.l4, meta.end) = (head, head + HEADER_LEN as u16, end);
        (meta.ethertype, meta.segment, meta.iface) = (ethertype::IPV4, 0, path.hop.iface.0);
        meta.endpoints.next_hop = Endpoints::mapped(path.hop.neighbour(self.remote).to_bits());
    }
}

/// The bytes behind the packet: padding that counts up from 1 to a multiple of four, its length, and the
/// number of what it carries (RFC 4303 §2.4).
fn padding(length: usize, next_header: u8, trailer: &mut [u8; 5]) -> &[u8] {
    let pad = (length + 2).wrapping_neg() % 4;
    *trailer = [1, 2, 3, 0, 0];
    (trailer[pad], trailer[pad + 1]) = (pad as u8, next_header);
    &trailer[..pad + 2]
}

/// The link would not find the checksum that it is to complete.
fn complete_checksum(packet: &mut Buffer) {
    let meta = packet.meta_mut();
    if !meta.flags.has(Flags::PARTIAL_CHECKSUM) {
        return;
    }
    meta.flags = meta.flags.without(Flags::PARTIAL_CHECKSUM);
    let Some((header, rest)) = packet.data_mut().split_first_chunk_mut::<HEADER_LEN>() else {
        return;
    };
    let header = Ipv4Header::of(header);
    if let Some(segment) = rest.get_mut(header.header_len().saturating_sub(HEADER_LEN)..) {
        complete_partial(header, segment);
    }
}

#[cfg(test)]
mod tests;
