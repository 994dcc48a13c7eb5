#![doc = include_str!("README.md")]

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::ipv6::addr::multicast_mac;
use weever_packet::Endpoints;
use weever_wire::ethernet::ethertype;
use weever_wire::icmpv6::kind;
use weever_wire::ipv6::{HEADER_LEN, next_header};
use weever_wire::mld::{MldQuery, V1_LEN};

use crate::groups::Inner;
use crate::groups::timer::{ReportFormat, make};
use crate::igmp::Groups6;
use crate::kinds::{LOOK_AGAIN, between, period};

const OUT: usize = 0;
const MALFORMED: usize = 1;
const DROP: usize = 2;

/// Takes MLD messages, whose checksum was verified.
pub static RECEIVE: BlockType = BlockType {
    spawns: &["again"],
    effects: READS.union(Effects::STATEFUL).union(Effects::CONSUMES),
    state: StateKind::Replicated,
    ..BlockType::new(
        "MldReceive",
        "Takes queries, and other hosts' reports of the older version (RFC 3810 §6.2, §8.2).",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "malformed", doc: "a query of an impossible length" },
            PortDoc { name: "drop", doc: "no groups on the interface, or another kind of message" },
        ],
        |build| Ok(Box::new(Receive { groups: build.env.get_or_default() })),
    )
};

struct Receive {
    groups: Arc<Groups6>,
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

fn take(groups: &mut Inner<Ipv6Addr>, packet: &Buffer, now: Nanos) -> usize {
    let meta = packet.meta();
    let message = between(packet, meta.l4, meta.end);
    let Some(memberships) = groups.at(meta.iface) else { return DROP };
    match message.first() {
        Some(&kind::MLD_QUERY) => {
            let Ok(query) = MldQuery::parse(message) else { return MALFORMED };
            memberships.query(query.into(), query.sources.iter(), now);
            OUT
        }
        Some(&kind::MLDV1_REPORT) => {
            let group: Option<&[u8; 16]> =
                message.get(8..V1_LEN).and_then(|group| group.first_chunk());
            let Some(group) = group else { return MALFORMED };
            memberships.receive_report(Ipv6Addr::from(*group), now);
            OUT
        }
        _ => DROP,
    }
}

/// The next header, length 8, the router alert option (RFC 2711) of value 0, "MLD", and padding.
const HOP_BY_HOP: [u8; 8] = [next_header::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Sends reports.
pub static TIMER: BlockType = BlockType {
    spawns: &["report", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("50", "milliseconds between two checks for due reports")],
    counters: &["reports"],
    ..BlockType::new(
        "MldTimer",
        "Reports which IPv6 groups the host's interfaces listen to: changes at once, and \
         answers to queriers after a random delay (RFC 3810 §6).",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make::<Ipv6Addr>,
    )
};

impl ReportFormat for Ipv6Addr {
    const HEADER_LEN: usize = HEADER_LEN + HOP_BY_HOP.len();

    /// RFC 3810 §5: a hop limit of 1, and a router alert option in a hop-by-hop header.
    fn header(packet: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
        let [high, low] = ((packet.len() - HEADER_LEN) as u16).to_be_bytes();
        let header = &mut packet[..Self::HEADER_LEN];
        header[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, next_header::HOP_BY_HOP, 1]);
        header[8..24].copy_from_slice(&src.octets());
        header[24..40].copy_from_slice(&dst.octets());
        header[40..].copy_from_slice(&HOP_BY_HOP);
    }

    fn ends(src: Ipv6Addr, dst: Ipv6Addr) -> (u16, Endpoints) {
        let ends = Endpoints {
            local: src.octets(),
            remote: dst.octets(),
            protocol: next_header::ICMPV6,
            next_mac: multicast_mac(dst).0,
            ..Endpoints::default()
        };
        (ethertype::IPV6, ends)
    }
}
