//! IEEE 802.1Q tag: the four bytes between a type field that says "tag" and the payload's type.

use crate::bytes::{be16, first, header, put, room};
use crate::ethernet::ethertype;
use crate::{Layer, WireError};

/// Bytes of the tag: control information and the next type. The type field that announces the
/// tag belongs to the header before it.
pub const TAG_LEN: usize = 4;

const TCI: usize = 0;
const TYPE: usize = 2;

/// Whether a type field announces a tag (802.1Q or 802.1ad).
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ)
}

header! {
    /// A tag.
    VlanHeader, TAG_LEN
}

impl VlanHeader<'_> {
    /// VLAN identifier, 12 bits; 0 means priority only.
    #[inline]
    pub fn vid(self) -> u16 {
        be16(self.0, TCI) & 0x0fff
    }

    /// Priority code point, 3 bits.
    #[inline]
    pub fn pcp(self) -> u8 {
        self.0[TCI] >> 5
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(self) -> bool {
        self.0[TCI] & 0x10 != 0
    }

    /// Type of the payload, which may be another tag.
    #[inline]
    pub fn ethertype(self) -> u16 {
        be16(self.0, TYPE)
    }
}

/// A tag and the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanView<'a> {
    header: VlanHeader<'a>,
    payload: &'a [u8],
}

impl<'a> VlanView<'a> {
    /// Checks the length of `bytes`, which begin after the type field that announced the tag.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let header = VlanHeader(first(bytes, Layer::Vlan)?);
        Ok(Self { header, payload: &bytes[TAG_LEN..] })
    }

    /// The tag.
    #[inline]
    pub fn header(self) -> VlanHeader<'a> {
        self.header
    }

    /// The bytes behind the tag.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        self.payload
    }
}

/// The tag's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanRepr {
    /// VLAN identifier; only the low 12 bits are emitted.
    pub vid: u16,
    /// Priority; only the low 3 bits are emitted.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// Type of the payload.
    pub ethertype: u16,
}

impl VlanRepr {
    /// The values in `header`.
    pub fn parse(header: VlanHeader<'_>) -> Self {
        let (vid, pcp, dei) = (header.vid(), header.pcp(), header.dei());
        Self { vid, pcp, dei, ethertype: header.ethertype() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (header, _) = room::<TAG_LEN>(buf, Layer::Vlan)?;
        let tci = u16::from(self.pcp & 7) << 13 | u16::from(self.dei) << 12 | self.vid & 0x0fff;
        put(header, TCI, tci.to_be_bytes());
        put(header, TYPE, self.ethertype.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::SingleVlanHeaderSlice;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(vid in 0u16..4096, pcp in 0u8..8, dei: bool, ethertype: u16) {
            let repr = VlanRepr { vid, pcp, dei, ethertype };
            let mut buf = [0; TAG_LEN];
            repr.emit(&mut buf).unwrap();
            prop_assert_eq!(VlanRepr::parse(VlanHeader::of(&buf)), repr);
        }

        #[test]
        fn agrees_with_etherparse(bytes in vec(any::<u8>(), 0..10)) {
            match (VlanView::new(&bytes), SingleVlanHeaderSlice::from_slice(&bytes)) {
                (Ok(ours), Ok(theirs)) => {
                    let ours = ours.header();
                    prop_assert_eq!(ours.vid(), theirs.vlan_identifier().value());
                    prop_assert_eq!(ours.pcp(), theirs.priority_code_point().value());
                    prop_assert_eq!(ours.dei(), theirs.drop_eligible_indicator());
                    prop_assert_eq!(ours.ethertype(), theirs.ether_type().0);
                }
                (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
            }
        }
    }

    #[test]
    fn tag_types() {
        assert!(is_tag(0x8100) && is_tag(0x88a8) && !is_tag(0x0800));
        // As for the kernel's eth_type_vlan.
        assert!(!is_tag(0x9100));
    }
}
