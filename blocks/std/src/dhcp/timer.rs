//! The timer of DHCP clients, which sends their messages.

use std::sync::Arc;

use weever_block::{Block, BlockType, Buffer, Build, BuildError, Cx, PortDoc, Priority, StateKind};
use weever_graph::Effects;
use weever_net::arp;
use weever_net::dhcp4::{CLIENT_PORT, Event, Output, SERVER_PORT, Transmit};
use weever_net::iface::IfaceId;
use weever_net::udp::{Endpoint, Flow, HEADERS_LEN, emit_headers};
use weever_packet::{Endpoints, Flags};
use weever_wire::MacAddr;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;

use super::Dhcp;
use super::clients::Own;
use super::clients::{bind, unbind};
use crate::host::{Changes, Network, Secret};
use crate::kinds::network;
use crate::kinds::{PeriodicTask, period, periodic};

const BROADCAST: usize = 0;
const UNICAST: usize = 1;
const PROBE: usize = 2;
const AGAIN: usize = 3;

const MESSAGES: usize = 0;
const PROBES: usize = 1;
const BOUND: usize = 2;
const LOST: usize = 3;

/// Bytes of the longest message that a client sends, headers included.
const MAX_DATAGRAM: u16 = 600;

/// Has clients send, probe, bind and give up.
pub static TIMER: BlockType = BlockType {
    spawns: &["broadcast", "unicast", "probe", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("50", "milliseconds between two looks at the clients")],
    counters: &["messages", "probes", "bound", "lost"],
    ..BlockType::new(
        "DhcpTimer",
        "Sends the messages of DHCP clients, probes offered addresses, and changes the \
         host's network by their leases.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let timer = Timer {
        host: network(build)?,
        dhcp: build.env.get_or_default(),
        secret: *build.env.get_or_default::<Secret>(),
    };
    periodic(build, AGAIN, timer)
}

struct Timer {
    host: Arc<Network>,
    dhcp: Arc<Dhcp>,
    secret: Secret,
}

impl PeriodicTask for Timer {
    fn run_due(&mut self, cx: &mut Cx<'_>) {
        if !self.dhcp.is_active() {
            return;
        }
        let state = self.host.state();
        let mac_of = |iface| state.interface(iface).map(|iface| iface.mac);
        // Somebody else changes the network or has the clients: at the next look.
        let Some(mut changes) = self.host.try_changes() else { return };
        let Some(mut clients) = self.dhcp.try_lock() else { return };
        for own in clients.iter_mut() {
            if let Some(mac) = mac_of(own.iface) {
                self.turn(cx, &mut changes, own, mac);
            }
        }
        self.dhcp.publish(&mut clients, mac_of);
    }
}

impl Timer {
    /// Everything up to the first message: actions behind a message may take its address away,
    /// which waits until it is out.
    fn turn(&self, cx: &mut Cx<'_>, changes: &mut Changes<'_>, own: &mut Own, mac: MacAddr) {
        while let Some(output) = own.ready(mac, self.secret, cx.now).poll(cx.now) {
            match output {
                Output::Send(transmit) => return send(cx, own.iface, &transmit),
                Output::Probe(ip) => probe(cx, own.iface, mac, ip),
                Output::Event(Event::Bound(lease)) => {
                    let (iface, applied) = (own.iface, own.applied.clone());
                    changes.ask(move |net| bind(net, iface, &lease, &applied));
                    cx.count(BOUND, 1);
                }
                Output::Event(Event::Lost(lease)) => {
                    let (iface, applied) = (own.iface, own.applied.clone());
                    changes.ask(move |net| unbind(net, iface, &lease, &applied));
                    cx.count(LOST, 1);
                }
            }
        }
    }
}

/// Without a buffer the message counts as lost; the client repeats it.
fn send(cx: &mut Cx<'_>, iface: IfaceId, transmit: &Transmit) {
    let Some(mut buffer) = cx.alloc() else { return };
    let direct = transmit.dst.is_broadcast();
    let written =
        if direct { datagram(&mut buffer, transmit) } else { payload(&mut buffer, transmit) };
    if !written {
        return cx.free(buffer);
    }
    let head = buffer.head();
    let meta = buffer.meta_mut();
    (meta.iface, meta.flags) = (iface.0, meta.flags.with(Flags::ENDPOINTS));
    (meta.l3, meta.ethertype) = (head, ethertype::IPV4);
    meta.endpoints = Endpoints {
        local: Endpoints::mapped(transmit.src.to_bits()),
        remote: Endpoints::mapped(transmit.dst.to_bits()),
        local_port: CLIENT_PORT,
        remote_port: SERVER_PORT,
        protocol: protocol::UDP,
        next_mac: MacAddr::BROADCAST.0,
        ..Endpoints::default()
    };
    cx.count(MESSAGES, 1);
    cx.spawn_new(if direct { BROADCAST } else { UNICAST }, Some(buffer), 0, Priority::High);
}

/// A whole datagram: there may be no address, and so no route, to build one with.
fn datagram(buffer: &mut Buffer, transmit: &Transmit) -> bool {
    let start = buffer.head();
    if !buffer.set_bounds(start, start + MAX_DATAGRAM) {
        return false;
    }
    let Ok(len) = transmit.emit(&mut buffer.data_mut()[HEADERS_LEN..]) else { return false };
    buffer.truncate(HEADERS_LEN + len);
    let local = Endpoint { addr: transmit.src, port: CLIENT_PORT };
    let remote = Endpoint { addr: transmit.dst, port: SERVER_PORT };
    emit_headers(buffer.data_mut(), Flow { local, remote }).is_ok()
}

fn payload(buffer: &mut Buffer, transmit: &Transmit) -> bool {
    let start = buffer.head();
    if !buffer.set_bounds(start, start + MAX_DATAGRAM) {
        return false;
    }
    let Ok(len) = transmit.emit(buffer.data_mut()) else { return false };
    buffer.truncate(len);
    true
}

fn probe(cx: &mut Cx<'_>, iface: IfaceId, mac: MacAddr, ip: std::net::Ipv4Addr) {
    let Some(mut buffer) = cx.alloc() else { return };
    let nobody = std::net::Ipv4Addr::UNSPECIFIED;
    crate::arp::address(
        &mut buffer,
        iface.0,
        &arp::Transmit::request(MacAddr::BROADCAST, mac, nobody, ip),
    );
    cx.count(PROBES, 1);
    cx.spawn_new(PROBE, Some(buffer), 0, Priority::High);
}
