//! Messages as values.

use super::{CODE, HEADER_LEN, IDENT, Icmpv6View, SEQ, TYPE, VALUE, fill_checksum, kind};
use crate::bytes::{put, room};
use crate::{Layer, WireError};

/// A message and its data. An error's `quote` is as much of the packet that caused it as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 4443")]
pub enum Icmpv6Repr<'a> {
    /// Please answer with the same data.
    EchoRequest { ident: u16, seq: u16, data: &'a [u8] },
    /// The answer.
    EchoReply { ident: u16, seq: u16, data: &'a [u8] },
    /// Not delivered.
    Unreachable { code: u8, quote: &'a [u8] },
    /// Longer than a link on the way carries.
    PacketTooBig { mtu: u32, quote: &'a [u8] },
    /// Expired in transit (code 0) or in reassembly (code 1).
    TimeExceeded { code: u8, quote: &'a [u8] },
    /// A field is wrong at byte `pointer` of the quoted packet.
    ParameterProblem { code: u8, pointer: u32, quote: &'a [u8] },
}

impl<'a> Icmpv6Repr<'a> {
    /// The values in `view`. The code of "packet too big" is ignored (RFC 4443 §3.2).
    ///
    /// # Errors
    /// [`WireError::BadField`] for a type or code of another kind of message.
    pub fn parse(view: Icmpv6View<'a>) -> Result<Self, WireError> {
        let (h, data) = (view.header(), view.data());
        let (ident, seq, code) = (h.ident(), h.seq(), h.code());
        Ok(match (h.kind(), code) {
            (kind::ECHO_REQUEST, 0) => Icmpv6Repr::EchoRequest { ident, seq, data },
            (kind::ECHO_REPLY, 0) => Icmpv6Repr::EchoReply { ident, seq, data },
            (kind::UNREACHABLE, _) => Icmpv6Repr::Unreachable { code, quote: data },
            (kind::PACKET_TOO_BIG, _) => Icmpv6Repr::PacketTooBig { mtu: h.value(), quote: data },
            (kind::TIME_EXCEEDED, _) => Icmpv6Repr::TimeExceeded { code, quote: data },
            (kind::PARAMETER_PROBLEM, _) => {
                Icmpv6Repr::ParameterProblem { code, pointer: h.value(), quote: data }
            }
            (kind::ECHO_REQUEST | kind::ECHO_REPLY, _) => return Err(unexpected("code", code)),
            (other, _) => return Err(unexpected("type", other)),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes: header and data.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the message to the front of `buf`, with its checksum between these addresses.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8], addresses: &[u8; 32]) -> Result<(), WireError> {
        let (need, have) = (self.buffer_len(), buf.len());
        let message =
            buf.get_mut(..need).ok_or(WireError::NoRoom { layer: Layer::Icmpv6, need, have })?;
        message[HEADER_LEN..].copy_from_slice(self.data());
        let (header, _) = room::<HEADER_LEN>(message, Layer::Icmpv6)?;
        self.emit_header(header);
        fill_checksum(message, addresses);
        Ok(())
    }

    /// Writes the header alone, its checksum zero, in front of data that already stand there.
    pub fn emit_header(&self, header: &mut [u8; HEADER_LEN]) {
        *header = [0; HEADER_LEN];
        header[TYPE] = self.kind();
        match *self {
            Icmpv6Repr::EchoRequest { ident, seq, .. }
            | Icmpv6Repr::EchoReply { ident, seq, .. } => {
                put(header, IDENT, ident.to_be_bytes());
                put(header, SEQ, seq.to_be_bytes());
            }
            Icmpv6Repr::PacketTooBig { mtu, .. } => put(header, VALUE, mtu.to_be_bytes()),
            Icmpv6Repr::Unreachable { code, .. } | Icmpv6Repr::TimeExceeded { code, .. } => {
                header[CODE] = code;
            }
            Icmpv6Repr::ParameterProblem { code, pointer, .. } => {
                header[CODE] = code;
                put(header, VALUE, pointer.to_be_bytes());
            }
        }
    }

    /// The type that is emitted.
    pub const fn kind(&self) -> u8 {
        match self {
            Icmpv6Repr::EchoRequest { .. } => kind::ECHO_REQUEST,
            Icmpv6Repr::EchoReply { .. } => kind::ECHO_REPLY,
            Icmpv6Repr::Unreachable { .. } => kind::UNREACHABLE,
            Icmpv6Repr::PacketTooBig { .. } => kind::PACKET_TOO_BIG,
            Icmpv6Repr::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            Icmpv6Repr::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
        }
    }

    /// Data or quote.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            Icmpv6Repr::EchoRequest { data, .. } | Icmpv6Repr::EchoReply { data, .. } => data,
            Icmpv6Repr::Unreachable { quote, .. }
            | Icmpv6Repr::PacketTooBig { quote, .. }
            | Icmpv6Repr::TimeExceeded { quote, .. }
            | Icmpv6Repr::ParameterProblem { quote, .. } => quote,
        }
    }
}

fn unexpected(field: &'static str, value: u8) -> WireError {
    WireError::BadField { layer: Layer::Icmpv6, field, value: value.into() }
}
