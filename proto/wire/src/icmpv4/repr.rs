//! Messages as values.

use super::{HEADER_LEN, IcmpView, V4, kind};
use crate::bytes::put;
use crate::icmp::{MTU, VALUE, blank, lay_out, put_checksum, put_echo, unexpected};
use crate::{WireError, checksum};

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
            _ => return Err(unexpected::<V4>(h)),
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
        let message = lay_out::<V4>(buf, self.data(), |header| *header = self.header())?;
        put_checksum(message, checksum::finish(checksum::sum(message)));
        Ok(())
    }

    /// The header, its checksum zero.
    fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = blank(self.kind(), self.code());
        match *self {
            IcmpRepr::EchoRequest { ident, seq, .. } | IcmpRepr::EchoReply { ident, seq, .. } => {
                put_echo(&mut header, ident, seq);
            }
            IcmpRepr::Unreachable { mtu, .. } => put(&mut header, MTU, mtu.to_be_bytes()),
            IcmpRepr::ParameterProblem { pointer, .. } => header[VALUE] = pointer,
            IcmpRepr::TimeExceeded { .. } => {}
        }
        header
    }

    const fn code(&self) -> u8 {
        match *self {
            IcmpRepr::EchoRequest { .. } | IcmpRepr::EchoReply { .. } => 0,
            IcmpRepr::Unreachable { code, .. }
            | IcmpRepr::TimeExceeded { code, .. }
            | IcmpRepr::ParameterProblem { code, .. } => code,
        }
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
