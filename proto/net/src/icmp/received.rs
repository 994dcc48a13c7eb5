//! Received errors: which to believe.
//!
//! Any station can send them, so the quoted packet has to be one that we could have sent: a
//! datagram from one of our addresses to another host's. RFC 5927 §4.1 has transports check more
//! than that, which only they can.

use core::net::Ipv4Addr;

use weever_wire::icmpv4::{HEADER_LEN, IcmpHeader, kind, unreachable};
use weever_wire::ipv4::{self, Ipv4Header};

use crate::addr::Ours;

/// An error about a datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedError<'a> {
    /// The message's type.
    pub kind: u8,
    /// The message's code.
    pub code: u8,
    /// For "fragmentation needed": bytes that the next link takes; 0 from routers older than RFC
    /// 1191.
    pub mtu: u16,
    /// The datagram's source: our address.
    pub local: Ipv4Addr,
    /// The datagram's destination.
    pub remote: Ipv4Addr,
    /// The quoted datagram, as much of it as there is.
    pub quote: &'a [u8],
}

impl ReceivedError<'_> {
    /// Whether it says that the datagram was too long for a link on its way.
    pub const fn is_too_big(&self) -> bool {
        self.kind == kind::UNREACHABLE && self.code == unreachable::FRAGMENTATION_NEEDED
    }

    /// The datagram's IP protocol.
    pub fn protocol(&self) -> u8 {
        Ipv4Header::first(self.quote).map_or(0, Ipv4Header::protocol)
    }

    /// The quoted bytes behind its IP header; at least eight.
    pub fn transport(&self) -> &[u8] {
        let header = Ipv4Header::first(self.quote).map_or(0, Ipv4Header::header_len);
        self.quote.get(header..).unwrap_or_default()
    }
}

/// Why an error is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorReject {
    /// It quotes less than a header and eight bytes (RFC 1122 §3.2.2 has every error do that).
    #[error("ICMP error with too short a quotation")]
    Truncated,
    /// It is no error at all.
    #[error("not an ICMP error")]
    NotAnError,
    /// We did not send the packet it is about.
    #[error("ICMP error about a datagram that we did not send")]
    NotOurs,
}

/// Looks at an ICMP message whose header and checksum are right.
///
/// # Errors
/// Why it is not to be believed.
pub fn check_error<'a>(
    message: &'a [u8],
    ours: &impl Ours,
) -> Result<ReceivedError<'a>, ErrorReject> {
    let header = IcmpHeader::first(message).ok_or(ErrorReject::Truncated)?;
    let (kind, code) = (header.kind(), header.code());
    if !matches!(kind, kind::UNREACHABLE | kind::TIME_EXCEEDED | kind::PARAMETER_PROBLEM) {
        return Err(ErrorReject::NotAnError);
    }
    let quote = message.get(HEADER_LEN..).unwrap_or_default();
    let ip = Ipv4Header::first(quote).ok_or(ErrorReject::Truncated)?;
    if ip.version() != 4 || ip.header_len() < ipv4::HEADER_LEN || quote.len() < ip.header_len() + 8
    {
        return Err(ErrorReject::Truncated);
    }
    let (local, remote) = (ip.src(), ip.dst());
    if !ours.is_ours(local) || ours.is_ours(remote) {
        return Err(ErrorReject::NotOurs);
    }
    Ok(ReceivedError { kind, code, mtu: header.mtu(), local, remote, quote })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Locals;
    use crate::icmp::Cause;
    use crate::ipv4::{protocol, template};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn ours() -> Locals {
        Locals::new(&["10.0.0.1/24".parse().unwrap()])
    }

    /// The message in which the peer reports about a datagram with this source.
    /// An error about a datagram between these addresses.
    fn about(src: Ipv4Addr, dst: Ipv4Addr, payload: usize) -> Vec<u8> {
        let mut message = std::vec![0; HEADER_LEN + ipv4::HEADER_LEN + payload];
        message[..HEADER_LEN].copy_from_slice(&Cause::FragmentationNeeded { mtu: 1400 }.header());
        let header = template(src, dst, protocol::UDP, payload as u16);
        header.emit(&mut message[HEADER_LEN..]).unwrap();
        message
    }

    #[test]
    fn what_we_sent_is_believed() {
        let message = about(US, PEER, 8);
        let found = check_error(&message, &ours()).unwrap();
        assert!(found.is_too_big() && found.transport().len() == 8);
        assert_eq!((found.mtu, found.local, found.remote), (1400, US, PEER));
        assert_eq!(found.protocol(), protocol::UDP);
    }

    #[test]
    fn what_we_did_not_send_is_not() {
        let checked = |message: &[u8]| check_error(message, &ours()).unwrap_err();
        assert_eq!(checked(&about(PEER, US, 8)), ErrorReject::NotOurs);
        assert_eq!(checked(&about(US, US, 8)), ErrorReject::NotOurs);
        assert_eq!(checked(&about(US, PEER, 7)), ErrorReject::Truncated);
        assert_eq!(checked(&[3, 4, 0, 0]), ErrorReject::Truncated);
        let mut echo = about(US, PEER, 8);
        echo[0] = kind::ECHO_REPLY;
        assert_eq!(checked(&echo), ErrorReject::NotAnError);
    }

    proptest! {
        #[test]
        fn nothing_panics(message in vec(any::<u8>(), 0..80)) {
            if let Ok(found) = check_error(&message, &ours()) {
                prop_assert!(found.local == US && found.transport().len() >= 8);
            }
        }
    }
}
