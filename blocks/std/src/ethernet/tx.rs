//! Transmit: the link header.

use weever_blocks_api::{BlockType, Buffer, PortDoc};
use weever_graph::Effects;
use weever_wire::MacAddr;
use weever_wire::ethernet::{EthernetRepr, HEADER_LEN, ethertype};
use weever_wire::vlan::{TAG_LEN, VlanRepr};

use crate::check::{Change, MARKS, READS, reader};
use crate::host::HostState;

const OUT_OR_DROP: &[PortDoc] = &[
    PortDoc { name: "out", doc: "done" },
    PortDoc { name: "drop", doc: "no room in front of the packet" },
];

/// Makes room for the link header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL2EtherAllocateHeader",
        "Makes room for the Ethernet header, and for a tag if we are in a VLAN.",
        OUT_OR_DROP,
        |build| {
            let vlan = build.env::<HostState>("the host's state")?.vlan;
            let len = HEADER_LEN + if vlan.is_some() { TAG_LEN } else { 0 };
            Ok(Box::new(Change(move |p: &mut Buffer| crate::headers::push(p, len as u16))))
        },
    )
};

/// Writes the link header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..reader(
        "TxL2EtherFillHeader",
        "Writes the Ethernet header, from the EtherType and the next hop's address in the \
         metadata.",
        OUT_OR_DROP,
        |build| {
            let host = build.env::<HostState>("the host's state")?;
            let (own, vlan) = (host.mac, host.vlan);
            Ok(Box::new(Change(move |p: &mut Buffer| fill(p, own, vlan).is_ok())))
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
