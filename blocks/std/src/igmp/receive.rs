//! Received queries and reports.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
};
use weever_graph::Effects;
use weever_wire::igmp::{IgmpQuery, V2_LEN, checksum_ok, kind};

use super::Groups;
use crate::kinds::between;

const OUT: usize = 0;
const MALFORMED: usize = 1;
const DROP: usize = 2;

/// Takes IGMP messages.
pub static RECEIVE: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::new(
        "IgmpReceive",
        "Takes queries, and other hosts' reports of older versions (RFC 3376 §7).",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "malformed", doc: "checksum or length is wrong" },
            PortDoc { name: "drop", doc: "nothing that a host has to know" },
        ],
        |build| Ok(Box::new(Receive { groups: build.env.get_or_default() })),
    )
};

struct Receive {
    groups: Arc<Groups>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for task in bits(input) {
            let port = burst.get(task).map_or(DROP, |packet| take(&self.groups, packet, cx.now));
            ports.enable(port, 1 << task);
        }
    }
}

fn take(groups: &Groups, packet: &Buffer, now: Nanos) -> usize {
    let meta = packet.meta();
    let message = between(packet, meta.l4, meta.end);
    if !checksum_ok(message) {
        return MALFORMED;
    }
    let mut inner = groups.lock();
    let Some(memberships) = inner.at(meta.iface) else { return DROP };
    match message[0] {
        kind::QUERY => {
            let Ok(query) = IgmpQuery::parse(message) else { return MALFORMED };
            memberships.query(query.into(), query.sources.iter(), now);
            OUT
        }
        kind::V1_REPORT | kind::V2_REPORT => {
            let group: Option<&[u8; 4]> = message[4..V2_LEN].first_chunk();
            group
                .into_iter()
                .for_each(|group| memberships.receive_report(Ipv4Addr::from(*group), now));
            OUT
        }
        _ => DROP,
    }
}
