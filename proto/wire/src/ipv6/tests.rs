use super::*;
use etherparse::Ipv6HeaderSlice;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn round_trip(
        traffic_class: u8, flow_label in 0u32..1 << 20, payload_len in 0u16..50,
        next_header: u8, hop_limit: u8, src: u128, dst: u128,
    ) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let repr = Ipv6Repr {
            traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst,
        };
        let mut buf = [0xee; HEADER_LEN + 50];
        repr.emit(&mut buf).unwrap();
        prop_assert_eq!(Ipv6Repr::parse(Ipv6View::new(&buf).unwrap()), repr);
    }

    #[test]
    fn agrees_with_etherparse(mut bytes in vec(any::<u8>(), 0..80), len in 0u8..50) {
        if bytes.len() > 6 {
            bytes[0] = 0x60 | bytes[0] & 0xf;
            bytes[4..6].copy_from_slice(&[0, len]);
        }
        let Ok(view) = Ipv6View::new(&bytes) else {
            prop_assert!(bytes.len() < HEADER_LEN + usize::from(len));
            return Ok(());
        };
        let (ours, theirs) = (view.header(), Ipv6HeaderSlice::from_slice(&bytes).unwrap());
        prop_assert_eq!(ours.traffic_class(), theirs.traffic_class());
        prop_assert_eq!(ours.flow_label(), theirs.flow_label().value());
        prop_assert_eq!(view.payload().len(), usize::from(theirs.payload_length()));
        prop_assert_eq!(ours.next_header(), theirs.next_header().0);
        prop_assert_eq!(ours.hop_limit(), theirs.hop_limit());
        prop_assert_eq!(ours.src(), theirs.source_addr());
        prop_assert_eq!(ours.dst(), theirs.destination_addr());
    }
}

fn header(next_header: u8, payload: &[u8]) -> std::vec::Vec<u8> {
    let repr = Ipv6Repr {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit: 64,
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };
    let mut packet = [0; HEADER_LEN].to_vec();
    repr.emit(&mut packet).unwrap();
    packet.extend_from_slice(payload);
    packet
}

fn walk(next_header: u8, payload: &[u8]) -> Result<(u8, usize), ChainFault> {
    Chain::walk(&header(next_header, payload)).map(|chain| (chain.protocol, chain.offset - 40))
}

const UDP: u8 = 17;

#[test]
fn chains_in_any_order() {
    assert_eq!(walk(UDP, &[]), Ok((UDP, 0)));
    assert_eq!(walk(59, &[]), Ok((59, 0)));
    let one = [UDP, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(walk(0, &one), Ok((UDP, 8)));
    // RFC 8200 §4.1: accepted in any order and number.
    let many = [
        &[60, 0, 5, 2, 0, 0, 1, 0][..],
        &[43, 0, 0, 0, 0, 0, 0, 0],
        &[60, 0, 4, 0, 0, 0, 0, 0],
        &one,
    ]
    .concat();
    assert_eq!(walk(0, &many), Ok((UDP, 32)));
    let chain = Chain::walk(&header(0, &many)).unwrap();
    assert!(chain.router_alert);
    assert_eq!(chain.pointer, 40 + 24);
}

#[test]
fn fragments_end_the_walk_unless_they_are_whole() {
    assert_eq!(walk(44, &[UDP, 0, 0, 0, 0, 0, 0, 1]), Ok((UDP, 8)), "atomic");
    for offset in [[0, 1], [0, 8], [0xff, 0xf9]] {
        let fragment = [UDP, 0, offset[0], offset[1], 0, 0, 0, 1];
        assert_eq!(walk(44, &fragment), Ok((44, 0)));
    }
    assert_eq!(walk(44, &[UDP, 0, 0]), Err(ChainFault::Truncated));
}

#[test]
fn skimming_passes_over_what_a_walk_stops_at() {
    let routed = [58, 0, 0, 1, 0, 0, 0, 0];
    assert!(walk(43, &routed).is_err());
    assert_eq!(Chain::skim(&header(43, &routed)), Some((58, 48)));
    assert_eq!(Chain::skim(&header(44, &[UDP, 0, 0, 1, 0, 0, 0, 0])), Some((UDP, 48)), "first");
    assert_eq!(Chain::skim(&header(44, &[UDP, 0, 0, 8, 0, 0, 0, 0])), None);
    assert_eq!(Chain::skim(&header(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(20))), None);
    assert_eq!(Chain::skim(&header(0, &[UDP])), None);
}

#[test]
fn every_chain_fault() {
    let hop = [0, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(
        walk(0, &[&hop[..], &hop].concat()),
        Err(ChainFault::HopByHopNotFirst { pointer: 40 })
    );
    assert_eq!(walk(60, &[UDP]), Err(ChainFault::Truncated));
    assert_eq!(walk(60, &[UDP, 1, 1, 12, 0, 0, 0, 0]), Err(ChainFault::Truncated));
    assert_eq!(walk(60, &[UDP, 0, 1, 9, 0, 0, 0, 0]), Err(ChainFault::Truncated), "an option");
    for (kind, report) in [
        (0x40, OptionReport::Never),
        (0x80, OptionReport::Always),
        (0xc2, OptionReport::UnlessGroup),
    ] {
        let unknown = [UDP, 0, 0, 0, kind, 2, 0, 0];
        assert_eq!(walk(60, &unknown), Err(ChainFault::Option { pointer: 44, report }));
    }
    assert_eq!(walk(60, &[UDP, 0, 0x3e, 4, 9, 9, 9, 9]), Ok((UDP, 8)), "may be skipped");
    assert_eq!(walk(43, &[UDP, 0, 0, 1, 0, 0, 0, 0]), Err(ChainFault::Routing { pointer: 42 }));
    let nine = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
    assert_eq!(walk(60, &nine), Err(ChainFault::TooMany));
    let mut long = [UDP, 64].to_vec();
    long.resize(8 + 64 * 8, 0);
    assert_eq!(walk(60, &long), Err(ChainFault::TooLong));
    let mut padded = [UDP, 1].to_vec();
    padded.resize(16, 0);
    assert_eq!(walk(60, &padded), Ok((UDP, 16)));
    let mut swamped = [UDP, 2].to_vec();
    swamped.resize(24, 0);
    assert_eq!(walk(60, &swamped), Err(ChainFault::TooLong));
}

proptest! {
    #[test]
    fn a_walk_ends_within_the_packet(next in 0u8..61, payload in vec(0u8..62, 0..200)) {
        if let Ok(chain) = Chain::walk(&header(next, &payload)) {
            prop_assert!(chain.offset <= 40 + payload.len());
            prop_assert!(!is_extension(chain.protocol) || chain.protocol == next_header::FRAGMENT);
            let packet = header(next, &payload);
            prop_assert_eq!(packet[chain.pointer], chain.protocol);
        }
    }

    #[test]
    fn fragment_round_trip(next_header: u8, units in 0u16..8192, more: bool, ident: u32) {
        let repr = FragmentRepr { next_header, offset: units * 8, more, ident };
        let mut buf = [0xee; FRAGMENT_LEN];
        repr.emit(&mut buf).unwrap();
        let header = FragmentHeader::of(&buf);
        prop_assert_eq!(FragmentRepr::parse(header), repr);
        prop_assert_eq!(header.is_atomic(), units == 0 && !more);
    }

    #[test]
    fn what_is_done_in_place(src: u128, dst: u128, hop_limit: u8) {
        let mut packet = header(17, &[]);
        let bytes = packet.first_chunk_mut().unwrap();
        put(bytes, SRC, src.to_be_bytes());
        put(bytes, DST, dst.to_be_bytes());
        set_hop_limit(bytes, hop_limit);
        let header = Ipv6Header::of(bytes);
        prop_assert_eq!((header.src().to_bits(), header.dst().to_bits()), (src, dst));
        prop_assert_eq!(header.hop_limit(), hop_limit);
        prop_assert_eq!(header.addresses()[..16].to_vec(), src.to_be_bytes().to_vec());
    }
}

#[test]
fn addresses_of_both_families_survive_as_sixteen_bytes() {
    for text in [
        "192.0.2.1",
        "0.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::192.0.2.1",
        "2001:db8::ffff:c000:201",
    ] {
        let addr: core::net::IpAddr = text.parse().unwrap();
        assert_eq!(unmapped(mapped(addr)), addr, "{text}");
    }
    let v4_in_v6: core::net::Ipv6Addr = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(unmapped(v4_in_v6.octets()), v4_in_v6.to_canonical());
}
