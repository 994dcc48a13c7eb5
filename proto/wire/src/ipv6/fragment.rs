//! The fragment header (RFC 8200 §4.5).

use crate::bytes::{be16, be32, header, put, room};
use crate::{Layer, WireError};

/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

const NEXT: usize = 0;
const OFFSET: usize = 2;
const IDENT: usize = 4;
const MORE: u16 = 1;

header! {
    /// A fragment header; no value in it has been checked.
    FragmentHeader, FRAGMENT_LEN
}

impl FragmentHeader<'_> {
    /// Protocol of the fragmentable part's first header.
    #[inline]
    pub fn next_header(self) -> u8 {
        self.0[NEXT]
    }

    /// Where the fragment's data go in the fragmentable part, in bytes.
    #[inline]
    pub fn offset(self) -> usize {
        usize::from(be16(self.0, OFFSET) & 0xfff8)
    }

    /// Whether more fragments follow this one.
    #[inline]
    pub fn more(self) -> bool {
        be16(self.0, OFFSET) & MORE != 0
    }

    /// Names the packet that it is a fragment of, among those of its source and destination.
    #[inline]
    pub fn ident(self) -> u32 {
        be32(self.0, IDENT)
    }

    /// Whether it is the whole packet, and no other fragment may be joined with it (RFC 6946 §4).
    #[inline]
    pub fn is_atomic(self) -> bool {
        be16(self.0, OFFSET) & (0xfff8 | MORE) == 0
    }
}

/// The values of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentRepr {
    /// Protocol of the fragmentable part's first header.
    pub next_header: u8,
    /// Where the fragment's data go, in bytes; a multiple of 8.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
    /// Names the packet.
    pub ident: u32,
}

impl FragmentRepr {
    /// The values in `header`.
    pub fn parse(header: FragmentHeader<'_>) -> Self {
        let (next_header, offset) = (header.next_header(), header.offset() as u16);
        Self { next_header, offset, more: header.more(), ident: header.ident() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        FRAGMENT_LEN
    }

    /// Writes the header to the front of `buf`; the offset is rounded down to a multiple of 8.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (header, _) = room::<FRAGMENT_LEN>(buf, Layer::Ipv6)?;
        let offset = self.offset & 0xfff8 | u16::from(self.more);
        put(header, NEXT, [self.next_header, 0]);
        put(header, OFFSET, offset.to_be_bytes());
        put(header, IDENT, self.ident.to_be_bytes());
        Ok(())
    }
}
