//! Errors about datagrams of applications, on their way to them.

use std::net::IpAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, BuildError, Burst, Cx, MARKS, Mask, PortDoc, Ports, tasks_marked,
};
use weever_graph::Effects;
use weever_net::demux::{FlowKey, SocketTable};
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_net::{icmp, icmp6};
use weever_packet::{Endpoints, Flags};
use weever_wire::ipv4::protocol;
use weever_wire::udp::UdpHeader;
use weever_wire::{icmpv4, icmpv6};

use super::Applications;
use crate::headers::{is_v6, reversed};
use crate::host::StateReader;
use crate::kinds::{between, network};

/// Hands ICMP errors to the socket that they concern.
pub static ERROR: BlockType = BlockType {
    effects: MARKS.union(Effects::CONSUMES),
    ..BlockType::new(
        "SocketError",
        "Tells an application's socket of an ICMP error about a datagram that it could have sent \
         (RFC 1122 §4.1.3.3, RFC 5927 §4.1).",
        &[PortDoc { name: "miss", doc: "it concerns no socket" }],
        |build| {
            let state = network(build)?.reader();
            Ok(Box::new(Tell { state, applications: build.env.get() }))
        },
    )
};

/// Tells an application that its datagram was too long.
pub static REFUSED: BlockType = BlockType {
    effects: MARKS.union(Effects::CONSUMES),
    ..BlockType::new(
        "SocketRefused",
        "Tells an application that its datagram was longer than the path takes, and that \
         fragmenting it is forbidden (`EMSGSIZE`).",
        &[PortDoc { name: "drop", doc: "there are no applications" }],
        |build| {
            let applications: Option<Arc<Applications>> = build.env.get();
            Ok::<_, BuildError>(Box::new(Refused { link: applications.map(|a| a.link) }))
        },
    )
};

struct Tell {
    state: StateReader,
    applications: Option<Arc<Applications>>,
}

impl Block for Tell {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let table = self.applications.as_ref().and_then(|applications| {
            Some((applications.link, applications.tables.get(usize::from(cx.worker))?.borrow()))
        });
        let Some((link, table)) = table.filter(|(_, table)| !table.is_empty()) else {
            ports.enable(0, input);
            return;
        };
        let state = self.state.load();
        let told = tasks_marked(burst, input, |packet| tell(state, &table, cx.worker, packet));
        cx.transmit(link, told);
        ports.enable(0, input & !told);
    }
}

/// The facts that an error states about a datagram: its ends as its sender sees them, errno and
/// MTU.
struct Said {
    local: IpAddr,
    remote: IpAddr,
    ports: (u16, u16),
    errno: u16,
    mtu: u16,
}

/// Marks an error for its socket; false when it concerns none.
fn tell(state: &NetState, table: &SocketTable, worker: u16, packet: &mut Buffer) -> bool {
    let iface = packet.meta().iface;
    let said = if is_v6(packet) { said6(state, packet) } else { said4(state, packet) };
    let Some(Said { local, remote, ports, errno, mtu }) = said else { return false };
    let key = FlowKey::new((local, ports.0), (remote, ports.1), iface);
    let Some(socket) = table.find(&key, worker) else { return false };
    let Some(sender) = reversed(packet).map(|(_, sender)| sender) else { return false };
    // The message stays in the packet, for applications that want all of it.
    let message = if is_v6(packet) { protocol::ICMPV6 } else { protocol::ICMP };
    let meta = packet.meta_mut();
    meta.flags = Flags::ENDPOINTS.with(Flags::ERROR);
    (meta.entry, meta.vlan, meta.segment) = (socket.id, errno, mtu);
    meta.endpoints = Endpoints {
        local: key.local_addr,
        remote: key.remote_addr,
        local_port: key.local_port,
        remote_port: key.remote_port,
        protocol: message,
        next_hop: sender,
        ..Endpoints::default()
    };
    true
}

fn said4(state: &NetState, packet: &Buffer) -> Option<Said> {
    let message = between(packet, packet.meta().l4, packet.meta().end);
    let error = icmp::check_error(message, state).ok()?;
    let udp = UdpHeader::first(error.transport())?;
    (error.protocol() == protocol::UDP).then_some(Said {
        local: error.local.into(),
        remote: error.remote.into(),
        ports: (udp.src_port(), udp.dst_port()),
        errno: errno4(error.kind, error.code),
        mtu: error.mtu,
    })
}

fn said6(state: &NetState, packet: &Buffer) -> Option<Said> {
    let message = between(packet, packet.meta().l4, packet.meta().end);
    let iface = IfaceId(packet.meta().iface);
    let error = icmp6::check_error(message, |ip| state.is_ours6(iface, ip)).ok()?;
    let is_too_big = error.kind == icmpv6::kind::PACKET_TOO_BIG;
    (error.protocol == protocol::UDP).then_some(())?;
    Some(Said {
        local: error.local.into(),
        remote: error.remote.into(),
        ports: error.ports?,
        errno: errno6(error.kind, error.code),
        mtu: if is_too_big { error.value.min(u16::MAX.into()) as u16 } else { 0 },
    })
}

// Linux's numbers, as applications know them.
const EACCES: u16 = 13;
const EPROTO: u16 = 71;
const EMSGSIZE: u16 = 90;
const ENOPROTOOPT: u16 = 92;
const EOPNOTSUPP: u16 = 95;
const ENETUNREACH: u16 = 101;
const ECONNREFUSED: u16 = 111;
const EHOSTDOWN: u16 = 112;
const EHOSTUNREACH: u16 = 113;

/// The errno of an ICMP error, as Linux has it.
fn errno4(kind: u8, code: u8) -> u16 {
    match (kind, code) {
        (icmpv4::kind::UNREACHABLE, 0 | 6 | 9 | 11) => ENETUNREACH,
        (icmpv4::kind::UNREACHABLE, 2) => ENOPROTOOPT,
        (icmpv4::kind::UNREACHABLE, 3) => ECONNREFUSED,
        (icmpv4::kind::UNREACHABLE, 4) => EMSGSIZE,
        (icmpv4::kind::UNREACHABLE, 5) => EOPNOTSUPP,
        (icmpv4::kind::UNREACHABLE, 7) => EHOSTDOWN,
        (icmpv4::kind::PARAMETER_PROBLEM, _) => EPROTO,
        _ => EHOSTUNREACH,
    }
}

/// The errno of an ICMPv6 error, as Linux has it.
fn errno6(kind: u8, code: u8) -> u16 {
    match (kind, code) {
        (icmpv6::kind::UNREACHABLE, 0) => ENETUNREACH,
        (icmpv6::kind::UNREACHABLE, 1 | 5 | 6) => EACCES,
        (icmpv6::kind::UNREACHABLE, 4) => ECONNREFUSED,
        (icmpv6::kind::PACKET_TOO_BIG, _) => EMSGSIZE,
        (icmpv6::kind::PARAMETER_PROBLEM, _) => EPROTO,
        _ => EHOSTUNREACH,
    }
}

struct Refused {
    link: Option<u16>,
}

impl Block for Refused {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let Some(link) = self.link else {
            ports.enable(0, input);
            return;
        };
        let told = tasks_marked(burst, input, |packet| {
            let meta = packet.meta_mut();
            meta.flags = meta.flags.with(Flags::ERROR);
            meta.vlan = EMSGSIZE;
            true
        });
        cx.transmit(link, told);
        ports.enable(0, input & !told);
    }
}
