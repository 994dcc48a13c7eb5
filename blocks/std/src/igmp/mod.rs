#![doc = include_str!("README.md")]

pub use crate::groups::{Groups, Groups6, GroupsOf, Listening};

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
    validator,
};
use weever_graph::Effects;
use weever_net::ipv4::multicast_mac;
use weever_packet::Endpoints;
use weever_wire::checksum;
use weever_wire::ethernet::ethertype;
use weever_wire::igmp::{IgmpQuery, V2_LEN, checksum_ok, kind};
use weever_wire::ipv4::protocol;

use crate::groups::Inner;
use crate::groups::timer::{ReportFormat, make};
use crate::icmp::message;
use crate::kinds::{LOOK_AGAIN, period};

const OUT: usize = 0;
const MALFORMED: usize = 1;
const DROP: usize = 2;

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType =
    BlockType::validator("RxL3IGMPValidChecksum", "Is the message's checksum right?", |_| {
        validator(|packet| checksum_ok(message(packet)))
    });

/// Takes IGMP messages that are from the link, as the graph has found.
pub static RECEIVE: BlockType = BlockType {
    spawns: &["again"],
    effects: READS.union(Effects::STATEFUL).union(Effects::CONSUMES),
    state: StateKind::Replicated,
    ..BlockType::new(
        "IgmpReceive",
        "Takes queries, and other hosts' reports of older versions (RFC 3376 §7).",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "malformed", doc: "a query of an impossible length" },
            PortDoc { name: "drop", doc: "no groups on the interface, or another kind of message" },
        ],
        |build| Ok(Box::new(Receive { groups: build.env.get_or_default() })),
    )
};

struct Receive {
    groups: Arc<Groups>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        // While another worker or a caller has access, messages come here again.
        let Some(mut groups) = self.groups.try_lock() else {
            return cx.spawn_later(0, input, LOOK_AGAIN);
        };
        for task in bits(input) {
            let port = burst.get(task).map_or(DROP, |packet| take(&mut groups, packet, cx.now));
            ports.enable(port, 1 << task);
        }
    }
}

fn take(groups: &mut Inner<Ipv4Addr>, packet: &Buffer, now: Nanos) -> usize {
    let (iface, message) = (packet.meta().iface, message(packet));
    match message.first() {
        Some(&kind::QUERY) => {
            let Ok(query) = IgmpQuery::parse(message) else { return MALFORMED };
            let Some(memberships) = groups.at(iface) else { return DROP };
            memberships.query(query.into(), query.sources.iter(), now);
            OUT
        }
        Some(&(kind::V1_REPORT | kind::V2_REPORT)) => {
            let group = message.get(4..V2_LEN).and_then(|group| group.first_chunk::<4>());
            let Some(group) = group else { return MALFORMED };
            let Some(memberships) = groups.at(iface) else { return DROP };
            memberships.receive_report(Ipv4Addr::from(*group), now);
            OUT
        }
        _ => DROP,
    }
}

/// RFC 3376 §4: "Internetwork Control" precedence.
const TOS: u8 = 0xc0;

/// Sends reports.
pub static TIMER: BlockType = BlockType {
    spawns: &["report", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("50", "milliseconds between two checks for due reports")],
    counters: &["reports"],
    ..BlockType::new(
        "IgmpTimer",
        "Reports which groups the host's interfaces listen to: changes at once, and answers to \
         queriers after a random delay (RFC 3376 §5).",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make::<Ipv4Addr>,
    )
};

impl ReportFormat for Ipv4Addr {
    const HEADER_LEN: usize = 24;

    /// RFC 3376 §4: a time to live of 1, and a router alert option (RFC 2113).
    fn header(packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) {
        let [high, low] = (packet.len() as u16).to_be_bytes();
        let header = &mut packet[..Self::HEADER_LEN];
        let fixed = [0x46, TOS, high, low, 0, 0, 0x40, 0, 1, protocol::IGMP, 0, 0];
        header[..12].copy_from_slice(&fixed);
        header[12..16].copy_from_slice(&src.octets());
        header[16..20].copy_from_slice(&dst.octets());
        header[20..24].copy_from_slice(&[148, 4, 0, 0]);
        let check = checksum::finish(checksum::sum(header));
        header[10..12].copy_from_slice(&check.to_be_bytes());
    }

    fn ends(src: Ipv4Addr, dst: Ipv4Addr) -> (u16, Endpoints) {
        let ends = Endpoints {
            local: Endpoints::mapped(src.to_bits()),
            remote: Endpoints::mapped(dst.to_bits()),
            protocol: protocol::IGMP,
            next_mac: multicast_mac(dst).0,
            ..Endpoints::default()
        };
        (ethertype::IPV4, ends)
    }
}
