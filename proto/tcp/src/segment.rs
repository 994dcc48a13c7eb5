//! Segments as they arrive and as they are to be sent.

use core::ops::Range;

use weever_net::MILLIS;
use weever_wire::WireError;
use weever_wire::tcp::{
    HEADER_LEN, Seq, TcpOptions, TcpOptionsRepr, TcpRepr, TcpView, USUAL_LEN, flag, put_checksum,
};

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
    /// Octets of segments that were [joined](Self::join) to this one.
    pub joined: u32,
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
        let mut segment = Self {
            seq: Seq(header.seq()),
            ack: Seq(header.ack()),
            flags: header.flags(),
            window: header.window(),
            urgent: header.urgent(),
            options: TcpOptions::default(),
            payload: view.payload(),
            joined: 0,
            ecn,
        };
        // The usual options are written in place: moving a result costs more than reading it.
        match TcpOptions::usual(view.options()) {
            Some(stamps) => segment.options.timestamps = Some(stamps),
            None if view.options().is_empty() => {}
            None => segment.options = TcpOptions::parse(view.options())?,
        }
        Ok(segment)
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
        self.text_len() + u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN))
    }

    /// Octets of payload, with that of joined segments.
    #[inline]
    pub fn text_len(&self) -> u32 {
        self.payload.len() as u32 + self.joined
    }

    /// Joins the segment of the same connection that came next, if it continues this one; true if
    /// it did. Then the two are handled as one, whose payload is this one's and the other's behind
    /// it; the range that [`Payload`](crate::Payload) names as accepted counts over both together.
    ///
    /// Segments that differ in more than their number, PSH and FIN stay apart: other options, marks,
    /// acknowledgements and windows mean something by themselves.
    pub fn join(&mut self, next: &Segment<'_>) -> bool {
        let plain = self.flags & !flag::PSH == flag::ACK
            && next.flags & !(flag::PSH | flag::FIN) == flag::ACK;
        let same = (self.ack, self.window, self.ecn) == (next.ack, next.window, next.ecn)
            && self.options.timestamps == next.options.timestamps
            && self.options.sack.is_empty()
            && next.options.sack.is_empty();
        let whole = self.text_len() + next.text_len();
        let continues = next.seq == self.seq + self.text_len() && next.text_len() > 0;
        if !(plain && same && continues && !self.payload.is_empty() && whole <= MAX_JOINED) {
            return false;
        }
        self.flags |= next.flags;
        self.joined += next.text_len();
        true
    }

    /// Whether it occupies no sequence number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A super-segment is not longer, sent or received: as much as an IP packet could hold.
pub const MAX_JOINED: u32 = 65_535 - 60 - 60;

/// A segment to be sent. Its payload is named, not held: it lies in the application's region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The connection whose region holds the payload; `None` for answers that belong to none.
    pub connection: Option<Id>,
    /// The ends.
    pub tuple: Tuple,
    /// The ECN field that the packet has to carry.
    pub ecn: Ecn,
    /// The header; [`emit`](Self::emit) fills its checksum in.
    pub header: TcpRepr,
    /// The options.
    pub options: TcpOptionsRepr,
    /// The payload, as offsets in the stream that the application sends.
    pub payload: Range<u64>,
    /// Octets of payload that one segment may carry: if there are more, this is a super-segment
    /// ([`TcpConfig::super_segment`](crate::TcpConfig::super_segment)), to be cut by the device or by [`cut`](Self::cut).
    pub piece: u32,
}

impl Transmit {
    /// A place for [`Endpoint::poll_into`](crate::Endpoint::poll_into) to write segments to.
    pub fn place() -> Transmit {
        let any = core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        Transmit {
            connection: None,
            tuple: Tuple { local: any, remote: any, local_port: 0, remote_port: 0 },
            ecn: Ecn::NotEct,
            header: TcpRepr {
                src_port: 0,
                dst_port: 0,
                seq: 0,
                ack: 0,
                flags: 0,
                window: 0,
                checksum: 0,
                urgent: 0,
            },
            options: TcpOptionsRepr::default(),
            payload: 0..0,
            piece: 0,
        }
    }

    /// Bytes of header, options and payload.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len() + (self.payload.end - self.payload.start) as usize
    }

    /// Segments that it stands for.
    #[inline]
    pub fn pieces(&self) -> u32 {
        if !self.is_super() {
            return 1;
        }
        ((self.payload.end - self.payload.start) as u32).div_ceil(self.piece.max(1))
    }

    /// Whether it has to be cut before it can be a packet.
    #[inline]
    pub fn is_super(&self) -> bool {
        self.payload.end - self.payload.start > u64::from(self.piece)
    }

    /// The segments that a super-segment stands for; of any other one, itself.
    ///
    /// FIN and PSH go to the last one, CWR (RFC 3168 §6.1.2: once) to the first.
    pub fn cut(&self) -> impl Iterator<Item = Transmit> {
        let mut rest = Some(self.clone());
        std::iter::from_fn(move || {
            let mut whole = rest.take()?;
            if !whole.is_super() {
                return Some(whole);
            }
            let piece = whole.split_first();
            rest = Some(whole);
            Some(piece)
        })
    }

    /// Takes the first segment off a [super-segment](Self::is_super), for a caller that cannot send all at once.
    pub fn split_first(&mut self) -> Transmit {
        let (mut piece, step) = (self.clone(), self.piece);
        let end = self.payload.end.min(self.payload.start + u64::from(step));
        piece.payload.end = end;
        piece.header.flags &= !(flag::FIN | flag::PSH);
        self.payload.start = end;
        self.header.seq = self.header.seq.wrapping_add(step);
        self.header.flags &= !flag::CWR;
        if self.header.flags & flag::URG != 0 {
            self.header.urgent = self.header.urgent.saturating_sub(step as u16);
        }
        piece
    }

    /// Never: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the segment to the front of `buf`, with its checksum: bytes written. `fill` writes the payload
    /// behind the header and gives back its [sum](weever_wire::checksum::sum).
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `buf` is shorter than [`len`](Self::len).
    #[inline]
    pub fn emit(
        &self,
        buf: &mut [u8],
        fill: impl FnOnce(Range<u64>, &mut [u8]) -> u16,
    ) -> Result<usize, WireError> {
        let octets = (self.payload.end - self.payload.start) as usize;
        if let Some(stamps) = self.options.only_timestamps()
            && let Some((header, rest)) = buf.split_first_chunk_mut::<USUAL_LEN>()
            && let Some(payload) = rest.get_mut(..octets)
        {
            let words = self.header.emit_usual(stamps, header);
            let sum = if octets == 0 { 0 } else { fill(self.payload.clone(), payload) };
            let need = USUAL_LEN + octets;
            put_checksum(header, self.tuple.pseudo(need).checksum_of(words + u64::from(sum)));
            return Ok(need);
        }
        let (header, payload) = self.emit_header(buf)?;
        let sum = if payload.is_empty() { 0 } else { fill(self.payload.clone(), payload) };
        let (header, options) = header.split_at_mut(HEADER_LEN);
        let words = self.header.sum(options.len()) + self.options.sum(options) + u64::from(sum);
        put_checksum(header, self.tuple.pseudo(self.len()).checksum_of(words));
        Ok(self.len())
    }

    /// The same with a partial checksum, which the link completes: nothing is summed. What `fill` gives back does
    /// not matter.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    #[inline]
    pub fn emit_partial(
        &self,
        buf: &mut [u8],
        fill: impl FnOnce(Range<u64>, &mut [u8]) -> u16,
    ) -> Result<usize, WireError> {
        let (header, payload) = self.emit_header(buf)?;
        if !payload.is_empty() {
            fill(self.payload.clone(), payload);
        }
        put_checksum(header, self.tuple.pseudo(self.len()).sum());
        Ok(self.len())
    }

    /// Writes header and options, without a checksum; these, and the place of the payload.
    #[inline]
    fn emit_header<'b>(
        &self,
        buf: &'b mut [u8],
    ) -> Result<(&'b mut [u8], &'b mut [u8]), WireError> {
        let (have, need) = (buf.len(), self.len());
        let short = WireError::NoRoom { layer: weever_wire::Layer::Tcp, need, have };
        let buf = buf.get_mut(..need).ok_or(short)?;
        let at = self.header.emit_with_options(&self.options, buf)?;
        Ok(buf.split_at_mut(at))
    }
}

/// A time on the clock of timestamps, which ticks in milliseconds (RFC 7323 §5.4: between 1 ms and 1
/// s), with an offset of the connection's (§7.1).
pub(crate) fn stamp(now: Nanos, offset: u32) -> u32 {
    ((now / MILLIS) as u32).wrapping_add(offset)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv6Addr};

    use weever_wire::checksum;

    use super::*;

    #[test]
    fn a_partial_checksum_that_is_completed_is_the_one_that_is_summed_here() {
        for local in [IpAddr::from([10, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            for len in [0, 1, 300, 1447] {
                let mut transmit = Transmit::place();
                (transmit.tuple.local, transmit.tuple.remote) = (local, local);
                (transmit.header.seq, transmit.header.flags) = (0x0102_0304, flag::ACK);
                (transmit.payload, transmit.piece) = (7..7 + len, 1460);
                let fill = |range: Range<u64>, out: &mut [u8]| {
                    let octets = out.iter_mut().zip(range);
                    octets.for_each(|(octet, at)| *octet = (at * 31) as u8);
                    checksum::sum(out)
                };
                let mut whole = vec![0; transmit.len()];
                assert_eq!(transmit.emit(&mut whole, fill), Ok(whole.len()));
                let mut partial = vec![0xff; transmit.len() + 3];
                let unsummed = |range: Range<u64>, out: &mut [u8]| {
                    fill(range, out);
                    0
                };
                assert_eq!(transmit.emit_partial(&mut partial, unsummed), Ok(whole.len()));
                partial.truncate(whole.len());
                assert_ne!(partial, whole);
                let sum = checksum::sum(&partial);
                put_checksum(&mut partial, !sum);
                assert_eq!(partial, whole, "{local} {len}");
                let short = &mut partial[1..];
                assert!(transmit.emit_partial(short, unsummed).is_err());
            }
        }
    }
}
