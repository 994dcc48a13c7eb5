use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// RFC 1071 §4.1, word by word.
fn naive(data: &[u8]) -> u16 {
    let mut acc = 0u32;
    for pair in data.chunks(2) {
        acc += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

#[test]
fn rfc1071_section_3_example() {
    // The words 0001 f203 f4f5 f6f7 sum to 2ddf0, which folds to ddf2.
    let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&data), 0xddf2);
    assert_eq!(sum_array(&data), 0xddf2);
}

#[test]
fn rfc1624_section_4_example() {
    // HC = 0xdd2f, m = 0x5555, m' = 0x3285: RFC 1141 yields 0xffff, the right answer is 0x0000.
    assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn all_ones_do_not_lose_carries() {
    let data = [0xff; 65_535];
    assert_eq!(sum(&data[..65_534]), 0xffff);
    assert_eq!(sum(&data), naive(&data));
    assert_eq!(fold(u64::MAX), 0xffff);
    assert_eq!(fold(0), 0);
}

proptest! {
    #[test]
    fn equals_the_naive_sum(data in vec(any::<u8>(), 0..2000), skip in 0usize..9) {
        let data = data.get(skip..).unwrap_or(&[]);
        prop_assert_eq!(sum(data), naive(data));
    }

    #[test]
    fn fold_keeps_the_value_modulo_ffff(wide: u64) {
        let folded = fold(wide);
        prop_assert_eq!(u64::from(folded) % 0xffff, wide % 0xffff);
        prop_assert_eq!(folded == 0, wide == 0);
    }

    #[test]
    fn splits_between_any_words(data in vec(any::<u8>(), 1..300), at: prop::sample::Index) {
        let (a, b) = data.split_at(at.index(data.len()) & !1);
        prop_assert_eq!(combine(sum(a), sum(b)), sum(&data));
    }

    #[test]
    fn finished_data_validate_and_single_bit_errors_do_not(
        mut data in vec(any::<u8>(), 2..200), bit: prop::sample::Index,
    ) {
        data[0] = 0;
        data[1] = 0;
        let field = finish(sum(&data)).to_be_bytes();
        data[..2].copy_from_slice(&field);
        prop_assert!(is_valid(sum(&data)));
        let bit = bit.index(data.len() * 8);
        data[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!is_valid(sum(&data)));
    }

    /// Packets have at least one non-zero covered word that the update does not touch: without
    /// one, a sum of zero has two representations and the update picks the other.
    #[test]
    fn pseudo_header_equals_the_sum_of_its_bytes(src: u32, dst: u32, protocol: u8, length: u16) {
        let mut bytes = [0u8; 12];
        bytes[..4].copy_from_slice(&src.to_be_bytes());
        bytes[4..8].copy_from_slice(&dst.to_be_bytes());
        bytes[9] = protocol;
        bytes[10..].copy_from_slice(&length.to_be_bytes());
        let got = pseudo_v4(Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst), protocol, length);
        prop_assert_eq!(got, naive(&bytes));
        prop_assert!(is_partial(naive(&bytes), got));
    }
}

proptest! {
    #[test]
    fn the_unfolded_pseudo_header_agrees_with_the_folded_one(
        src: [u8; 4],
        dst: [u8; 4],
        protocol in 1u8..,
        mut segment in proptest::collection::vec(any::<u8>(), 8..1600),
    ) {
        let addresses = [src, dst].concat().try_into().unwrap();
        let length = segment.len() as u16;
        let folded = pseudo_v4(src.into(), dst.into(), protocol, length);
        let pseudo = Pseudo::v4(&addresses, protocol, length);
        prop_assert!(pseudo.is_partial(folded));
        prop_assert!(!pseudo.is_partial(folded ^ 1));
        segment[6..8].fill(0);
        let check = finish(combine(folded, sum(&segment)));
        prop_assert_eq!(pseudo.checksum(&segment), check);
        segment[6..8].copy_from_slice(&check.to_be_bytes());
        prop_assert!(pseudo.verifies(&segment));
        segment[3] ^= 0x10;
        prop_assert!(!pseudo.verifies(&segment));
    }
}

proptest! {
    #[test]
    fn the_ipv6_pseudo_header_equals_the_sum_of_its_bytes(
        addresses: [[u8; 8]; 4], protocol: u8, length in 0u32..0x2_0000,
    ) {
        let addresses: [u8; 32] = addresses.concat().try_into().unwrap();
        let mut bytes = [0u8; 40];
        bytes[..32].copy_from_slice(&addresses);
        bytes[32..36].copy_from_slice(&length.to_be_bytes());
        bytes[39] = protocol;
        prop_assert_eq!(Pseudo::v6(&addresses, protocol, length).sum(), naive(&bytes));
    }
}
