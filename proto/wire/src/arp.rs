//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, be32, first, header, put, room};
use crate::ethernet::ethertype;
use crate::{Layer, MacAddr, WireError};

/// Bytes of an Ethernet/IPv4 ARP packet.
pub const PACKET_LEN: usize = 28;
/// Hardware type of Ethernet.
pub const HTYPE_ETHERNET: u16 = 1;

const HTYPE: usize = 0;
const PTYPE: usize = 2;
const HLEN: usize = 4;
const PLEN: usize = 5;
const OP: usize = 6;
const SHA: usize = 8;
const SPA: usize = 14;
const THA: usize = 18;
const TPA: usize = 24;

/// Operations (RFC 826, "Packet format").
pub mod op {
    /// A request for the target's hardware address.
    pub const REQUEST: u16 = 1;
    /// The sender has the sender protocol address.
    pub const REPLY: u16 = 2;
}

header! {
    /// An ARP packet as if it were of Ethernet and IPv4; [`ArpHeader::is_ethernet_ipv4`] tells.
    ArpHeader, PACKET_LEN
}

impl ArpHeader<'_> {
    /// Whether types and lengths are those of IPv4 over Ethernet (RFC 826, "Packet Reception":
    /// the first two questions a receiver asks).
    #[inline]
    pub fn is_ethernet_ipv4(self) -> bool {
        u64::from(be32(self.0, HTYPE)) << 16 | u64::from(be16(self.0, HLEN)) == 0x0001_0800_0604
    }

    /// Operation.
    #[inline]
    pub fn op(self) -> u16 {
        be16(self.0, OP)
    }

    /// Sender's hardware address.
    #[inline]
    pub fn sha(self) -> MacAddr {
        MacAddr(array(self.0, SHA))
    }

    /// Sender's protocol address.
    #[inline]
    pub fn spa(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, SPA))
    }

    /// Target's hardware address; without meaning in a request.
    #[inline]
    pub fn tha(self) -> MacAddr {
        MacAddr(array(self.0, THA))
    }

    /// Target's protocol address.
    #[inline]
    pub fn tpa(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, TPA))
    }
}

/// An ARP packet that is known to be of IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpView<'a> {
    header: ArpHeader<'a>,
}

impl<'a> ArpView<'a> {
    /// Checks length, hardware type, protocol type and address lengths; bytes beyond the packet
    /// (Ethernet padding) are ignored.
    ///
    /// # Errors
    /// [`WireError::Truncated`]; [`WireError::BadField`] with the first field that differs.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let raw = first::<PACKET_LEN>(bytes, Layer::Arp)?;
        expect("hrd", be16(raw, HTYPE), HTYPE_ETHERNET)?;
        expect("pro", be16(raw, PTYPE), ethertype::IPV4)?;
        expect("hln", u16::from(raw[HLEN]), 6)?;
        expect("pln", u16::from(raw[PLEN]), 4)?;
        Ok(Self { header: ArpHeader(raw) })
    }

    /// The packet.
    #[inline]
    pub fn header(self) -> ArpHeader<'a> {
        self.header
    }
}

fn expect(field: &'static str, value: u16, wanted: u16) -> Result<(), WireError> {
    if value == wanted {
        return Ok(());
    }
    Err(WireError::BadField { layer: Layer::Arp, field, value: value.into() })
}

/// The values of a packet of IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpRepr {
    /// Operation, see [`op`].
    pub op: u16,
    /// Sender's hardware address.
    pub sha: MacAddr,
    /// Sender's protocol address.
    pub spa: Ipv4Addr,
    /// Target's hardware address.
    pub tha: MacAddr,
    /// Target's protocol address.
    pub tpa: Ipv4Addr,
}

impl ArpRepr {
    /// The values in `view`.
    pub fn parse(view: ArpView<'_>) -> Self {
        let h = view.header;
        Self { op: h.op(), sha: h.sha(), spa: h.spa(), tha: h.tha(), tpa: h.tpa() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (raw, _) = room::<PACKET_LEN>(buf, Layer::Arp)?;
        put(raw, HTYPE, HTYPE_ETHERNET.to_be_bytes());
        put(raw, PTYPE, ethertype::IPV4.to_be_bytes());
        put(raw, HLEN, [6, 4]);
        put(raw, OP, self.op.to_be_bytes());
        put(raw, SHA, self.sha.0);
        put(raw, SPA, self.spa.octets());
        put(raw, THA, self.tha.0);
        put(raw, TPA, self.tpa.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::ArpPacketSlice;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn ethernet_ipv4() -> impl Strategy<Value = std::vec::Vec<u8>> {
        (vec(any::<u8>(), 20..50)).prop_map(|rest| [&[0, 1, 8, 0, 6, 4], &rest[..]].concat())
    }

    proptest! {
        #[test]
        fn round_trip(op: u16, sha: [u8; 6], spa: u32, tha: [u8; 6], tpa: u32) {
            let (spa, tpa) = (Ipv4Addr::from_bits(spa), Ipv4Addr::from_bits(tpa));
            let repr = ArpRepr { op, sha: MacAddr(sha), spa, tha: MacAddr(tha), tpa };
            let mut buf = [0xaa; PACKET_LEN + 2];
            repr.emit(&mut buf).unwrap();
            let view = ArpView::new(&buf).unwrap();
            prop_assert!(view.header().is_ethernet_ipv4());
            prop_assert_eq!(ArpRepr::parse(view), repr);
        }

        #[test]
        fn agrees_with_etherparse(packet in ethernet_ipv4()) {
            match (ArpView::new(&packet), ArpPacketSlice::from_slice(&packet)) {
                (Ok(ours), Ok(theirs)) => {
                    let h = ours.header();
                    prop_assert_eq!(h.op(), theirs.operation().0);
                    prop_assert_eq!(&h.sha().0[..], theirs.sender_hw_addr());
                    prop_assert_eq!(&h.spa().octets()[..], theirs.sender_protocol_addr());
                    prop_assert_eq!(&h.tha().0[..], theirs.target_hw_addr());
                    prop_assert_eq!(&h.tpa().octets()[..], theirs.target_protocol_addr());
                }
                (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
            }
        }

        #[test]
        fn the_quick_test_agrees_with_the_view(mut packet in ethernet_ipv4(), at in 0usize..6, to: u8) {
            packet.resize(PACKET_LEN, 0);
            packet[at] = to;
            let quick = ArpHeader::first(&packet).unwrap().is_ethernet_ipv4();
            prop_assert_eq!(quick, ArpView::new(&packet).is_ok());
        }
    }
}
