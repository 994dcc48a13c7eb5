use super::*;
use etherparse::{Icmpv6Header as Oracle, Icmpv6Type};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

fn any_message(data: &[u8]) -> impl Iterator<Item = Icmpv6Repr<'_>> {
    [
        Icmpv6Repr::EchoRequest { ident: 0x1234, seq: 9, data },
        Icmpv6Repr::EchoReply { ident: 1, seq: 0xffff, data },
        Icmpv6Repr::Unreachable { code: unreachable::PORT, quote: data },
        Icmpv6Repr::PacketTooBig { mtu: 0x1_2345, quote: data },
        Icmpv6Repr::TimeExceeded { code: 1, quote: data },
        Icmpv6Repr::ParameterProblem { code: 2, pointer: 0x1_0007, quote: data },
    ]
    .into_iter()
}

fn written(repr: Icmpv6Repr<'_>, addresses: &[u8; 32]) -> Vec<u8> {
    let mut buf = std::vec![0xee; repr.buffer_len()];
    repr.emit(&mut buf, addresses).unwrap();
    buf
}

proptest! {
    #[test]
    fn round_trip_and_checksum_agree_with_etherparse(
        data in vec(any::<u8>(), 0..100), src: [u8; 16], dst: [u8; 16],
    ) {
        let addresses: [u8; 32] = [src, dst].concat().try_into().unwrap();
        for repr in any_message(&data) {
            let buf = written(repr, &addresses);
            prop_assert!(checksum_ok(&buf, &addresses));
            prop_assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&buf).unwrap()), Ok(repr));
            let (mut theirs, rest) = Oracle::from_slice(&buf).unwrap();
            let field = theirs.checksum;
            theirs.update_checksum(src, dst, rest).unwrap();
            prop_assert_eq!(field, theirs.checksum);
        }
    }

    #[test]
    fn damage_is_noticed(data in vec(any::<u8>(), 1..60), at in 8usize..67, bit in 0u8..8) {
        let addresses = [7; 32];
        let mut buf = written(Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: &data }, &addresses);
        let at = at % buf.len();
        buf[at] ^= 1 << bit;
        prop_assert!(!checksum_ok(&buf, &addresses));
    }

    #[test]
    fn a_reply_made_in_place_is_the_reply(data in vec(any::<u8>(), 0..60), swap: [u8; 32]) {
        let mut buf = written(Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: &data }, &swap);
        make_echo_reply(buf.first_chunk_mut().unwrap());
        let mut back = [0; 32];
        back[..16].copy_from_slice(&swap[16..]);
        back[16..].copy_from_slice(&swap[..16]);
        prop_assert_eq!(buf, written(Icmpv6Repr::EchoReply { ident: 1, seq: 2, data: &data }, &back));
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in vec(any::<u8>(), 0..40)) {
        if let Ok(view) = Icmpv6View::new(&bytes) {
            let _ = Icmpv6Repr::parse(view);
        }
        fill_checksum(&mut bytes.clone(), &[0; 32]);
    }
}

#[test]
fn etherparse_agrees_on_types() {
    let addresses = [0; 32];
    let buf = written(Icmpv6Repr::PacketTooBig { mtu: 1280, quote: &[1, 2] }, &addresses);
    let (header, _) = Oracle::from_slice(&buf).unwrap();
    assert!(matches!(header.icmp_type, Icmpv6Type::PacketTooBig { mtu: 1280 }));
    assert!(kind::is_error(kind::PARAMETER_PROBLEM) && !kind::is_error(kind::ECHO_REQUEST));
}
