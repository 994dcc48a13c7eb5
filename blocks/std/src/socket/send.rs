//! From the applications' link into the graph.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_block::{BlockType, Buffer, MARKS, PortDoc};
use weever_net::iface::IfaceId;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::Endpoints;

use crate::kinds::network_classifier;

/// Where applications' datagrams enter.
pub static SEND: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new(
        "SocketSend",
        "Gives applications' datagrams their source address.",
        &[
            PortDoc { name: "out", doc: "with both addresses" },
            PortDoc { name: "foreign", doc: "the source is not an address of ours" },
            PortDoc { name: "unreachable", doc: "no route, or none of our addresses fits" },
        ],
        |build| network_classifier::<3>(build, address),
    )
};

const OUT: usize = 0;
const FOREIGN: usize = 1;
const UNREACHABLE: usize = 2;

/// Checks the source address, or fills it in; says by which port the datagram leaves.
fn address(state: &NetState, packet: &mut Buffer) -> usize {
    let ends = packet.meta().endpoints;
    let source = if ends.is_v4() { source4(state, &ends) } else { source6(state, &ends) };
    match source {
        Ok(local) => {
            packet.meta_mut().endpoints.local = local;
            OUT
        }
        Err(port) => port,
    }
}

fn source4(state: &NetState, ends: &Endpoints) -> Result<[u8; 16], usize> {
    let remote = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let local = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let hop = state.route4(remote).filter(|hop| leads_on(hop.kind)).ok_or(UNREACHABLE)?;
    if local.is_unspecified() {
        return Ok(Endpoints::mapped(hop.source.to_bits()));
    }
    if state.is_ours(local) { Ok(ends.local) } else { Err(FOREIGN) }
}

fn source6(state: &NetState, ends: &Endpoints) -> Result<[u8; 16], usize> {
    let remote = Ipv6Addr::from(ends.remote);
    let local = Ipv6Addr::from(ends.local);
    let hop = state.route6(remote).filter(|hop| leads_on(hop.kind)).ok_or(UNREACHABLE)?;
    if local.is_unspecified() {
        return state.source6(hop.iface, remote).map(|ip| ip.octets()).ok_or(UNREACHABLE);
    }
    let has = |iface: IfaceId| state.is_ours6(iface, local);
    let ours = state.config().interfaces().iter().any(|iface| has(iface.id));
    if ours { Ok(ends.local) } else { Err(FOREIGN) }
}

/// Whether packets of such a route go somewhere.
fn leads_on(kind: Kind) -> bool {
    !matches!(kind, Kind::Martian | Kind::Unreachable | Kind::Prohibited | Kind::Blackhole)
}
