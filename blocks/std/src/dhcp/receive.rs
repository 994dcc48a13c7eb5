//! Received server messages, and conflicts over an address that is being probed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
    tasks_where,
};
use weever_graph::Effects;
use weever_net::dhcp4::SERVER_PORT;
use weever_net::iface::IfaceId;
use weever_wire::arp::{ArpView, op};
use weever_wire::dhcp4::DhcpView;
use weever_wire::udp::{HEADER_LEN, UdpHeader};

use super::Dhcp;
use super::clients::{Transaction, Watched};
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
            PortDoc {
                name: "drop",
                doc: "no answer to a question of ours, or the clients were in use: ours repeats it",
            },
        ],
        |build| {
            let dhcp: Arc<Dhcp> = build.env.get_or_default();
            Ok(Box::new(Receive { open: dhcp.open(), dhcp }))
        },
    )
};

struct Receive {
    dhcp: Arc<Dhcp>,
    open: arc_swap::Cache<Arc<ArcSwap<Vec<Transaction>>>, Arc<Vec<Transaction>>>,
}

impl Block for Receive {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let open = self.open.load();
        let taken = tasks_where(burst, input, |packet| take(&self.dhcp, open, packet, cx.now));
        ports.enable(0, taken);
        ports.enable(1, input & !taken);
    }
}

fn take(dhcp: &Dhcp, open: &[Transaction], packet: &Buffer, now: Nanos) -> bool {
    let meta = packet.meta();
    let segment = between(packet, meta.l4, meta.end);
    let from_server = UdpHeader::first(segment).is_some_and(|udp| udp.src_port() == SERVER_PORT);
    let message = segment.get(HEADER_LEN..).unwrap_or_default();
    let Ok(view) = DhcpView::new(message) else { return false };
    if !from_server || !open.contains(&(meta.iface, view.header().xid())) {
        return false;
    }
    // As good as lost on its way: the client asks again.
    let Some(mut clients) = dhcp.try_lock() else { return false };
    let own = clients.iter_mut().find(|own| own.iface == IfaceId(meta.iface));
    let client = own.and_then(|own| own.client.as_mut());
    client.is_some_and(|client| client.handle(message, now).is_ok())
}

/// Looks for the owners of addresses that are being probed.
pub static WATCH: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["conflicts"],
    ..BlockType::new(
        "DhcpWatch",
        "Tells a DHCP client that the address it probes is another station's, or probed by one \
         (RFC 5227 §2.1.1).",
        &[PortDoc { name: "out", doc: "every packet" }],
        |build| {
            let dhcp: Arc<Dhcp> = build.env.get_or_default();
            Ok(Box::new(Watch { watched: dhcp.watched() }))
        },
    )
};

struct Watch {
    watched: arc_swap::Cache<Arc<ArcSwap<Vec<Watched>>>, Arc<Vec<Watched>>>,
}

impl Block for Watch {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let watched = self.watched.load();
        if !watched.is_empty() {
            for packet in bits(input).filter_map(|task| burst.get(task)) {
                for watched in watched.iter().filter(|watched| contests(packet, watched)) {
                    cx.count(0, 1);
                    watched.contested.note(watched.ip);
                }
            }
        }
        ports.enable(0, input);
    }
}

/// RFC 5227 §2.1.1: an ARP packet "where the packet's 'sender IP address' is the address being
/// probed for", or another station's probe for it.
fn contests(packet: &Buffer, watched: &Watched) -> bool {
    let &Watched { iface, ip, mac, .. } = watched;
    let meta = packet.meta();
    if meta.iface != iface {
        return false;
    }
    let Ok(arp) = ArpView::new(packet.at(meta.l3)) else { return false };
    let header = arp.header();
    let probe = header.op() == op::REQUEST && header.spa().is_unspecified() && header.tpa() == ip;
    header.sha() != mac && (header.spa() == ip || probe)
}
