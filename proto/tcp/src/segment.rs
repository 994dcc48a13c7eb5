//! Segments as they arrive and as they are to be sent.

use core::ops::Range;

use weever_net::MILLIS;
use weever_wire::WireError;
use weever_wire::tcp::{HEADER_LEN, Seq, TcpOptions, TcpOptionsRepr, TcpRepr, TcpView, flag};

use crate::Nanos;
use crate::name::{Id, Tuple};

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the code points' names")]
pub enum Ecn {
    #[default]
    NotEct = 0,
    Ect1 = 1,
    Ect0 = 2,
    Ce = 3,
}

impl Ecn {
    /// The code point in the low two bits of a traffic class.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// A segment that arrived: its checksum is right, its options are read.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 9293 §3.1")]
pub struct Segment<'a> {
    pub seq: Seq,
    pub ack: Seq,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: TcpOptions<'a>,
    pub payload: &'a [u8],
    /// The ECN field of the packet that brought it.
    pub ecn: Ecn,
}

impl<'a> Segment<'a> {
    /// The segment in a view.
    ///
    /// # Errors
    /// [`WireError::BadLength`] if its options cannot be read.
    #[inline]
    pub fn parse(view: TcpView<'a>, ecn: Ecn) -> Result<Self, WireError> {
        let header = view.header();
        Ok(Self {
            seq: Seq(header.seq()),
            ack: Seq(header.ack()),
            flags: header.flags(),
            window: header.window(),
            urgent: header.urgent(),
            options: TcpOptions::parse(view.options())?,
            payload: view.payload(),
            ecn,
        })
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// SEG.LEN: "the number of octets occupied by the data in the segment (counting SYN and FIN)"
    /// (RFC 9293 §3.3.1).
    #[inline]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN))
    }

    /// Whether it occupies no sequence number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A segment to be sent. Its payload is named, not held: it lies in the application's region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The connection whose region holds the payload; `None` for answers that belong to none.
    pub connection: Option<Id>,
    /// The ends.
    pub tuple: Tuple,
    /// The ECN field that the packet has to carry.
    pub ecn: Ecn,
    /// The header; its checksum is for the caller to fill.
    pub header: TcpRepr,
    /// The options.
    pub options: TcpOptionsRepr,
    /// The payload, as offsets in the stream that the application sends.
    pub payload: Range<u64>,
}

impl Transmit {
    /// Bytes of header, options and payload.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len() + (self.payload.end - self.payload.start) as usize
    }

    /// Never: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes header and options to the front of `buf` and has `fill` write the payload behind
    /// them: bytes written. The checksum field stays zero, see
    /// [`fill_checksum`](weever_wire::tcp::fill_checksum).
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `buf` is shorter than [`len`](Self::len).
    #[inline]
    pub fn emit(
        &self,
        buf: &mut [u8],
        fill: impl FnOnce(Range<u64>, &mut [u8]),
    ) -> Result<usize, WireError> {
        let (have, need) = (buf.len(), self.len());
        let short = WireError::NoRoom { layer: weever_wire::Layer::Tcp, need, have };
        let buf = buf.get_mut(..need).ok_or(short)?;
        let at = self.header.emit_with_options(&self.options, buf)?;
        if !self.payload.is_empty() {
            fill(self.payload.clone(), &mut buf[at..]);
        }
        Ok(buf.len())
    }
}

/// A time on the clock of timestamps, which ticks in milliseconds (RFC 7323 §5.4: between 1 ms and 1
/// s), with an offset of the connection's (§7.1).
pub(crate) fn stamp(now: Nanos, offset: u32) -> u32 {
    ((now / MILLIS) as u32).wrapping_add(offset)
}
