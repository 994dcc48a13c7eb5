//! Echo requests (RFC 4443 §4).

use weever_wire::icmpv6::{self, HEADER_LEN, Icmpv6View, kind};
use weever_wire::ipv6::{self, Ipv6Header};

use crate::addr::Destination;

/// Why a message is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EchoReject {
    /// Shorter than a header.
    #[error("ICMPv6 message cut short")]
    Truncated,
    /// Wrong checksum.
    #[error("wrong ICMPv6 checksum")]
    Checksum,
    /// Another type, or a code that is not zero.
    #[error("no ICMPv6 echo request")]
    NotARequest,
    /// Sent to a group: RFC 4443 §4.2 leaves the answer open, and one forged packet would have
    /// every node of the link answer its victim.
    #[error("ICMPv6 echo request to a group")]
    ToGroup,
}

/// Whether `message`, all that follows the headers of a packet to `destination` between these
/// `addresses` (source, then destination), is an echo request to answer.
///
/// # Errors
/// Why not.
pub fn check_echo<'a>(
    message: &'a [u8],
    addresses: &[u8; 32],
    destination: Destination,
) -> Result<Icmpv6View<'a>, EchoReject> {
    let view = Icmpv6View::new(message).map_err(|_| EchoReject::Truncated)?;
    if !icmpv6::checksum_ok(message, addresses) {
        return Err(EchoReject::Checksum);
    }
    if (view.header().kind(), view.header().code()) != (kind::ECHO_REQUEST, 0) {
        return Err(EchoReject::NotARequest);
    }
    if destination == Destination::Local { Ok(view) } else { Err(EchoReject::ToGroup) }
}

/// Turns a packet without extension headers that carries an echo request into its reply, where it
/// stands: no copy of the data, no sum over it. Returns false, with nothing changed, if either
/// header is not whole.
///
/// RFC 4443 §4.2: "The data received in the ICMPv6 Echo Request message MUST be returned entirely
/// and unmodified in the ICMPv6 Echo Reply message."
pub fn reply_in_place(packet: &mut [u8], hop_limit: u8) -> bool {
    let Some((ip, rest)) = packet.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>() else {
        return false;
    };
    let whole = Ipv6Header::of(ip).payload_len() <= rest.len();
    let Some(message) = rest.first_chunk_mut::<HEADER_LEN>().filter(|_| whole) else {
        return false;
    };
    icmpv6::make_echo_reply(message);
    ipv6::swap_addresses(ip);
    ipv6::set_hop_limit(ip, hop_limit);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::template;
    use std::vec::Vec;
    use weever_wire::icmpv6::Icmpv6Repr;

    fn request(data: &[u8]) -> (Vec<u8>, [u8; 32]) {
        let repr = Icmpv6Repr::EchoRequest { ident: 3, seq: 4, data };
        let (src, dst) = ("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let len = repr.buffer_len();
        let mut packet = std::vec![0; 40 + len];
        template(src, dst, 58, len as u16).emit(&mut packet).unwrap();
        let addresses = Ipv6Header::first(&packet).unwrap().addresses();
        repr.emit(&mut packet[40..], &addresses).unwrap();
        (packet, addresses)
    }

    #[test]
    fn the_reply_goes_back_with_the_data() {
        let (mut packet, addresses) = request(b"data");
        assert!(check_echo(&packet[40..], &addresses, Destination::Local).is_ok());
        assert!(reply_in_place(&mut packet, 64));
        let header = Ipv6Header::first(&packet).unwrap();
        let back = header.addresses();
        assert_eq!((&back[..16], &back[16..]), (&addresses[16..], &addresses[..16]));
        assert!(icmpv6::checksum_ok(&packet[40..], &back));
        let wanted = Icmpv6Repr::EchoReply { ident: 3, seq: 4, data: b"data" };
        assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&packet[40..]).unwrap()), Ok(wanted));
        let ask = check_echo(&packet[40..], &back, Destination::Local);
        assert_eq!(ask, Err(EchoReject::NotARequest));
    }

    #[test]
    fn what_is_not_answered() {
        let (packet, addresses) = request(b"data");
        let ask = |message: &[u8], to| check_echo(message, &addresses, to).err();
        assert_eq!(ask(&packet[40..], Destination::Multicast), Some(EchoReject::ToGroup));
        assert_eq!(ask(&packet[40..47], Destination::Local), Some(EchoReject::Truncated));
        assert_eq!(ask(&packet[40..51], Destination::Local), Some(EchoReject::Checksum));
        assert!(!reply_in_place(&mut packet[..47].to_vec(), 64));
    }
}
