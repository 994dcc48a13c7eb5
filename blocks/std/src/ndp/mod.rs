#![doc = include_str!("README.md")]

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, PortDoc, Ports, READS, StateKind,
    bits, validator,
};
use weever_graph::Effects;
use weever_net::ndp::{Outcome, Received, Reject, Transmit};
use weever_packet::{Endpoints, Flags, NO_IFACE};
use weever_wire::ipv6::Ipv6Header;
use weever_wire::ndp::NdpRepr;

use crate::host::{Key6, NeighbourKey, Neighbours6, V6};
use crate::kinds::{LOOK_AGAIN, between, period};
use crate::neighbour::lookup::{lookup, ports};
use crate::neighbour::{Protocol, make as make_timer, neighbours, send};

/// Bytes of the longest message that is sent: a solicitation with link address and nonce.
const LONGEST: usize = 40;
/// RFC 4861: the hop limit of every message, by which its receiver knows that no router forwarded it.
const HOP_LIMIT: u8 = 255;

const PORTS: [PortDoc; 4] = ports("the interface is down, gone or does not speak IPv6");

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = lookup::<V6>("TxL3NDLookup_", &PORTS);

/// Repeats solicitations, probes addresses, solicits routers, and wakes packets that wait.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "send", "announce"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("10", "milliseconds between two looks at the IPv6 neighbours")],
    counters: &["solicitations", "announcements"],
    ..BlockType::new(
        "TxL3NDTimer",
        "Asks for neighbours in use, for our own addresses before we use them, and for routers; \
         announces our addresses; ages what they said, and wakes packets whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make_timer::<V6>,
    )
};

/// Where messages start: whole, with their checksum, and with their addresses in the metadata.
pub static SEND: BlockType =
    BlockType::validator("TxL3NDPSend", "Where neighbour discovery's own messages start.", |_| {
        validator(|p| p.meta().flags.has(Flags::ENDPOINTS))
    });

impl Protocol for V6 {
    const WHAT: &'static str = "the IPv6 neighbours";

    #[inline(always)]
    fn next_hop(packet: &Buffer) -> Key6 {
        let meta = packet.meta();
        debug_assert!(meta.iface != NO_IFACE);
        Key6::new(meta.iface, Ipv6Addr::from_octets(meta.endpoints.next_hop))
    }

    fn write(buffer: &mut Buffer, iface: u16, sent: &Transmit) -> bool {
        if !message(buffer, sent) {
            return false;
        }
        let meta = buffer.meta_mut();
        let station = sent.mac.map_or(Flags::NONE, |_| Flags::NEXT_MAC);
        (meta.iface, meta.flags) = (iface, meta.flags.with(Flags::ENDPOINTS).with(station));
        meta.endpoints = Endpoints {
            local: sent.src.octets(),
            remote: sent.dst.octets(),
            next_hop: sent.dst.octets(),
            next_mac: sent.mac.unwrap_or_default().0,
            protocol: weever_wire::ipv6::next_header::ICMPV6,
            ttl: HOP_LIMIT,
            ..Endpoints::default()
        };
        true
    }

    /// RFC 4861 §7.2.6: the timer sends no other advertisements.
    fn is_announcement(sent: &Transmit) -> bool {
        matches!(sent.message, NdpRepr::NeighbourAdvert { .. })
    }
}

fn message(buffer: &mut Buffer, transmit: &Transmit) -> bool {
    let len = transmit.message.buffer_len();
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&transmit.src.octets());
    addresses[16..].copy_from_slice(&transmit.dst.octets());
    len <= LONGEST
        && buffer.append(&[0; LONGEST][..len])
        && transmit.message.emit(buffer.data_mut(), &addresses).is_ok()
}

const RESPONSE: usize = 0;
/// The spawn edge back to the block, for messages that come while another worker has access to the neighbours.
const AGAIN: usize = 1;
const DOWN: usize = 9;

/// Learns from neighbour discovery messages, and answers them.
pub static HANDLE: BlockType = BlockType {
    spawns: &["response", "again"],
    notifies: &["resolved"],
    effects: READS.union(Effects::STATEFUL).union(Effects::CONSUMES),
    state: StateKind::Replicated,
    counters: &["adverts", "learned", "redirects", "lowhoplimit"],
    ..BlockType::new(
        "RxL3NDPHandle",
        "Learns from neighbour discovery messages: link addresses, routers, prefixes, and \
         conflicts over our addresses. Answers solicitations for us.",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "malformed", doc: "cut short, or an option without a length" },
            PortDoc { name: "addresses", doc: "between impossible addresses" },
            PortDoc { name: "notours", doc: "between others" },
            PortDoc { name: "conflict", doc: "another station uses one of our addresses" },
            PortDoc { name: "loop", doc: "our own message came back" },
            PortDoc { name: "limited", doc: "too many came lately" },
            PortDoc { name: "refused", doc: "a router's advice that is not wanted" },
            PortDoc { name: "full", doc: "no room for another router, prefix or address" },
            PortDoc { name: "down", doc: "the interface does not speak IPv6" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let neighbours = neighbours::<V6>(build)?;
    Ok(Box::new(Handle { neighbours, resolved: Vec::with_capacity(64) }))
}

struct Handle {
    neighbours: Arc<Neighbours6>,
    resolved: Vec<u64>,
}

/// The message of a packet, as neighbour discovery wants it.
fn received(packet: &Buffer) -> Option<Received<'_>> {
    let meta = packet.meta();
    let ip = packet.array_at(meta.l3).map(Ipv6Header::of)?;
    let message = between(packet, meta.l4, meta.end);
    Some(Received { src: ip.src(), dst: ip.dst(), message })
}

impl Block for Handle {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let Some(mut session) = self.neighbours.try_session(cx.now) else {
            return cx.spawn_later(AGAIN, input, LOOK_AGAIN);
        };
        for task in bits(input) {
            let Some(packet) = burst.get(task) else { continue };
            let (iface, queue) = (packet.meta().iface, packet.meta().queue);
            let handled = received(packet).and_then(|r| session.handle(iface, &r, cx.now));
            match handled {
                Some(Ok(outcome)) => {
                    act(cx, (&self.neighbours, &mut self.resolved), (iface, queue), &outcome);
                    ports.enable(0, 1 << task);
                }
                Some(Err(why)) => ports.enable(port_of(why), 1 << task),
                None => ports.enable(DOWN, 1 << task),
            }
        }
        // Packets that wake up must find the new address published.
        drop(session);
        self.resolved.drain(..).for_each(|key| cx.notify(0, key));
    }
}

fn act(
    cx: &mut Cx<'_>,
    (neighbours, resolved): (&Neighbours6, &mut Vec<u64>),
    (iface, queue): (u16, u16),
    outcome: &Outcome,
) {
    if let Some(reply) = &outcome.reply
        && send::<V6>(cx, RESPONSE, (iface, queue), reply)
    {
        cx.count(0, 1);
    }
    if let Some(learned) = outcome.learned {
        cx.count(1, 1);
        let key = neighbours.wait_key(Key6::new(iface, learned.ip));
        resolved.extend(learned.resolves.then_some(key));
    }
    cx.count(2, outcome.redirect.is_some().into());
    cx.count(3, outcome.low_hop_limit.into());
}

fn port_of(why: Reject) -> usize {
    match why {
        Reject::Malformed => 1,
        Reject::Addresses => 2,
        Reject::NotOurs => 3,
        Reject::Conflict => 4,
        Reject::Loop => 5,
        Reject::Limited => 6,
        Reject::NotAccepted => 7,
        Reject::Full => 8,
        _ => DOWN,
    }
}
