use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(0u8..4, 0..120)) {
        if let Some(first) = bytes.first_mut() {
            *first = kind::MLD_QUERY;
        }
        let sound = MldQuery::parse(&bytes).is_ok();
        prop_assert!(!sound || bytes.len() == V1_LEN || bytes.len() >= QUERY_LEN);
    }
}

#[test]
fn queries_of_both_versions() {
    let mut query = [0; 44];
    query[0] = kind::MLD_QUERY;
    query[4..6].copy_from_slice(&10_000u16.to_be_bytes());
    query[8..10].copy_from_slice(&[0xff, 2]);
    query[24] = 0x0a;
    (query[25], query[27]) = (0x8f, 1);
    query[43] = 9;
    let old = MldQuery::parse(&query[..24]).unwrap();
    assert_eq!((old.version, old.max_response, old.interval), (1, 10_000, 0));
    let new = MldQuery::parse(&query).unwrap();
    assert_eq!((new.version, new.robustness, new.max_response), (2, 2, 10_000));
    assert_eq!(new.interval, 0x1f << 3);
    assert_eq!(new.group, "ff02::".parse::<Ipv6Addr>().unwrap());
    assert_eq!(new.sources.iter().collect::<Vec<_>>(), ["::9".parse::<Ipv6Addr>().unwrap()]);
    assert!(MldQuery::parse(&query[..26]).is_err() && MldQuery::parse(&query[..40]).is_err());
    assert_eq!(milliseconds(0x8000), 32_768);
    assert_eq!(milliseconds(0xffff), 0x1fff << 10);
}
