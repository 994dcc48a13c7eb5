//! Messages of routers about datagrams that were too long.

use std::net::IpAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, tasks_where,
};
use weever_graph::Effects;
use weever_net::pmtu::{SentPacket, TooBig};
use weever_net::state::NetState;
use weever_wire::icmpv4::{HEADER_LEN, IcmpHeader, kind, unreachable};
use weever_wire::ipv4::Ipv4Header;

use crate::host::{Paths, StateReader};
use crate::kinds::{between, network};

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
            PortDoc { name: "drop", doc: "not believed, or nothing new" },
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
    paths.learn(said, link, now).ok()
}
