//! Segments as they arrive and as they are to be sent.

use core::net::IpAddr;
use core::ops::Range;

use weever_net::random::keyed_hash;
use weever_wire::WireError;
use weever_wire::tcp::{HEADER_LEN, Seq, TcpOptions, TcpOptionsRepr, TcpRepr, TcpView, flag};

use crate::Id;

/// The two ends of a connection, as the local one sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Our address, of the same family as the remote one.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// A hash that nobody without the key can foretell.
    pub(crate) fn hash(&self, key: [u64; 2]) -> u64 {
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let hosts = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                keyed_hash(key, &[hosts, ports])
            }
            (local, remote) => {
                let ([a, b], [c, d]) = (halves(local), halves(remote));
                keyed_hash(key, &[a, b, c, d, ports])
            }
        }
    }

    /// Bytes of an IP header without options between these ends.
    pub(crate) fn ip_header_len(&self) -> u16 {
        if self.local.is_ipv4() { 20 } else { 40 }
    }
}

fn halves(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

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
        let have = buf.len();
        let short = WireError::NoRoom { layer: weever_wire::Layer::Tcp, need: self.len(), have };
        let buf = buf.get_mut(..self.len()).ok_or(short)?;
        let at = self.header.emit_with_options(&self.options, buf)?;
        if !self.payload.is_empty() {
            fill(self.payload.clone(), &mut buf[at..]);
        }
        Ok(buf.len())
    }
}
