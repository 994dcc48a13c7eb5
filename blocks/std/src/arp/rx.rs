//! Receive: validation and classification of ARP packets (RFC 826, "Packet Reception").

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, Mask, PortDoc, Ports, READS, StateKind, classifier,
    tasks_where, validator,
};
use weever_graph::Effects;
use weever_net::addr::{Locals, Martian};
use weever_wire::arp::{ArpHeader, op};

use crate::host::{Neighbours, V4};
use crate::kinds::{interface, network_validator};
use crate::neighbour::neighbours;

/// The packet, or `None` when it is cut short.
#[inline(always)]
pub(super) fn header(packet: &Buffer) -> Option<ArpHeader<'_>> {
    ArpHeader::first(packet.at(packet.meta().l3))
}

/// Is it ARP of IPv4 over Ethernet?
pub static VALID_HEADER_LENGTH: BlockType = BlockType::validator(
    "RxL3ARPValidHeaderLength",
    "Is it whole, and about IPv4 over Ethernet?",
    |_| validator(|p| header(p).is_some_and(ArpHeader::is_ethernet_ipv4)),
);

/// Which operation is it?
pub static CLASSIFY: BlockType = BlockType::new(
    "RxL3ARPClassify",
    "Which operation is it?",
    &[
        PortDoc { name: "request", doc: "a request" },
        PortDoc { name: "response", doc: "a reply" },
        PortDoc { name: "drop", doc: "any other" },
    ],
    |_| classifier::<3>(|p| operation(p)),
);

fn operation(packet: &Buffer) -> usize {
    match header(packet).map(ArpHeader::op) {
        Some(op::REQUEST) => 0,
        Some(op::REPLY) => 1,
        _ => 2,
    }
}

/// Is its target one of our addresses?
pub static LOCAL_IP_DEST: BlockType =
    BlockType::validator("RxL3ARPLocalIPDest", "Is the target one of our addresses?", |build| {
        network_validator(build, |state, p| {
            let (Some(arp), Some(iface)) = (header(p), interface(state, p)) else { return false };
            // Another station's probe for an address that we probe is a conflict: RFC 5227 §2.1.1.
            iface.v4.is_ours(arp.tpa()) || iface.tentative.is_ours(arp.tpa())
        })
    });

/// Can the sender of a request be another station?
pub static VALID_REQUEST: BlockType = BlockType::validator(
    "RxL3ARPValidRequest",
    "Can its sender be another station? A probe has no address yet (RFC 5227 §2.1.1).",
    |build| valid_sender(build, true),
);

/// Can the sender of a reply be another station?
pub static VALID_RESPONSE: BlockType =
    BlockType::validator("RxL3ARPValidResponse", "Can its sender be another station?", |build| {
        valid_sender(build, false)
    });

fn valid_sender(
    build: &weever_block::Build<'_>,
    may_probe: bool,
) -> Result<Box<dyn Block>, weever_block::BuildError> {
    network_validator(build, move |state, p| {
        let (Some(arp), Some(iface)) = (header(p), interface(state, p)) else { return false };
        let station = arp.sha().is_unicast() && arp.sha() != iface.mac;
        station && valid_address(arp, &iface.v4, may_probe)
    })
}

/// A claim to one of our addresses goes on: it has to be answered (RFC 5227 §2.4).
fn valid_address(arp: ArpHeader<'_>, locals: &Locals, may_probe: bool) -> bool {
    let probe = may_probe && arp.spa().is_unspecified();
    probe || matches!(locals.check_source(arp.spa()), Ok(()) | Err(Martian::Own))
}

/// Is the sender a neighbour of ours?
pub static IS_PENDING: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::validator(
        "RxL3ARPIsPending",
        "Is the sender a neighbour that we know or ask for, or does it claim our address?",
        |build| {
            let neighbours = neighbours::<V4>(build)?;
            Ok(Box::new(IsPending { neighbours }))
        },
    )
};

struct IsPending {
    neighbours: Arc<Neighbours>,
}

impl Block for IsPending {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let session = self.neighbours.session(cx.now);
        let known = |p: &Buffer, arp: ArpHeader<'_>| session.knows(p.meta().iface, arp.spa());
        let yes = tasks_where(burst, input, |p| header(p).is_some_and(|arp| known(p, arp)));
        ports.decide(input, yes);
    }
}
