use super::*;
use crate::icmpv6::checksum_ok;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const ADDRESSES: [u8; 32] = [5; 32];

fn records() -> impl Strategy<Value = Vec<(u8, u128, Vec<u128>)>> {
    vec((1u8..7, any::<u128>(), vec(any::<u128>(), 0..4)), 0..5)
}

proptest! {
    #[test]
    fn reports_round_trip(said in records()) {
        let lists: Vec<Vec<Ipv6Addr>> =
            said.iter().map(|r| r.2.iter().map(|bits| Ipv6Addr::from_bits(*bits)).collect()).collect();
        let reprs: Vec<RecordRepr<'_>> = said
            .iter()
            .zip(&lists)
            .map(|(r, sources)| RecordRepr { kind: r.0, group: Ipv6Addr::from_bits(r.1), sources })
            .collect();
        let mut buf = std::vec![0xee; report_len(&reprs)];
        emit_report(&reprs, &mut buf, &ADDRESSES).unwrap();
        prop_assert!(checksum_ok(&buf, &ADDRESSES));
        let read: Vec<MldRecord<'_>> =
            MldReport::parse(&buf).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), reprs.len());
        for (there, here) in read.iter().zip(&reprs) {
            prop_assert_eq!((there.kind, there.group), (here.kind, here.group));
            prop_assert_eq!(there.sources.iter().collect::<Vec<_>>(), here.sources);
        }
        let short = buf.len() - 1;
        prop_assert!(emit_report(&reprs, &mut buf[..short], &ADDRESSES).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(kind in 130u8..144, mut bytes in vec(0u8..4, 0..120)) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let _ = MldQuery::parse(&bytes);
        if let Ok(report) = MldReport::parse(&bytes) {
            prop_assert!(report.count() <= 4 * 256);
        }
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
