//! What servers say.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, tasks_where,
};
use weever_graph::Effects;
use weever_net::dhcp4::SERVER_PORT;
use weever_net::iface::IfaceId;
use weever_wire::udp::{HEADER_LEN, UdpHeader};

use super::Dhcp;
use crate::kinds::between;

/// Hands a server's answer to the client of the interface that it came by.
pub static RECEIVE: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::new(
        "DhcpReceive",
        "Hands a DHCP server's answer to the client of the interface that it came by.",
        &[
            PortDoc { name: "out", doc: "taken" },
            PortDoc { name: "drop", doc: "no answer to a question of ours" },
        ],
        |build| Ok(Box::new(Receive { dhcp: build.env.get_or_default() })),
    )
};

struct Receive {
    dhcp: Arc<Dhcp>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let taken = tasks_where(burst, input, |packet| take(&self.dhcp, packet, cx.now));
        ports.enable(0, taken);
        ports.enable(1, input & !taken);
    }
}

fn take(dhcp: &Dhcp, packet: &Buffer, now: Nanos) -> bool {
    let meta = packet.meta();
    let segment = between(packet, meta.l4, meta.end);
    let from_server = UdpHeader::first(segment).is_some_and(|udp| udp.src_port() == SERVER_PORT);
    let message = segment.get(HEADER_LEN..).unwrap_or_default();
    let mut clients = dhcp.lock();
    let own = clients.iter_mut().find(|own| own.iface == IfaceId(meta.iface));
    let client = own.and_then(|own| own.client.as_mut()).filter(|_| from_server);
    client.is_some_and(|client| client.handle(message, now).is_ok())
}
