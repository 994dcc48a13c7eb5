use super::*;
use crate::addr::Locals;
use crate::icmp::Cause;
use crate::ipv4::template;
use core::net::Ipv4Addr;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;
use weever_wire::ipv4::Ipv4Repr;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn locals() -> Locals {
    Locals::new(&["10.0.0.1/24".parse().unwrap()])
}

fn packet(change: impl FnOnce(&mut Ipv4Repr), payload: &[u8]) -> Vec<u8> {
    let mut repr = template(PEER, US, protocol::UDP, payload.len() as u16);
    change(&mut repr);
    let mut packet = [&[0; 20], payload].concat();
    repr.emit(&mut packet).unwrap();
    packet
}

fn asked(change: impl FnOnce(&mut Ipv4Repr), payload: &[u8]) -> Result<(), Silence> {
    may_report(&packet(change, payload), false, &locals())
}

#[test]
fn rfc_1122_section_3_2_2() {
    let icmp = |kind: u8| asked(|r| r.protocol = protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(asked(|_| {}, &[0; 8]), Ok(()));
    assert_eq!(icmp(kind::ECHO_REQUEST), Ok(()));
    for error in [kind::UNREACHABLE, kind::TIME_EXCEEDED, kind::REDIRECT, 200] {
        assert_eq!(icmp(error), Err(Silence::AboutAnError), "{error}");
    }
    assert_eq!(asked(|r| r.protocol = protocol::ICMP, &[]), Err(Silence::AboutAnError));
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 255)] {
        assert_eq!(asked(|r| r.dst = dst, &[]), Err(Silence::ToGroup), "{dst}");
    }
    assert_eq!(asked(|r| r.flags_frag = 1, &[]), Err(Silence::LaterFragment));
    assert_eq!(asked(|r| r.flags_frag = 0x2000, &[]), Ok(()), "the first fragment");
    for src in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "10.0.0.255"] {
        assert_eq!(asked(|r| r.src = src.parse().unwrap(), &[]), Err(Silence::SourceNotAHost));
    }
    let sent_to_all = may_report(&packet(|_| {}, &[]), true, &locals());
    assert_eq!(sent_to_all, Err(Silence::LinkBroadcast));
    assert_eq!(may_report(&[0x45; 19], false, &locals()), Err(Silence::Truncated));
    assert_eq!(may_report(&[0x46; 20], false, &locals()), Err(Silence::Truncated));
}

proptest! {
    #[test]
    fn an_error_quotes_what_fits_and_no_padding(
        payload in vec(any::<u8>(), 0..1400), padding in 0usize..20,
    ) {
        let mut datagram = packet(|_| {}, &payload);
        let whole = datagram.len();
        datagram.resize(whole + padding, 0xaa);
        prop_assert_eq!(quote_len(&datagram), whole.min(MAX_ERROR_LEN - 28));
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..80)) {
        prop_assert!(quote_len(&bytes) <= bytes.len());
        if may_report(&bytes, false, &locals()).is_ok() {
            prop_assert!(bytes.len() >= 20);
        }
    }

    /// The loop that the rules exist to prevent: nothing is ever reported about a report.
    #[test]
    fn never_about_a_report(quote in vec(any::<u8>(), 0..60)) {
        let message = [&Cause::ProtocolUnreachable.header()[..], &quote].concat();
        let report = packet(|r| (r.src, r.dst, r.protocol) = (US, PEER, protocol::ICMP), &message);
        let peer = Locals::new(&["10.0.0.2/24".parse().unwrap()]);
        prop_assert_eq!(may_report(&report, false, &peer), Err(Silence::AboutAnError));
    }
}
