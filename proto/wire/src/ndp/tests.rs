use super::*;
use crate::icmpv6::checksum_ok;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::vec::Vec;

const ADDRESSES: [u8; 32] = [3; 32];

fn round_trip(repr: NdpRepr<'_>) {
    let mut buf = std::vec![0xee; repr.buffer_len()];
    repr.emit(&mut buf, &ADDRESSES).unwrap();
    assert!(checksum_ok(&buf, &ADDRESSES));
    assert_eq!(NdpRepr::parse(&buf), Ok(repr));
    let short = repr.buffer_len() - 1;
    assert!(repr.emit(&mut buf[..short], &ADDRESSES).is_err());
}

fn mac() -> impl Strategy<Value = Option<MacAddr>> {
    option::of(any::<[u8; 6]>().prop_map(MacAddr))
}

proptest! {
    #[test]
    fn neighbour_messages(
        target: u128, link in mac(), nonce in option::of(any::<[u8; 6]>()), flags: [bool; 3],
    ) {
        let target = Ipv6Addr::from_bits(target);
        round_trip(NdpRepr::NeighbourSolicit { target, source_link: link, nonce });
        let [router, solicited, overrides] = flags;
        let target_link = link;
        round_trip(NdpRepr::NeighbourAdvert { target, router, solicited, overrides, target_link });
        let destination = Ipv6Addr::from_bits(!target.to_bits());
        round_trip(NdpRepr::Redirect { target, destination, target_link });
        round_trip(NdpRepr::RouterSolicit { source_link: link });
    }

    #[test]
    fn router_adverts(
        bits: (u8, u8, u16, u32, u32), prefix: u128, prefix_len: u8, mtu: u32, link: [u8; 6],
    ) {
        let prefix = PrefixInfo {
            prefix: Ipv6Addr::from_bits(prefix),
            prefix_len,
            on_link: bits.1 & 1 != 0,
            autonomous: bits.1 & 2 != 0,
            valid: bits.3,
            preferred: bits.4,
        };
        let listed = [
            NdpOption::SourceLink(MacAddr(link)),
            NdpOption::Mtu(mtu),
            NdpOption::Prefix(prefix),
            NdpOption::Other(option_kind::RDNSS, &[25, 1, 0, 0, 0, 0, 0, 0]),
        ];
        let mut area = Vec::new();
        for option in listed {
            let mut bytes = std::vec![0xee; option.buffer_len()];
            option.emit(&mut bytes).unwrap();
            area.extend(bytes);
        }
        let options = NdpOptions::new(&area).unwrap();
        prop_assert_eq!(options.iter().collect::<Vec<_>>(), listed);
        let preference = [Preference::Low, Preference::Medium, Preference::High][usize::from(bits.1 % 3)];
        let advert = RouterAdvert {
            hop_limit: bits.0,
            managed: bits.1 & 4 != 0,
            other: bits.1 & 8 != 0,
            preference,
            lifetime: bits.2,
            reachable: bits.3,
            retrans: bits.4,
        };
        round_trip(NdpRepr::RouterAdvert { advert, options });
    }

    #[test]
    fn any_bytes_are_read_or_refused(kind in 130u8..140, mut bytes in vec(0u8..8, 0..100)) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(NdpRepr::RouterAdvert { options, .. }) = NdpRepr::parse(&bytes) {
            let seen: usize = options.iter().map(|option| option.buffer_len()).sum();
            prop_assert_eq!(seen, options.bytes().len());
        }
    }
}

#[test]
fn an_option_of_no_length_spoils_the_message() {
    let solicit = NdpRepr::NeighbourSolicit {
        target: Ipv6Addr::LOCALHOST,
        source_link: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        nonce: None,
    };
    let mut buf = [0; 32];
    solicit.emit(&mut buf, &ADDRESSES).unwrap();
    for units in [0, 2] {
        buf[25] = units;
        assert!(matches!(NdpRepr::parse(&buf), Err(WireError::BadLength { .. })));
    }
    buf[25] = 1;
    buf[1] = 1;
    assert!(matches!(NdpRepr::parse(&buf), Err(WireError::BadField { field: "code", .. })));
}
