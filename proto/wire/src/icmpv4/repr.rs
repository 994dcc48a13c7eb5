//! Messages as values.

use super::{CHECKSUM, CODE, HEADER_LEN, IDENT, IcmpView, MTU, POINTER, SEQ, TYPE, kind};
use crate::bytes::{put, room};
use crate::checksum;
use crate::{Layer, WireError};

/// A message and its data. An error's `quote` is the header and the first bytes of the datagram
/// that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 792")]
pub enum IcmpRepr<'a> {
    /// Please answer with the same data.
    EchoRequest { ident: u16, seq: u16, data: &'a [u8] },
    /// The answer.
    EchoReply { ident: u16, seq: u16, data: &'a [u8] },
    /// Not delivered; `mtu` only has a meaning if the code is "fragmentation needed".
    Unreachable { code: u8, mtu: u16, quote: &'a [u8] },
    /// Expired in transit (code 0) or in reassembly (code 1).
    TimeExceeded { code: u8, quote: &'a [u8] },
    /// A field is wrong at byte `pointer` of the quoted header.
    ParameterProblem { code: u8, pointer: u8, quote: &'a [u8] },
}

impl<'a> IcmpRepr<'a> {
    /// The values in `view`.
    ///
    /// # Errors
    /// [`WireError::BadField`] for a type or code of another kind of message.
    pub fn parse(view: IcmpView<'a>) -> Result<Self, WireError> {
        let (h, data) = (view.header(), view.data());
        let (ident, seq, code) = (h.ident(), h.seq(), h.code());
        Ok(match (h.kind(), code) {
            (kind::ECHO_REQUEST, 0) => IcmpRepr::EchoRequest { ident, seq, data },
            (kind::ECHO_REPLY, 0) => IcmpRepr::EchoReply { ident, seq, data },
            (kind::UNREACHABLE, _) => IcmpRepr::Unreachable { code, mtu: h.mtu(), quote: data },
            (kind::TIME_EXCEEDED, _) => IcmpRepr::TimeExceeded { code, quote: data },
            (kind::PARAMETER_PROBLEM, _) => {
                IcmpRepr::ParameterProblem { code, pointer: h.pointer(), quote: data }
            }
            (kind::ECHO_REQUEST | kind::ECHO_REPLY, _) => return Err(unexpected("code", code)),
            (other, _) => return Err(unexpected("type", other)),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes: header and data.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the message, checksum included, to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (need, have) = (self.buffer_len(), buf.len());
        let message =
            buf.get_mut(..need).ok_or(WireError::NoRoom { layer: Layer::Icmpv4, need, have })?;
        message[HEADER_LEN..].copy_from_slice(self.data());
        let (header, _) = room::<HEADER_LEN>(message, Layer::Icmpv4)?;
        self.emit_header(header);
        let sum = checksum::sum(message);
        let (header, _) = room::<HEADER_LEN>(message, Layer::Icmpv4)?;
        put(header, CHECKSUM, checksum::finish(sum).to_be_bytes());
        Ok(())
    }

    fn emit_header(&self, header: &mut [u8; HEADER_LEN]) {
        *header = [0; HEADER_LEN];
        match *self {
            IcmpRepr::EchoRequest { ident, seq, .. } | IcmpRepr::EchoReply { ident, seq, .. } => {
                put(header, IDENT, ident.to_be_bytes());
                put(header, SEQ, seq.to_be_bytes());
            }
            IcmpRepr::Unreachable { code, mtu, .. } => {
                header[CODE] = code;
                put(header, MTU, mtu.to_be_bytes());
            }
            IcmpRepr::TimeExceeded { code, .. } => header[CODE] = code,
            IcmpRepr::ParameterProblem { code, pointer, .. } => {
                header[CODE] = code;
                header[POINTER] = pointer;
            }
        }
        header[TYPE] = self.kind();
    }

    /// The type that is emitted.
    pub const fn kind(&self) -> u8 {
        match self {
            IcmpRepr::EchoRequest { .. } => kind::ECHO_REQUEST,
            IcmpRepr::EchoReply { .. } => kind::ECHO_REPLY,
            IcmpRepr::Unreachable { .. } => kind::UNREACHABLE,
            IcmpRepr::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            IcmpRepr::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
        }
    }

    /// Data or quote.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            IcmpRepr::EchoRequest { data, .. } | IcmpRepr::EchoReply { data, .. } => data,
            IcmpRepr::Unreachable { quote, .. }
            | IcmpRepr::TimeExceeded { quote, .. }
            | IcmpRepr::ParameterProblem { quote, .. } => quote,
        }
    }
}

fn unexpected(field: &'static str, value: u8) -> WireError {
    WireError::BadField { layer: Layer::Icmpv4, field, value: value.into() }
}
