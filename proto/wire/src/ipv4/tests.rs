use super::*;
use etherparse::{IpFragOffset, Ipv4HeaderSlice};
use proptest::collection::vec;
use proptest::prelude::*;

prop_compose! {
    fn repr()(
        tos: u8, ident: u16, flags_frag: u16, ttl: u8, protocol: u8, src: u32, dst: u32,
        payload_len in 0u16..100,
    ) -> Ipv4Repr {
        let (src, dst) = (Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst));
        Ipv4Repr { tos, ident, flags_frag, ttl, protocol, src, dst, payload_len }
    }
}

proptest! {
    #[test]
    fn round_trip_with_padding(repr in repr()) {
        let mut buf = [0xee; HEADER_LEN + 120];
        repr.emit(&mut buf).unwrap();
        let view = Ipv4View::new(&buf).unwrap();
        prop_assert!(view.checksum_ok());
        prop_assert_eq!(view.payload().len(), usize::from(repr.payload_len));
        prop_assert_eq!(Ipv4Repr::parse(view), repr);
    }

    #[test]
    fn agrees_with_etherparse(mut bytes in vec(any::<u8>(), 0..120), ihl in 3u8..16, total in 0u8..130) {
        if bytes.len() > 4 {
            bytes[0] = 0x40 | ihl;
            bytes[2..4].copy_from_slice(&[0, total]);
        }
        // The oracle's header slice does not look at the total length; we do.
        let Ok(view) = Ipv4View::new(&bytes) else {
            let total_fits = usize::from(total) <= bytes.len() && total >= ihl * 4;
            prop_assert!(Ipv4HeaderSlice::from_slice(&bytes).is_err() || !total_fits);
            return Ok(());
        };
        let (ours, theirs) = (view.header(), Ipv4HeaderSlice::from_slice(&bytes).unwrap());
        prop_assert_eq!(view.header_bytes(), theirs.slice());
        prop_assert_eq!(ours.total_len(), usize::from(theirs.total_len()));
        prop_assert_eq!(view.payload().len(), ours.total_len() - theirs.slice().len());
        prop_assert_eq!(ours.ident(), theirs.identification());
        prop_assert_eq!(ours.dont_fragment(), theirs.dont_fragment());
        prop_assert_eq!(ours.is_fragment(), theirs.is_fragmenting_payload());
        prop_assert_eq!(ours.is_later_fragment(), theirs.fragments_offset() != IpFragOffset::ZERO);
        prop_assert_eq!(ours.ttl(), theirs.ttl());
        prop_assert_eq!(ours.protocol(), theirs.protocol().0);
        prop_assert_eq!(ours.src(), theirs.source_addr());
        prop_assert_eq!(ours.dst(), theirs.destination_addr());
        // The oracle leaves the reserved flag out of its sum.
        if bytes[6] & 0x80 == 0 {
            let right = theirs.to_header().calc_header_checksum() == theirs.header_checksum();
            prop_assert_eq!(view.checksum_ok(), right);
        }
    }

    #[test]
    fn rewriting_in_place_keeps_the_checksum(repr in repr(), ttl: u8) {
        let mut buf = [0; HEADER_LEN];
        repr.emit(&mut buf).unwrap();
        set_ttl(&mut buf, ttl);
        prop_assert!(checksum_ok(&buf));
        let header = Ipv4Header::of(&buf);
        prop_assert_eq!((header.ttl(), header.src(), header.dst()), (ttl, repr.src, repr.dst));
    }
}

#[test]
fn lies_are_named() {
    let mut buf = [0u8; 24];
    let at = |said, min, max| WireError::BadLength { layer: Layer::Ipv4, said, min, max };
    buf[0] = 0x65;
    let version = WireError::BadField { layer: Layer::Ipv4, field: "version", value: 6 };
    assert_eq!(Ipv4View::new(&buf), Err(version));
    buf[0] = 0x44;
    assert_eq!(Ipv4View::new(&buf), Err(at(16, 20, 24)));
    buf[0] = 0x47;
    assert_eq!(Ipv4View::new(&buf), Err(at(28, 20, 24)));
    buf[0] = 0x46;
    buf[3] = 23;
    assert_eq!(Ipv4View::new(&buf), Err(at(23, 24, 24)));
    buf[3] = 25;
    assert_eq!(Ipv4View::new(&buf), Err(at(25, 24, 24)));
    let cut = WireError::Truncated { layer: Layer::Ipv4, need: 20, have: 19 };
    assert_eq!(Ipv4View::new(&buf[..19]), Err(cut));
}

#[test]
fn a_datagram_too_long_for_the_length_field_is_refused() {
    let any = Ipv4Addr::UNSPECIFIED;
    let payload_len = u16::MAX - 19;
    let repr = Ipv4Repr {
        tos: 0,
        ident: 0,
        flags_frag: 0,
        ttl: 0,
        protocol: 0,
        src: any,
        dst: any,
        payload_len,
    };
    assert!(matches!(repr.emit(&mut [0; 20]), Err(WireError::BadLength { .. })));
}
