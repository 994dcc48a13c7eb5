//! Transmit: the route, then the header. Who the packet goes to is in its metadata.

use std::net::Ipv4Addr;

use weever_blocks_api::{Block, BlockType, Buffer, Burst, Cx, Mask, PortDoc, Ports};
use weever_graph::Effects;
use weever_net::ipv4::{HEADER_LEN, template};
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_wire::WireError;
use weever_wire::ethernet::ethertype;

use crate::check::{
    Change, MARKS, boolean, interface, network, reader, record, tasks_marked, tasks_where,
};
use crate::headers::push;
use crate::host::StateReader;

/// Finds the next hop.
pub static ROUTING: BlockType = BlockType {
    effects: MARKS,
    ..boolean(
        "TxL3IPv4Routing",
        "Is there a route? Records the interface and the next hop, and our address where none was \
         chosen.",
        |build| record(build, route),
    )
};

#[inline]
fn route(state: &NetState, packet: &mut Buffer) -> bool {
    let meta = packet.meta_mut();
    let ends = &mut meta.endpoints;
    let remote = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    // A host neither sends to itself through its link, nor to all as an answer to one.
    let single = state.route4(remote).filter(|hop| hop.kind == Kind::Unicast);
    let Some(hop) = single.filter(|_| meta.flags.has(Flags::ENDPOINTS)) else { return false };
    meta.iface = hop.iface.0;
    ends.next_hop = Endpoints::mapped(hop.neighbour(remote).to_bits());
    if Endpoints::v4(&ends.local) == 0 {
        ends.local = Endpoints::mapped(hop.source.to_bits());
    }
    true
}

/// Makes room for the header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL3IPv4AllocateHeader",
        "Makes room for the IPv4 header, if the datagram fits the link.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "toolong", doc: "longer than the interface's MTU" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |build| Ok(Box::new(AllocateHeader { state: network(build)?.reader() })),
    )
};

struct AllocateHeader {
    state: StateReader,
}

impl Block for AllocateHeader {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let fitting = tasks_where(burst, input, |packet| {
            let mtu = interface(state, packet).map_or(0, |iface| usize::from(iface.mtu));
            packet.len() + HEADER_LEN <= mtu
        });
        let done = tasks_marked(burst, fitting, |packet| push(packet, HEADER_LEN as u16));
        ports.enable(0, done);
        ports.enable(1, input & !fitting);
        ports.enable(2, fitting & !done);
    }
}

/// Writes the header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES),
    ..reader(
        "TxL3IPv4FillHeader",
        "Writes the IPv4 header from the metadata: whole, not to be fragmented.",
        &[
            PortDoc { name: "out", doc: "written" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        |_| Ok(Box::new(Change(|p: &mut Buffer| fill(p).is_ok()))),
    )
};

#[inline]
fn fill(packet: &mut Buffer) -> Result<(), WireError> {
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    let head = packet.head();
    let meta = packet.meta_mut();
    (meta.l3, meta.ethertype) = (head, ethertype::IPV4);
    let ends = &meta.endpoints;
    let src = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let dst = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let mut repr = template(src, dst, ends.protocol, payload_len);
    repr.tos = ends.tos;
    if ends.ttl != 0 {
        repr.ttl = ends.ttl;
    }
    repr.emit(packet.data_mut())
}
