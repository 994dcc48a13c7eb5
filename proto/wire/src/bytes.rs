//! Big-endian access at constant offsets, and the frame of every header type.

use crate::{Layer, WireError};

/// The 16-bit field at `at`. All callers pass a constant, so the checks vanish once inlined.
#[inline(always)]
pub(crate) const fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit field at `at`, a constant.
#[inline(always)]
pub(crate) const fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The `M` bytes at `at`, a constant. One load: `array::from_fn` would be a call and a loop.
#[inline(always)]
pub(crate) fn array<const M: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; M] {
    let mut out = [0; M];
    out.copy_from_slice(&bytes[at..at + M]);
    out
}

/// Writes `value` at `at`, a constant.
#[inline(always)]
pub(crate) fn put<const M: usize, const N: usize>(bytes: &mut [u8; N], at: usize, value: [u8; M]) {
    bytes[at..at + M].copy_from_slice(&value);
}

/// The first `N` bytes of `bytes`, or the layer that is cut short, and by how much.
#[inline]
pub(crate) fn first<const N: usize>(bytes: &[u8], layer: Layer) -> Result<&[u8; N], WireError> {
    let have = bytes.len();
    bytes.first_chunk().ok_or(WireError::Truncated { layer, need: N, have })
}

/// Splits the first `N` bytes off for a header to be written into.
#[inline]
pub(crate) fn room<const N: usize>(
    buf: &mut [u8],
    layer: Layer,
) -> Result<(&mut [u8; N], &mut [u8]), WireError> {
    let have = buf.len();
    buf.split_first_chunk_mut().ok_or(WireError::NoRoom { layer, need: N, have })
}

/// Defines a header view over a fixed-size array.
macro_rules! header {
    ($(#[$doc:meta])* $name:ident, $len:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a>(&'a [u8; $len]);

        impl<'a> $name<'a> {
            /// The header in these bytes.
            #[inline]
            pub const fn of(bytes: &'a [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The header at the front of `bytes`; `None` if they are too few.
            #[inline]
            pub fn first(bytes: &'a [u8]) -> Option<Self> {
                bytes.first_chunk().map(Self)
            }

            /// The header `offset` bytes into `frame`; `None` if the frame ends before it does.
            #[inline]
            pub fn at(frame: &'a [u8], offset: usize) -> Option<Self> {
                Self::first(frame.get(offset..)?)
            }

            /// The header's bytes.
            #[inline]
            pub const fn bytes(self) -> &'a [u8; $len] {
                self.0
            }
        }
    };
}
pub(crate) use header;
