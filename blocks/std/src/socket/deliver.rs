//! From the graph to the applications' link.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, BuildError, Burst, Cx, MARKS, Made, Mask, PortDoc, Ports,
    tasks_marked,
};
use weever_graph::Effects;
use weever_wire::udp::HEADER_LEN;

use super::Applications;
use super::demux::record_ends;
use crate::headers::{hop_limit, traffic_class};

/// Hands datagrams to the applications' link.
pub static DELIVER: BlockType = BlockType {
    effects: MARKS.union(Effects::CONSUMES),
    ..BlockType::new(
        "SocketDeliver",
        "Records both ends of a datagram and where its payload is, and hands it to the applications' link.",
        &[PortDoc { name: "drop", doc: "no whole UDP header" }],
        |build| make(build.env.get()),
    )
};

fn make(applications: Option<Arc<Applications>>) -> Made {
    Ok::<_, BuildError>(Box::new(Deliver { link: applications.map(|a| a.link) }))
}

struct Deliver {
    /// `None`: there are no applications, and nothing is found for them.
    link: Option<u16>,
}

impl Block for Deliver {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let Some(link) = self.link else {
            ports.enable(0, input);
            return;
        };
        let recorded = tasks_marked(burst, input, record);
        cx.transmit(link, recorded);
        ports.enable(0, input & !recorded);
    }
}

/// Leaves the packet's bounds alone: a capture may look at it in the same batch.
fn record(packet: &mut Buffer) -> bool {
    let (Some(ttl), Some(tos)) = (hop_limit(packet), traffic_class(packet)) else { return false };
    let payload = packet.meta().l4.checked_add(HEADER_LEN as u16);
    let Some(payload) = payload.filter(|start| *start <= packet.meta().end) else { return false };
    let recorded = record_ends(packet, ttl, tos);
    packet.meta_mut().l4 = payload;
    recorded
}
