use super::*;
use crate::igmp;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

fn records() -> impl Strategy<Value = Vec<(u8, u128, Vec<u128>)>> {
    vec((1u8..7, any::<u128>(), vec(any::<u128>(), 0..4)), 1..5)
}

/// Writes records and reads them again, in just as much room as they need.
fn round_trip<A: Address + PartialEq + core::fmt::Debug>(said: &[(u8, A, Vec<A>)]) {
    let lens = said.iter().map(|(_, _, sources)| GROUP + A::LEN * (1 + sources.len()));
    let len = REPORT_LEN + lens.sum::<usize>();
    let written = |buf: &mut [u8]| {
        let mut report = ReportWriter::new(buf);
        let whole =
            said.iter().all(|(kind, group, from)| report.add(*kind, *group, from.iter().copied()));
        (whole, report.finish::<A>().map_or(0, |message| message.len()))
    };
    let mut buf = std::vec![0xee; len];
    assert_eq!(written(&mut buf), (true, len));
    let read: Vec<_> = Report::<A>::parse(&buf).unwrap().map(Result::unwrap).collect();
    let again: Vec<_> =
        read.iter().map(|r| (r.kind, r.group, r.sources.iter().collect::<Vec<_>>())).collect();
    assert_eq!(again, said);
    let (whole, shorter) = written(&mut buf[..len - 1]);
    assert!(!whole && shorter < len);
}

proptest! {
    #[test]
    fn reports_round_trip(said in records()) {
        let six = |bits: &u128| Ipv6Addr::from_bits(*bits);
        let four = |bits: &u128| Ipv4Addr::from_bits(*bits as u32);
        let said6: Vec<_> =
            said.iter().map(|(k, g, list)| (*k, six(g), list.iter().map(six).collect())).collect();
        let said4: Vec<_> =
            said.iter().map(|(k, g, list)| (*k, four(g), list.iter().map(four).collect())).collect();
        round_trip(&said6);
        round_trip(&said4);
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(0u8..4, 0..120), six: bool) {
        if let Some(first) = bytes.first_mut() {
            *first = if six { Ipv6Addr::REPORT } else { Ipv4Addr::REPORT };
        }
        let counted = match six {
            true => Report::<Ipv6Addr>::parse(&bytes).map(Iterator::count),
            false => Report::<Ipv4Addr>::parse(&bytes).map(Iterator::count),
        };
        prop_assert_eq!(counted.is_ok(), bytes.len() >= REPORT_LEN);
        prop_assert!(counted.unwrap_or(0) <= bytes.len() / 8 + 1);
    }
}

#[test]
fn reports_are_read_record_by_record() {
    let report = [
        &[igmp::kind::V3_REPORT, 0, 0, 0, 0, 0, 0, 2][..],
        &[4, 1, 0, 0, 239, 0, 0, 1, 9, 9, 9, 9],
        &[5, 0, 0, 1, 239, 0, 0, 2, 10, 0, 0, 1],
    ]
    .concat();
    let records: Vec<_> = Report::<Ipv4Addr>::parse(&report).unwrap().map(Result::unwrap).collect();
    assert_eq!((records[0].kind, records[0].group), (4, Ipv4Addr::new(239, 0, 0, 1)));
    assert_eq!(records[1].sources.iter().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 1)]);
    let cut: Vec<_> = Report::<Ipv4Addr>::parse(&report[..27]).unwrap().collect();
    assert!(cut.len() == 2 && cut[0].is_ok() && cut[1].is_err());
    assert!(matches!(Report::<Ipv6Addr>::parse(&report), Err(WireError::BadField { .. })));
}
