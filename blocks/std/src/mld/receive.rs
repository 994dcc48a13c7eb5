//! Received queries and reports.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::ipv6::{Chain, addr::is_link_local};
use weever_wire::icmpv6::kind;
use weever_wire::ipv6::Ipv6Header;
use weever_wire::mld::{MldQuery, V1_LEN};

use crate::igmp::Groups6;
use crate::kinds::between;

const OUT: usize = 0;
const REMOTE: usize = 1;
const MALFORMED: usize = 2;
const DROP: usize = 3;

/// Takes MLD messages, whose checksum was verified.
pub static RECEIVE: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::new(
        "MldReceive",
        "Takes queries, and other hosts' reports of the older version (RFC 3810 §6.2, §8.2).",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "remote", doc: "not from the link, or without the router alert" },
            PortDoc { name: "malformed", doc: "too short" },
            PortDoc { name: "drop", doc: "nothing that a host has to know" },
        ],
        |build| Ok(Box::new(Receive { groups: build.env.get_or_default() })),
    )
};

struct Receive {
    groups: Arc<Groups6>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for task in bits(input) {
            let port = burst.get(task).map_or(DROP, |packet| take(&self.groups, packet, cx.now));
            ports.enable(port, 1 << task);
        }
    }
}

fn take(groups: &Groups6, packet: &Buffer, now: Nanos) -> usize {
    if !is_local(packet) {
        return REMOTE;
    }
    let meta = packet.meta();
    let message = between(packet, meta.l4, meta.end);
    let mut inner = groups.lock();
    let Some(memberships) = inner.at(meta.iface) else { return DROP };
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

/// RFC 3810 §6.2: "If any of these checks fails, the packet is dropped": from a link-local address,
/// with a hop limit of 1, and with the router alert option, so that no node beyond the link can query.
fn is_local(packet: &Buffer) -> bool {
    let meta = packet.meta();
    let Some(ip) = packet.array_at(meta.l3).map(Ipv6Header::of) else { return false };
    let chain = Chain::walk(between(packet, meta.l3, meta.end));
    is_link_local(ip.src()) && ip.hop_limit() == 1 && chain.is_ok_and(|chain| chain.router_alert)
}
