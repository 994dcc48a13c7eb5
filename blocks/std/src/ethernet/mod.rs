#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use weever_block::{BlockType, Buffer, MARKS, PortDoc, READS, validator};
use weever_graph::Effects;
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::MacAddr;
use weever_wire::ethernet::{EthernetHeader, EthernetRepr, HEADER_LEN, ethertype};
use weever_wire::vlan::{TAG_LEN, VlanHeader, VlanRepr, is_tag};

use crate::kinds::{interface, network_classifier, network_rewriter};

const UNTAGGED: u16 = HEADER_LEN as u16;
const TAGGED: u16 = UNTAGGED + TAG_LEN as u16;

/// Is there a whole Ethernet header? Records where it and the next header are.
pub static CLASSIFIED: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL2EtherClassified",
        "Is there an Ethernet header? Records l2, l3, the EtherType and the VLAN tag.",
        |_| validator(classified),
    )
};

#[inline]
fn classified(packet: &mut Buffer) -> bool {
    let l2 = packet.head();
    let frame = packet.data();
    let Some(header) = EthernetHeader::first(frame) else { return false };
    let (mut next, mut len, mut vlan) = (header.ethertype(), UNTAGGED, 0);
    if is_tag(next)
        && let Some(tag) = VlanHeader::at(frame, HEADER_LEN)
    {
        vlan = control(tag);
        (next, len) = (tag.ethertype(), TAGGED);
    }
    let group = header.dst().is_multicast();
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.ethertype, meta.vlan) = (l2, l2 + len, next, vlan);
    if group {
        meta.flags = meta.flags.with(Flags::LINK_BROADCAST);
    }
    true
}

/// Priority and identifier of a tag, as the metadata have them.
#[inline]
pub(crate) fn control(tag: VlanHeader<'_>) -> u16 {
    u16::from(tag.pcp()) << 13 | tag.vid()
}

#[inline]
fn is_tagged(packet: &Buffer) -> bool {
    packet.meta().l3.wrapping_sub(packet.meta().l2) == TAGGED
}

/// The header, or `None` when the frame is shorter.
#[inline(always)]
fn header(packet: &Buffer) -> Option<EthernetHeader<'_>> {
    packet.array_at(packet.meta().l2).map(EthernetHeader::of)
}

/// Is the frame in our VLAN?
pub static VALID_VLAN: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new(
        "RxL2EtherValidVlan",
        "Does an interface of ours receive this VLAN of the link? Untagged traffic, or tagged \
         with a priority only, is a VLAN of its own. Records the interface.",
        &[
            PortDoc { name: "false", doc: "no interface does, or it is down" },
            PortDoc { name: "true", doc: "one does" },
            PortDoc { name: "nested", doc: "a service tag (802.1ad), or a tag within a tag" },
        ],
        |build| network_classifier::<3>(build, member),
    )
};

#[inline]
fn member(state: &NetState, packet: &mut Buffer) -> usize {
    let nested = || header(packet).is_some_and(|h| h.ethertype() != ethertype::VLAN);
    let meta = *packet.meta();
    // A second tag shows as the type that follows the first.
    if is_tag(meta.ethertype) || is_tagged(packet) && nested() {
        return 2;
    }
    let found = state.member(meta.link, meta.vlan & 0x0fff);
    packet.meta_mut().iface = found.unwrap_or(IfaceId::NONE).0;
    found.is_some().into()
}

const OUT_OR_DROP: &[PortDoc] = &[
    PortDoc { name: "out", doc: "done" },
    PortDoc { name: "drop", doc: "no room in front of the packet, or its interface is gone" },
];

/// Where packets start that know their link address.
pub static SEND: BlockType = BlockType::validator(
    "TxL2EtherSend",
    "The start of packets that already have their receiver's link address.",
    |_| validator(|p| may_send(p)),
);

pub(crate) fn may_send(packet: &Buffer) -> bool {
    packet.meta().flags.has(Flags::ENDPOINTS)
}

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
pub(crate) fn allocate(state: &NetState, packet: &mut Buffer) -> bool {
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
        |build| network_rewriter(build, fill),
    )
};

#[inline]
pub(crate) fn fill(state: &NetState, packet: &mut Buffer) -> bool {
    let from = interface(state, packet).map(|iface| (iface.mac, iface.vlan));
    from.is_some_and(|(own, vlan)| fill_from(packet, own, vlan).is_ok())
}

#[inline]
fn fill_from(
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
