use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn queries_of_three_versions() {
    let mut query = [0; 16];
    query[..8].copy_from_slice(&[kind::QUERY, 100, 0, 0, 239, 1, 2, 3]);
    query[8..].copy_from_slice(&[0x0a, 125, 0, 1, 10, 0, 0, 9]);
    fill_checksum(&mut query);
    assert!(checksum_ok(&query));
    let new = IgmpQuery::parse(&query).unwrap();
    assert_eq!((new.version, new.max_response, new.robustness, new.interval), (3, 10_000, 2, 125));
    assert_eq!(new.group, Ipv4Addr::new(239, 1, 2, 3));
    assert_eq!(new.sources.iter().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 9)]);
    let two = IgmpQuery::parse(&query[..8]).unwrap();
    assert_eq!((two.version, two.max_response), (2, 10_000));
    query[1] = 0;
    let one = IgmpQuery::parse(&query[..8]).unwrap();
    assert_eq!((one.version, one.max_response), (1, 10_000));
    query[1] = 0x80 | 0x1f;
    assert_eq!(IgmpQuery::parse(&query).unwrap().max_response, (0x1f << 4) * 100);
    assert!(matches!(IgmpQuery::parse(&query[..11]), Err(WireError::Truncated { .. })));
    assert!(matches!(IgmpQuery::parse(&query[..15]), Err(WireError::BadLength { .. })));
    query[0] = kind::V3_REPORT;
    assert!(matches!(IgmpQuery::parse(&query), Err(WireError::BadField { .. })));
}

#[test]
fn old_messages_are_written() {
    let mut buf = [0; 8];
    emit_v2(kind::V2_LEAVE, 0, Ipv4Addr::new(239, 0, 0, 1), &mut buf).unwrap();
    assert!(checksum_ok(&buf) && buf[0] == 0x17 && buf[4..] == [239, 0, 0, 1]);
    assert!(emit_v2(kind::V2_LEAVE, 0, Ipv4Addr::new(239, 0, 0, 1), &mut buf[..7]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(0u8..4, 0..120)) {
        if let Some(first) = bytes.first_mut() {
            *first = kind::QUERY;
        }
        let sound = IgmpQuery::parse(&bytes).is_ok();
        prop_assert!(!sound || bytes.len() == V2_LEN || bytes.len() >= QUERY_LEN);
    }
}
