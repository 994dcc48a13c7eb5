//! The echo server: RFC 1122 §3.2.2.6, "Every host MUST implement an ICMP Echo server function
//! that receives Echo Requests and sends corresponding Echo Replies."

use weever_wire::icmpv4::{self, HEADER_LEN, IcmpView, kind};
use weever_wire::ipv4::{self, Ipv4View};

use crate::addr::Destination;

/// Why a message is not answered as an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EchoReject {
    /// It ends before its header does.
    #[error("truncated ICMP message")]
    Truncated,
    /// Its checksum is wrong.
    #[error("wrong ICMP checksum")]
    Checksum,
    /// It is no echo request.
    #[error("not an echo request")]
    NotARequest,
    /// It was sent to a group: RFC 1122 §3.2.2.6, "An ICMP Echo Request destined to an IP
    /// broadcast or IP multicast address MAY be silently discarded." It is, as it is the means of
    /// an amplification attack (RFC 2644).
    #[error("echo request to a broadcast or multicast address")]
    ToGroup,
}

/// Whether `message`, the payload of a datagram to `destination`, is an echo request to answer.
///
/// # Errors
/// Why not.
pub fn check_echo(message: &[u8], destination: Destination) -> Result<IcmpView<'_>, EchoReject> {
    let view = IcmpView::new(message).map_err(|_| EchoReject::Truncated)?;
    if !view.checksum_ok() {
        return Err(EchoReject::Checksum);
    }
    if (view.header().kind(), view.header().code()) != (kind::ECHO_REQUEST, 0) {
        return Err(EchoReject::NotARequest);
    }
    if destination == Destination::Local { Ok(view) } else { Err(EchoReject::ToGroup) }
}

/// Turns a datagram with an echo request that [`check_echo`] accepted into its reply, where it
/// stands: no copy of the data, no sum over it. Returns false, with nothing changed, if either
/// header is not whole.
///
/// RFC 1122 §3.2.2.6: "The IP source address in an ICMP Echo Reply MUST be the same as the
/// specific-destination address of the corresponding ICMP Echo Request message", and "Data
/// received in an ICMP Echo Request MUST be entirely included in the resulting Echo Reply."
/// Options stay as they are: a record route goes back unchanged. The time to live becomes `ttl`.
pub fn reply_in_place(datagram: &mut [u8], ttl: u8) -> bool {
    let Ok(view) = Ipv4View::new(datagram) else { return false };
    let l4 = view.header_bytes().len();
    if view.payload().len() < HEADER_LEN {
        return false;
    }
    let Some(message) = datagram[l4..].first_chunk_mut() else { return false };
    icmpv4::make_echo_reply(message);
    let Some(header) = datagram.first_chunk_mut() else { return false };
    ipv4::swap_addresses(header);
    ipv4::set_ttl(header, ttl);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;
    use weever_wire::icmpv4::IcmpRepr;
    use weever_wire::ipv4::{Ipv4Repr, protocol};

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn request(data: &[u8]) -> Vec<u8> {
        let repr = IcmpRepr::EchoRequest { ident: 3, seq: 4, data };
        let ip = Ipv4Repr {
            ttl: 3,
            ..crate::ipv4::template(PEER, US, protocol::ICMP, repr.buffer_len() as u16)
        };
        let mut packet = std::vec![0; 20 + repr.buffer_len()];
        ip.emit(&mut packet).unwrap();
        repr.emit(&mut packet[20..]).unwrap();
        packet
    }

    #[test]
    fn every_reason() {
        let packet = request(b"data");
        let message = &packet[20..];
        let ask = |message: &[u8], destination| check_echo(message, destination).err();
        assert_eq!(ask(message, Destination::Local), None);
        assert_eq!(ask(message, Destination::Broadcast), Some(EchoReject::ToGroup));
        assert_eq!(ask(message, Destination::Multicast), Some(EchoReject::ToGroup));
        assert_eq!(ask(&message[..7], Destination::Local), Some(EchoReject::Truncated));
        assert_eq!(ask(&message[..11], Destination::Local), Some(EchoReject::Checksum));
        let mut reply = message.to_vec();
        icmpv4::make_echo_reply(reply.first_chunk_mut().unwrap());
        assert_eq!(ask(&reply, Destination::Local), Some(EchoReject::NotARequest));
    }

    #[test]
    fn a_message_without_a_whole_header_is_left_alone() {
        let mut packet = request(&[]);
        packet[3] = 27;
        let before = packet.clone();
        assert!(!reply_in_place(&mut packet, 64));
        assert_eq!(packet, before);
    }

    proptest! {
        #[test]
        fn the_reply_goes_back_with_the_data(data in vec(any::<u8>(), 0..100)) {
            let mut packet = request(&data);
            prop_assert!(reply_in_place(&mut packet, 64));
            let ip = Ipv4View::new(&packet).unwrap();
            prop_assert!(ip.checksum_ok());
            let header = ip.header();
            prop_assert_eq!((header.src(), header.dst(), header.ttl()), (US, PEER, 64));
            let icmp = IcmpView::new(ip.payload()).unwrap();
            prop_assert!(icmp.checksum_ok());
            let wanted = IcmpRepr::EchoReply { ident: 3, seq: 4, data: &data };
            prop_assert_eq!(IcmpRepr::parse(icmp), Ok(wanted));
        }

        #[test]
        fn any_bytes_are_answered_or_left_alone(bytes in vec(any::<u8>(), 0..60), looks_ok: bool) {
            let mut packet = bytes.clone();
            if looks_ok && packet.len() >= 20 {
                packet[..4].copy_from_slice(&[0x45, 0, 0, bytes.len() as u8]);
            }
            let before = packet.clone();
            let whole = Ipv4View::new(&before).is_ok_and(|view| view.payload().len() >= HEADER_LEN);
            prop_assert_eq!(reply_in_place(&mut packet, 1), whole);
            prop_assert!(whole || packet == before);
            prop_assert!(check_echo(&packet, Destination::Local).is_err());
        }
    }
}
