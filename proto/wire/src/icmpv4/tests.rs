use super::*;
use etherparse::{Icmpv4Slice, Icmpv4Type, icmpv4};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn emitted(repr: IcmpRepr<'_>) -> Vec<u8> {
    let mut buf = vec![0xee; repr.buffer_len()];
    repr.emit(&mut buf).unwrap();
    buf
}

fn every_kind(code: u8, a: u16, b: u16, data: &[u8]) -> [IcmpRepr<'_>; 5] {
    [
        IcmpRepr::EchoRequest { ident: a, seq: b, data },
        IcmpRepr::EchoReply { ident: a, seq: b, data },
        IcmpRepr::Unreachable { code, mtu: a, quote: data },
        IcmpRepr::TimeExceeded { code, quote: data },
        IcmpRepr::ParameterProblem { code, pointer: a as u8, quote: data },
    ]
}

proptest! {
    #[test]
    fn round_trip(code: u8, a: u16, b: u16, data in vec(any::<u8>(), 0..60)) {
        for repr in every_kind(code, a, b, &data) {
            let buf = emitted(repr);
            let view = IcmpView::new(&buf).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(IcmpRepr::parse(view), Ok(repr));
        }
    }

    #[test]
    fn an_echo_agrees_with_etherparse(ident: u16, seq: u16, data in vec(any::<u8>(), 0..60)) {
        let buf = emitted(IcmpRepr::EchoRequest { ident, seq, data: &data });
        let theirs = Icmpv4Slice::from_slice(&buf).unwrap();
        let Icmpv4Type::EchoRequest(echo) = theirs.icmp_type() else { panic!("not an echo") };
        prop_assert_eq!((echo.id, echo.seq), (ident, seq));
        prop_assert_eq!(theirs.icmp_type().calc_checksum(&data), theirs.checksum());
    }

    #[test]
    fn a_request_becomes_its_reply(ident: u16, seq: u16, data in vec(any::<u8>(), 0..60)) {
        let mut buf = emitted(IcmpRepr::EchoRequest { ident, seq, data: &data });
        make_echo_reply(buf.first_chunk_mut().unwrap());
        let view = IcmpView::new(&buf).unwrap();
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(IcmpRepr::parse(view), Ok(IcmpRepr::EchoReply { ident, seq, data: &data }));
    }

    #[test]
    fn any_bytes_parse_or_fail(bytes in vec(any::<u8>(), 0..40)) {
        match IcmpView::new(&bytes) {
            Ok(view) => {
                let again = IcmpRepr::parse(view).map(|repr| emitted(repr)[0]);
                prop_assert!(again.is_err() || again == Ok(bytes[0]));
            }
            Err(_) => prop_assert!(bytes.len() < HEADER_LEN),
        }
    }
}

#[test]
fn fragmentation_needed_carries_the_mtu_where_rfc_1191_puts_it() {
    let code = unreachable::FRAGMENTATION_NEEDED;
    let buf = emitted(IcmpRepr::Unreachable { code, mtu: 1400, quote: &[] });
    let theirs = Icmpv4Slice::from_slice(&buf).unwrap().icmp_type();
    let wanted = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 };
    assert_eq!(theirs, Icmpv4Type::DestinationUnreachable(wanted));
}

#[test]
fn numbers_are_those_of_rfc_792() {
    use unreachable::{FRAGMENTATION_NEEDED, HOST, NET, PORT, PROTOCOL, SOURCE_ROUTE};
    assert_eq!([NET, HOST, PROTOCOL, PORT, FRAGMENTATION_NEEDED, SOURCE_ROUTE], [0, 1, 2, 3, 4, 5]);
}

#[test]
fn unknown_types_count_as_errors() {
    let errors: Vec<u8> = (0..=255).filter(|&k| kind::is_error(k)).collect();
    assert!([3, 4, 5, 11, 12, 200].iter().all(|k| errors.contains(k)));
    assert!([0, 8, 13, 14, 17, 18].iter().all(|k| !errors.contains(k)));
}
