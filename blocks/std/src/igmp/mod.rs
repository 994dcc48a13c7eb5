#![doc = include_str!("README.md")]

pub use crate::groups::{Groups, Groups6, GroupsOf, Listening};

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::iface::ALL_HOSTS;
use weever_net::ipv4::multicast_mac;
use weever_net::state::NetState;
use weever_packet::Endpoints;
use weever_wire::checksum;
use weever_wire::ethernet::ethertype;
use weever_wire::igmp::{IgmpQuery, V2_LEN, checksum_ok, kind};
use weever_wire::ipv4::{HEADER_LEN, Ipv4Header, Ipv4Option, Ipv4Options, option_kind, protocol};

use crate::groups::timer::{ReportFormat, make};
use crate::host::StateReader;
use crate::kinds::period;
use crate::kinds::{between, interface, network};

const OUT: usize = 0;
const REMOTE: usize = 1;
const MALFORMED: usize = 2;
const DROP: usize = 3;

/// Takes IGMP messages.
pub static RECEIVE: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::new(
        "IgmpReceive",
        "Takes queries, and other hosts' reports of older versions (RFC 3376 §7).",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc {
                name: "remote",
                doc: "not from the link, without router alert, or misaddressed",
            },
            PortDoc { name: "malformed", doc: "checksum or length is wrong" },
            PortDoc { name: "drop", doc: "nothing that a host has to know" },
        ],
        |build| {
            let state = network(build)?.reader();
            Ok(Box::new(Receive { state, groups: build.env.get_or_default() }))
        },
    )
};

struct Receive {
    state: StateReader,
    groups: Arc<Groups>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        for task in bits(input) {
            let taken = |packet: &Buffer| take(state, &self.groups, packet, cx.now);
            let port = burst.get(task).map_or(DROP, taken);
            ports.enable(port, 1 << task);
        }
    }
}

fn take(state: &NetState, groups: &Groups, packet: &Buffer, now: Nanos) -> usize {
    let meta = packet.meta();
    let message = between(packet, meta.l4, meta.end);
    if !checksum_ok(message) {
        return MALFORMED;
    }
    let Some(envelope) = Envelope::of(state, packet) else { return DROP };
    match message[0] {
        kind::QUERY => {
            let Ok(query) = IgmpQuery::parse(message) else { return MALFORMED };
            if !envelope.may_query(&query) {
                return REMOTE;
            }
            let mut inner = groups.lock();
            let Some(memberships) = inner.at(meta.iface) else { return DROP };
            memberships.query(query.into(), query.sources.iter(), now);
            OUT
        }
        kind::V1_REPORT | kind::V2_REPORT => {
            // RFC 2236 has no version 1 report carry the option, RFC 1112 knows none.
            if !envelope.from_link || message[0] == kind::V2_REPORT && !envelope.alert {
                return REMOTE;
            }
            let Some(group) = message[4..V2_LEN].first_chunk::<4>() else { return MALFORMED };
            let mut inner = groups.lock();
            let Some(memberships) = inner.at(meta.iface) else { return DROP };
            memberships.receive_report(Ipv4Addr::from(*group), now);
            OUT
        }
        _ => DROP,
    }
}

/// The datagram around a message, which reveals a forged one from beyond the link.
struct Envelope {
    dst: Ipv4Addr,
    /// Whether the source is on a subnet of the interface, and no router has forwarded it.
    from_link: bool,
    /// Whether it has a router alert option (RFC 2113).
    alert: bool,
}

impl Envelope {
    fn of(state: &NetState, packet: &Buffer) -> Option<Envelope> {
        let meta = packet.meta();
        let header = Ipv4Header::first(packet.at(meta.l3))?;
        let own = interface(state, packet)?;
        let area = packet.at(meta.l3).get(HEADER_LEN..header.header_len()).unwrap_or_default();
        let alert = |option: Ipv4Option<'_>| option.kind == option_kind::ROUTER_ALERT;
        Some(Envelope {
            dst: header.dst(),
            from_link: header.ttl() == 1 && own.v4.on_link(header.src()),
            alert: Ipv4Options::new(area).any(|option| option.is_ok_and(alert)),
        })
    }

    /// RFC 3376 §9.1, §9.2, as MLD's are judged (RFC 3810 §6.2): from a neighbour, never forwarded, with
    /// the option unless the querier speaks version 1. A general query goes to all hosts, and there is no
    /// other in version 1: anywhere else, one forged query would have all hosts of a group answer or
    /// speak version 1.
    fn may_query(&self, query: &IgmpQuery<'_>) -> bool {
        let old = query.version == 1;
        let general = old || query.group.is_unspecified();
        self.from_link && (old || self.alert) && (!general || self.dst == ALL_HOSTS)
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
