//! Messages as values.

use super::{HEADER_LEN, Icmpv6View, V6, fill_checksum, kind};
use crate::WireError;
use crate::bytes::put;
use crate::icmp::{VALUE, blank, lay_out, put_echo, unexpected};

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
            _ => return Err(unexpected::<V6>(h)),
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
        let message = lay_out::<V6>(buf, self.data(), |header| self.emit_header(header))?;
        fill_checksum(message, addresses);
        Ok(())
    }

    /// Writes the header alone, its checksum zero, in front of data that already stand there.
    pub fn emit_header(&self, header: &mut [u8; HEADER_LEN]) {
        *header = blank(self.kind(), self.code());
        match *self {
            Icmpv6Repr::EchoRequest { ident, seq, .. }
            | Icmpv6Repr::EchoReply { ident, seq, .. } => put_echo(header, ident, seq),
            Icmpv6Repr::PacketTooBig { mtu, .. } => put(header, VALUE, mtu.to_be_bytes()),
            Icmpv6Repr::ParameterProblem { pointer, .. } => {
                put(header, VALUE, pointer.to_be_bytes());
            }
            Icmpv6Repr::Unreachable { .. } | Icmpv6Repr::TimeExceeded { .. } => {}
        }
    }

    const fn code(&self) -> u8 {
        match *self {
            Icmpv6Repr::EchoRequest { .. }
            | Icmpv6Repr::EchoReply { .. }
            | Icmpv6Repr::PacketTooBig { .. } => 0,
            Icmpv6Repr::Unreachable { code, .. }
            | Icmpv6Repr::TimeExceeded { code, .. }
            | Icmpv6Repr::ParameterProblem { code, .. } => code,
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
