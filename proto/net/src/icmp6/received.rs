//! Received errors (RFC 4443 §2.4, RFC 8201): which are about packets of ours.

use core::net::Ipv6Addr;

use weever_wire::icmpv6::{Icmpv6Repr, Icmpv6View};
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::{Chain, HEADER_LEN, Ipv6Header, next_header};

use crate::ipv6::MIN_MTU;

/// An error about a packet of ours, as far as it quotes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceivedError {
    /// ICMPv6 type.
    pub kind: u8,
    /// ICMPv6 code.
    pub code: u8,
    /// The MTU, of "packet too big", never below [`MIN_MTU`]; the pointer of a parameter problem.
    pub value: u32,
    /// The packet's length in bytes, as its header says.
    pub length: u32,
    /// Our address that the packet was from.
    pub local: Ipv6Addr,
    /// The packet's destination, to which a path MTU applies (RFC 8201 §5.2).
    pub remote: Ipv6Addr,
    /// Whether it is a fragment of a longer packet.
    pub fragment: bool,
    /// Its transport protocol, and our port and the other's if that is UDP or TCP.
    pub protocol: u8,
    /// Our port, then the peer's.
    pub ports: Option<(u16, u16)>,
}

/// Why an error is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorReject {
    /// Another message than an error that is known.
    #[error("no ICMPv6 error that is known")]
    NotAnError,
    /// The quoted bytes are not a packet's header and the ports behind it.
    #[error("ICMPv6 error that quotes too little")]
    Quote,
    /// The quoted packet was not sent by us (RFC 5927 §4.1).
    #[error("ICMPv6 error about a packet that we did not send")]
    NotOurs,
    /// RFC 8201 §4: "A node MUST discard" a "packet too big" below 1,280 for which no fragment
    /// header is wanted any more (RFC 6946, RFC 8200 §5).
    #[error("path MTU below 1280")]
    TinyMtu,
}

/// Reads an error in `message`, whose checksum was verified; `is_ours` knows our addresses.
///
/// # Errors
/// Why it says nothing about us.
pub fn check_error(
    message: &[u8],
    is_ours: impl Fn(Ipv6Addr) -> bool,
) -> Result<ReceivedError, ErrorReject> {
    let view = Icmpv6View::new(message).map_err(|_| ErrorReject::NotAnError)?;
    let (value, quote) = match Icmpv6Repr::parse(view) {
        Ok(Icmpv6Repr::PacketTooBig { mtu, quote }) => (mtu, quote),
        Ok(Icmpv6Repr::ParameterProblem { pointer, quote, .. }) => (pointer, quote),
        Ok(Icmpv6Repr::Unreachable { quote, .. } | Icmpv6Repr::TimeExceeded { quote, .. }) => {
            (0, quote)
        }
        _ => return Err(ErrorReject::NotAnError),
    };
    let (kind, code) = (view.header().kind(), view.header().code());
    let header = Ipv6Header::first(quote).ok_or(ErrorReject::Quote)?;
    let (local, remote) = (header.src(), header.dst());
    if !is_ours(local) {
        return Err(ErrorReject::NotOurs);
    }
    if kind == weever_wire::icmpv6::kind::PACKET_TOO_BIG && value < MIN_MTU.into() {
        return Err(ErrorReject::TinyMtu);
    }
    let (protocol, at) = Chain::skim(quote).ok_or(ErrorReject::Quote)?;
    let ports = ports(protocol, quote.get(at..).unwrap_or_default())?;
    let length = (HEADER_LEN + header.payload_len()) as u32;
    let fragment = header.next_header() == next_header::FRAGMENT;
    Ok(ReceivedError { kind, code, value, length, fragment, local, remote, protocol, ports })
}

fn ports(protocol: u8, transport: &[u8]) -> Result<Option<(u16, u16)>, ErrorReject> {
    if !matches!(protocol, protocol::UDP | protocol::TCP) {
        return Ok(None);
    }
    let [a, b, c, d] = *transport.first_chunk().ok_or(ErrorReject::Quote)?;
    Ok(Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::template;
    use std::vec::Vec;
    use weever_wire::icmpv6::kind;

    fn ours(ip: Ipv6Addr) -> bool {
        ip == us()
    }

    fn us() -> Ipv6Addr {
        "2001:db8::1".parse().unwrap()
    }

    fn peer() -> Ipv6Addr {
        "2001:db8:9::2".parse().unwrap()
    }

    fn sent(from: Ipv6Addr) -> Vec<u8> {
        let mut packet = [0; 60].to_vec();
        template(from, peer(), protocol::UDP, 20).emit(&mut packet).unwrap();
        packet[40..44].copy_from_slice(&[0x13, 0x88, 0, 7]);
        packet
    }

    fn checked(repr: Icmpv6Repr<'_>) -> Result<ReceivedError, ErrorReject> {
        let mut message = std::vec![0; repr.buffer_len()];
        repr.emit(&mut message, &[0; 32]).unwrap();
        check_error(&message, ours)
    }

    #[test]
    fn an_error_about_our_packet_names_its_ends() {
        let quote = &sent(us())[..];
        let wanted = ReceivedError {
            kind: kind::PACKET_TOO_BIG,
            code: 0,
            value: 1400,
            length: 60,
            fragment: false,
            local: us(),
            remote: peer(),
            protocol: 17,
            ports: Some((5000, 7)),
        };
        assert_eq!(checked(Icmpv6Repr::PacketTooBig { mtu: 1400, quote }), Ok(wanted));
        let port = checked(Icmpv6Repr::Unreachable { code: 4, quote }).unwrap();
        assert_eq!((port.kind, port.code, port.value), (kind::UNREACHABLE, 4, 0));
    }

    #[test]
    fn what_we_did_not_send_is_not_believed() {
        let (quote, foreign) = (&sent(us())[..], &sent(peer())[..]);
        let big = |mtu, quote| checked(Icmpv6Repr::PacketTooBig { mtu, quote }).err();
        assert_eq!(big(1400, foreign), Some(ErrorReject::NotOurs));
        assert_eq!(big(1279, quote), Some(ErrorReject::TinyMtu));
        assert_eq!(big(1400, &quote[..39]), Some(ErrorReject::Quote));
        assert_eq!(big(1400, &quote[..43]), Some(ErrorReject::Quote));
        let echo = checked(Icmpv6Repr::EchoReply { ident: 1, seq: 1, data: quote });
        assert_eq!(echo, Err(ErrorReject::NotAnError));
    }
}
