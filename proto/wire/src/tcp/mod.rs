//! TCP headers (RFC 9293 §3.1), their [options](TcpOptions), and [sequence numbers](Seq).

use crate::bytes::{be16, be32, first, header, put, room};
use crate::checksum::Pseudo;
use crate::{Layer, WireError};

mod options;
mod seq;
#[cfg(test)]
mod tests;

pub use options::{
    COOKIE_LEN, MAX_OPTIONS_LEN, MAX_SACK_BLOCKS, MAX_WINDOW_SCALE, TIMESTAMPS_LEN, TcpOptions,
    TcpOptionsRepr, Timestamps, kind,
};
pub use seq::Seq;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of a header with timestamps and no other option.
pub const USUAL_LEN: usize = HEADER_LEN + TIMESTAMPS_LEN;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

const SRC: usize = 0;
const DST: usize = 2;
const SEQ: usize = 4;
const ACK: usize = 8;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const URGENT: usize = 18;

/// Where the flags byte stands in the header, for walks over truncated segments.
pub(crate) const FLAGS_AT: usize = FLAGS;

/// Control bits.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

header! {
    /// The 20 fixed bytes of a header; no value in them has been checked.
    TcpHeader, HEADER_LEN
}

impl TcpHeader<'_> {
    /// Source port.
    #[inline]
    pub fn src_port(self) -> u16 {
        be16(self.0, SRC)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(self) -> u16 {
        be16(self.0, DST)
    }

    /// Sequence number.
    #[inline]
    pub fn seq(self) -> u32 {
        be32(self.0, SEQ)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn ack(self) -> u32 {
        be32(self.0, ACK)
    }

    /// Header length in bytes as the header claims it: a multiple of 4 from 0 to 60.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(self.0[DATA_OFFSET] >> 4) * 4
    }

    /// The eight control bits, see [`flag`].
    #[inline]
    pub fn flags(self) -> u8 {
        self.0[FLAGS]
    }

    /// Window.
    #[inline]
    pub fn window(self) -> u16 {
        be16(self.0, WINDOW)
    }

    /// Checksum field.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }

    /// Urgent pointer.
    #[inline]
    pub fn urgent(self) -> u16 {
        be16(self.0, URGENT)
    }
}

/// A segment whose header length is consistent with the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpView<'a> {
    header: TcpHeader<'a>,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Checks the header length.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let header = TcpHeader(first(bytes, Layer::Tcp)?);
        let (said, max) = (header.header_len(), bytes.len().min(MAX_HEADER_LEN));
        if !(HEADER_LEN..=max).contains(&said) {
            return Err(WireError::BadLength { layer: Layer::Tcp, said, min: HEADER_LEN, max });
        }
        let (whole, payload) = bytes.split_at(said);
        Ok(Self { header, options: &whole[HEADER_LEN..], payload })
    }

    /// The fixed part of the header.
    #[inline]
    pub fn header(self) -> TcpHeader<'a> {
        self.header
    }

    /// The options, unparsed.
    #[inline]
    pub fn options(self) -> &'a [u8] {
        self.options
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        self.payload
    }
}

/// Computes the checksum of a whole segment and writes it. Slices shorter than a header are left
/// alone. `pseudo` is that of the segment's length.
#[inline]
pub fn fill_checksum(segment: &mut [u8], pseudo: Pseudo) {
    if let Ok((header, _)) = room::<HEADER_LEN>(segment, Layer::Tcp) {
        put(header, CHECKSUM, [0, 0]);
        let checksum = pseudo.checksum(segment);
        put_checksum(segment, checksum);
    }
}

/// Writes a checksum into the header that `segment` begins with. Shorter slices are left alone.
#[inline]
pub fn put_checksum(segment: &mut [u8], checksum: u16) {
    if let Ok((header, _)) = room::<HEADER_LEN>(segment, Layer::Tcp) {
        put(header, CHECKSUM, checksum.to_be_bytes());
    }
}

/// The values of a header without options; the checksum is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 9293 §3.1")]
pub struct TcpRepr {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub checksum: u16,
    pub urgent: u16,
}

impl TcpRepr {
    /// The values in `header`.
    pub fn parse(header: TcpHeader<'_>) -> Self {
        Self {
            src_port: header.src_port(),
            dst_port: header.dst_port(),
            seq: header.seq(),
            ack: header.ack(),
            flags: header.flags(),
            window: header.window(),
            checksum: header.checksum(),
            urgent: header.urgent(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// The sum of the header with so many bytes of options, which are not in it, and no checksum; not folded.
    #[inline]
    pub fn sum(&self, options: usize) -> u64 {
        let words = [self.src_port, self.dst_port, self.window, self.urgent];
        let offset = ((HEADER_LEN + options) as u64 / 4) << 12 | u64::from(self.flags);
        let numbers = u64::from(self.seq) + u64::from(self.ack) + offset;
        words.iter().fold(numbers, |sum, word| sum + u64::from(*word))
    }

    /// Writes the header to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Tcp)?;
        put(header, SRC, self.src_port.to_be_bytes());
        put(header, DST, self.dst_port.to_be_bytes());
        put(header, SEQ, self.seq.to_be_bytes());
        put(header, ACK, self.ack.to_be_bytes());
        put(header, DATA_OFFSET, [0x50, self.flags]);
        put(header, WINDOW, self.window.to_be_bytes());
        put(header, CHECKSUM, self.checksum.to_be_bytes());
        put(header, URGENT, self.urgent.to_be_bytes());
        Ok(())
    }

    /// Writes the header with the usual options to `out`, and the checksum field as 0: their sum, not folded. As one
    /// piece of known length it needs no looks at what has room.
    #[inline]
    pub fn emit_usual(&self, stamps: Timestamps, out: &mut [u8; USUAL_LEN]) -> u64 {
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let offset = ((USUAL_LEN / 4) as u32) << 12 | u32::from(self.flags);
        let flags = offset << 16 | u32::from(self.window);
        let Timestamps { value, echo } = stamps;
        let sign = u32::from_be_bytes([kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]);
        let words = [ports, self.seq, self.ack, flags, u32::from(self.urgent), sign, value, echo];
        let mut sum = 0;
        for (at, word) in words.into_iter().enumerate() {
            put(out, 4 * at, word.to_be_bytes());
            sum += u64::from(word);
        }
        sum
    }

    /// Writes the header and `options` to the front of `buf`: where the payload begins.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    #[inline]
    pub fn emit_with_options(
        &self,
        options: &TcpOptionsRepr,
        buf: &mut [u8],
    ) -> Result<usize, WireError> {
        self.emit(buf)?;
        let (header, rest) = room::<HEADER_LEN>(buf, Layer::Tcp)?;
        let len = HEADER_LEN + options.emit(rest)?;
        put(header, DATA_OFFSET, [(len as u8 / 4) << 4]);
        Ok(len)
    }
}
