//! Ethernet II (IEEE 802.3 clause 3): destination, source and type.

use crate::bytes::{array, be16, first, header, put, room};
use crate::{Layer, MacAddr, WireError};

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;

const DST: usize = 0;
const SRC: usize = 6;
const TYPE: usize = 12;

/// EtherType values.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
    /// Smallest type; smaller values are the length of an 802.3 frame.
    pub const MIN: u16 = 0x0600;
}

header! {
    /// The header at the front of a frame.
    EthernetHeader, HEADER_LEN
}

impl EthernetHeader<'_> {
    /// Destination address.
    #[inline]
    pub fn dst(self) -> MacAddr {
        MacAddr(array(self.0, DST))
    }

    /// Source address.
    #[inline]
    pub fn src(self) -> MacAddr {
        MacAddr(array(self.0, SRC))
    }

    /// The type field, which may name a VLAN tag, or be a length below [`ethertype::MIN`].
    #[inline]
    pub fn ethertype(self) -> u16 {
        be16(self.0, TYPE)
    }
}

/// Writes both addresses.
#[inline]
pub fn set_addresses(header: &mut [u8; HEADER_LEN], dst: MacAddr, src: MacAddr) {
    put(header, DST, dst.0);
    put(header, SRC, src.0);
}

/// A frame with at least a whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetView<'a> {
    header: EthernetHeader<'a>,
    payload: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// Checks the frame's length.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn new(frame: &'a [u8]) -> Result<Self, WireError> {
        let header = EthernetHeader(first(frame, Layer::Ethernet)?);
        Ok(Self { header, payload: &frame[HEADER_LEN..] })
    }

    /// The header.
    #[inline]
    pub fn header(self) -> EthernetHeader<'a> {
        self.header
    }

    /// The bytes behind the header, padding included.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        self.payload
    }
}

/// The header's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetRepr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// Type of the payload.
    pub ethertype: u16,
}

impl EthernetRepr {
    /// The values in `header`.
    pub fn parse(header: EthernetHeader<'_>) -> Self {
        Self { dst: header.dst(), src: header.src(), ethertype: header.ethertype() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; nothing is written then.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Ethernet)?;
        set_addresses(header, self.dst, self.src);
        put(header, TYPE, self.ethertype.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::Ethernet2HeaderSlice;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(dst: [u8; 6], src: [u8; 6], ethertype: u16) {
            let repr = EthernetRepr { dst: MacAddr(dst), src: MacAddr(src), ethertype };
            let mut buf = [0; HEADER_LEN + 3];
            repr.emit(&mut buf).unwrap();
            let view = EthernetView::new(&buf).unwrap();
            prop_assert_eq!(EthernetRepr::parse(view.header()), repr);
            prop_assert_eq!(view.payload(), &[0; 3]);
        }

        #[test]
        fn agrees_with_etherparse(frame in vec(any::<u8>(), 0..40)) {
            match (EthernetView::new(&frame), Ethernet2HeaderSlice::from_slice(&frame)) {
                (Ok(ours), Ok(theirs)) => {
                    prop_assert_eq!(ours.header().dst().0, theirs.destination());
                    prop_assert_eq!(ours.header().src().0, theirs.source());
                    prop_assert_eq!(ours.header().ethertype(), theirs.ether_type().0);
                }
                (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
            }
        }
    }

    #[test]
    fn a_short_buffer_is_refused() {
        let repr = EthernetRepr { dst: MacAddr::ZERO, src: MacAddr::ZERO, ethertype: 0 };
        let refused = WireError::NoRoom { layer: Layer::Ethernet, need: 14, have: 13 };
        assert_eq!(repr.emit(&mut [0; 13]), Err(refused));
    }
}
