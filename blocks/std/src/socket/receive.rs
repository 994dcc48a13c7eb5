//! Received datagrams on their way to applications: their socket is found, and they are handed to the
//! applications' link.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, BuildError, Burst, Cx, MARKS, Made, Mask, PortDoc, Ports, Priority,
    bits, tasks_marked,
};
use weever_graph::Effects;
use weever_net::demux::{FlowKey, SocketTable};
use weever_packet::{Endpoints, Flags};
use weever_wire::udp::{HEADER_LEN, UdpHeader};

use super::Applications;
use crate::headers::{flow_label, hop_limit, reversed, traffic_class};
use crate::tee::copy;

/// Looks datagrams up.
pub static DEMUX: BlockType = BlockType {
    spawns: &["copy"],
    effects: MARKS,
    counters: &["copies", "copies_lost"],
    ..BlockType::new(
        "SocketDemux",
        "Finds the application's socket that a datagram is for.",
        &[
            PortDoc { name: "found", doc: "its number is in the metadata's `entry`" },
            PortDoc { name: "miss", doc: "no application's" },
        ],
        |build| Ok(Box::new(Demux { applications: build.env.get() })),
    )
};

struct Demux {
    applications: Option<Arc<Applications>>,
}

impl Block for Demux {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let table = self.applications.as_ref().and_then(|a| a.tables.get(usize::from(cx.worker)));
        let Some(table) = table else {
            ports.enable(1, input);
            return;
        };
        let table = table.borrow();
        if table.is_empty() {
            ports.enable(1, input);
            return;
        }
        let mut found = 0;
        let mut last: Option<(FlowKey, u32)> = None;
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let Some(key) = key(packet) else { continue };
            let everybody = packet.meta().flags.has(Flags::LINK_BROADCAST) || key.is_to_group();
            let socket = match last {
                // Neighbours in a burst are often of one flow.
                Some((of, socket)) if of == key && !everybody => Some(socket),
                _ if everybody => first_of_all(cx, &table, &key, packet),
                _ => table.find(&key, cx.worker).map(|socket| socket.id),
            };
            let Some(socket) = socket else { continue };
            last = (!everybody).then_some((key, socket));
            packet.meta_mut().entry = socket;
            found |= 1 << task;
        }
        ports.enable(0, found);
        ports.enable(1, input & !found);
    }
}

/// The first socket that wants a datagram to a group or a broadcast address; the others get copies.
fn first_of_all(
    cx: &mut Cx<'_>,
    table: &SocketTable,
    key: &FlowKey,
    packet: &Buffer,
) -> Option<u32> {
    let (mut first, mut copies, mut lost) = (None, 0, 0);
    table.for_each(key, |socket| {
        if first.is_none() {
            first = Some(socket.id);
            return;
        }
        match copy(cx, packet) {
            Some(mut copy) => {
                copy.meta_mut().entry = socket.id;
                cx.spawn_new(0, Some(copy), 0, Priority::High);
                copies += 1;
            }
            None => lost += 1,
        }
    });
    cx.count(0, copies);
    cx.count(1, lost);
    first
}

/// Both ends of a received datagram; nothing without an IP and a UDP header.
#[inline]
fn key(packet: &Buffer) -> Option<FlowKey> {
    let (local_addr, remote_addr) = reversed(packet)?;
    let udp = packet.array_at(packet.meta().l4).map(UdpHeader::of)?;
    Some(FlowKey {
        local_addr,
        remote_addr,
        local_port: udp.dst_port(),
        remote_port: udp.src_port(),
        interface: packet.meta().iface,
    })
}

/// Records both ends of a received datagram in its metadata, as an application learns them.
#[inline]
fn record_ends(packet: &mut Buffer, ttl: u8, tos: u8) -> bool {
    let Some(key) = key(packet) else { return false };
    let flow_label = flow_label(packet);
    let meta = packet.meta_mut();
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    meta.endpoints = Endpoints {
        local: key.local_addr,
        remote: key.remote_addr,
        local_port: key.local_port,
        remote_port: key.remote_port,
        ttl,
        tos,
        flow_label,
        ..Endpoints::default()
    };
    true
}

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
