//! Transmit: the link header.

use weever_block::{BlockType, Buffer, MARKS, PortDoc, READS, validator};
use weever_graph::Effects;
use weever_net::iface::Interface;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::MacAddr;
use weever_wire::ethernet::{EthernetRepr, HEADER_LEN, ethertype};
use weever_wire::vlan::{TAG_LEN, VlanRepr};

use crate::kinds::{interface, network_rewriter};

const OUT_OR_DROP: &[PortDoc] = &[
    PortDoc { name: "out", doc: "done" },
    PortDoc { name: "drop", doc: "no room in front of the packet, or its interface is gone" },
];

/// Where packets start that know their link address.
pub static SEND: BlockType = BlockType::validator(
    "TxL2EtherSend",
    "The start of packets that already have their receiver's link address.",
    |_| validator(|p| p.meta().flags.has(Flags::ENDPOINTS)),
);

/// Makes room for the link header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL2EtherAllocateHeader",
        "Makes room for the Ethernet header, and for a tag if the interface is a VLAN.",
        OUT_OR_DROP,
        |build| network_rewriter(build, allocate),
    )
};

#[inline]
fn allocate(state: &NetState, packet: &mut Buffer) -> bool {
    let tag = |iface: &Interface| if iface.vlan.is_some() { TAG_LEN } else { 0 };
    let len = interface(state, packet).map(|iface| HEADER_LEN + tag(iface));
    len.is_some_and(|len| crate::headers::push(packet, len as u16))
}

/// Writes the link header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL2EtherFillHeader",
        "Writes the Ethernet header, from the EtherType and the next hop's address in the \
         metadata.",
        OUT_OR_DROP,
        |build| {
            network_rewriter(build, |state, p| {
                let from = interface(state, p).map(|iface| (iface.mac, iface.vlan));
                from.is_some_and(|(own, vlan)| fill(p, own, vlan).is_ok())
            })
        },
    )
};

#[inline]
fn fill(
    packet: &mut Buffer,
    own: MacAddr,
    vlan: Option<u16>,
) -> Result<(), weever_wire::WireError> {
    let meta = packet.meta();
    let (dst, payload) = (MacAddr(meta.endpoints.next_mac), meta.ethertype);
    let outer = if vlan.is_some() { ethertype::VLAN } else { payload };
    EthernetRepr { dst, src: own, ethertype: outer }.emit(packet.data_mut())?;
    match (vlan, packet.data_mut().get_mut(HEADER_LEN..)) {
        (Some(vid), Some(tag)) => {
            VlanRepr { vid, pcp: 0, dei: false, ethertype: payload }.emit(tag)
        }
        _ => Ok(()),
    }
}
