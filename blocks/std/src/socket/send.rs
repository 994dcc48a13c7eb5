//! From the applications' link into the graph.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, PortDoc, Ports, Priority, bits,
};
use weever_net::demux::FlowKey;
use weever_net::iface::IfaceId;
use weever_net::route::{Hop, Kind};
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};

use super::Applications;
use crate::host::StateReader;
use crate::kinds::network;
use crate::tee::copy;

/// Where applications' datagrams enter.
pub static SEND: BlockType = BlockType {
    effects: MARKS,
    spawns: &["copy"],
    counters: &["copies", "copies_lost"],
    ..BlockType::new(
        "SocketSend",
        "Gives applications' datagrams their source address, and copies those to groups and to \
         everybody for members of this host.",
        &[
            PortDoc { name: "out", doc: "with both addresses" },
            PortDoc { name: "foreign", doc: "the source is not an address of ours" },
            PortDoc { name: "unreachable", doc: "no route, or none of our addresses fits" },
            PortDoc { name: "stream", doc: "without octets: applications ask something of TCP" },
        ],
        |build| {
            let state = network(build)?.reader();
            Ok(Box::new(Send { state, applications: build.env.get() }))
        },
    )
};

const OUT: usize = 0;
const FOREIGN: usize = 1;
const UNREACHABLE: usize = 2;
const STREAM: usize = 3;
/// IP protocol number of TCP.
const TCP: u8 = 6;

struct Send {
    state: StateReader,
    applications: Option<Arc<Applications>>,
}

impl Block for Send {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            if packet.meta().endpoints.protocol == TCP {
                ports.enable(STREAM, 1 << task);
                continue;
            }
            let port = match address(state, packet) {
                Ok(to_many) => {
                    let meta = packet.meta_mut();
                    let comes_back = to_many && meta.flags.has(Flags::TO_SELF);
                    meta.flags = meta.flags.without(Flags::TO_SELF);
                    if comes_back && has_members(self.applications.as_deref(), cx.worker, packet) {
                        send_to_self(cx, packet);
                    }
                    OUT
                }
                Err(port) => port,
            };
            ports.enable(port, 1 << task);
        }
    }
}

/// Whether a socket here wants packets to this destination.
#[cold]
fn has_members(applications: Option<&Applications>, worker: u16, packet: &Buffer) -> bool {
    let table = applications.and_then(|a| a.tables.get(usize::from(worker)));
    let Some(table) = table else { return false };
    let meta = packet.meta();
    let ends = &meta.endpoints;
    let key = FlowKey {
        local_addr: ends.remote,
        remote_addr: ends.local,
        local_port: ends.remote_port,
        remote_port: ends.local_port,
        interface: meta.iface,
    };
    let mut any = false;
    table.borrow().for_each(&key, |_| any = true);
    any
}

#[cold]
fn send_to_self(cx: &mut Cx<'_>, packet: &Buffer) {
    match copy(cx, packet) {
        Some(mut copy) => {
            let meta = copy.meta_mut();
            meta.flags = meta.flags.with(Flags::TO_SELF);
            cx.spawn_new(0, Some(copy), 0, Priority::High);
            cx.count(0, 1);
        }
        None => cx.count(1, 1),
    }
}

/// Checks the source address, or fills it in, and the interface of a packet to many. Returns
/// whether it goes to many, or the port by which it leaves instead.
#[inline]
fn address(state: &NetState, packet: &mut Buffer) -> Result<bool, usize> {
    match packet.meta().endpoints.is_v4() {
        true => address4(state, packet),
        false => address6(state, packet),
    }
}

fn address4(state: &NetState, packet: &mut Buffer) -> Result<bool, usize> {
    let meta = packet.meta_mut();
    let chosen = IfaceId(meta.iface);
    let ends = &mut meta.endpoints;
    let remote = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let local = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let hop = state.route4(remote).filter(|hop| leads_on(hop, chosen)).ok_or(UNREACHABLE)?;
    let to_many = matches!(hop.kind, Kind::Multicast | Kind::Broadcast);
    let iface = if chosen == IfaceId::NONE { hop.iface } else { chosen };
    if local.is_unspecified() {
        let source = match hop.kind {
            Kind::Local => remote,
            _ if iface != hop.iface => state.source4(iface, remote).ok_or(UNREACHABLE)?,
            _ => hop.source,
        };
        ends.local = Endpoints::mapped(source.to_bits());
    } else if !state.is_ours(local) {
        return Err(FOREIGN);
    }
    meta.iface = iface.0;
    Ok(to_many)
}

fn address6(state: &NetState, packet: &mut Buffer) -> Result<bool, usize> {
    let meta = packet.meta_mut();
    let ends = &mut meta.endpoints;
    let (remote, local) = (Ipv6Addr::from(ends.remote), Ipv6Addr::from(ends.local));
    let mut chosen = IfaceId(meta.iface);
    if chosen == IfaceId::NONE && remote.is_multicast() {
        // RFC 4007 §6: the default zone of a group is the host's choice.
        let all = state.config().interfaces();
        let first = all.iter().find(|iface| iface.up && iface.v6_settings.enabled);
        chosen = first.map(|iface| iface.id).ok_or(UNREACHABLE)?;
    }
    let hop = state.hop6(chosen, remote).filter(|hop| leads_on(hop, chosen)).ok_or(UNREACHABLE)?;
    if local.is_unspecified() {
        let source = match hop.kind {
            Kind::Local => Some(remote),
            _ => state.source6(hop.iface, remote),
        };
        ends.local = source.map(|ip| ip.octets()).ok_or(UNREACHABLE)?;
    } else {
        let has = |iface: IfaceId| state.is_ours6(iface, local);
        if !state.config().interfaces().iter().any(|iface| has(iface.id)) {
            return Err(FOREIGN);
        }
    }
    meta.iface = hop.iface.0;
    Ok(hop.kind == Kind::Multicast)
}

/// Whether packets of such a route go somewhere, by the interface that was chosen if there is one.
fn leads_on<A>(hop: &Hop<A>, chosen: IfaceId) -> bool {
    let blocked =
        matches!(hop.kind, Kind::Martian | Kind::Unreachable | Kind::Prohibited | Kind::Blackhole);
    let elsewhere = hop.kind == Kind::Unicast && chosen != IfaceId::NONE && chosen != hop.iface;
    !blocked && !elsewhere
}
