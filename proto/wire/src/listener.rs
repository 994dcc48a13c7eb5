//! The common parts of IGMP ([`crate::igmp`]) and multicast listener discovery ([`crate::mld`]):
//! queries as values, and the newest version's reports, a list of records (RFC 3376 §4.2, RFC 3810
//! §5.2).
//!
//! ```text
//!  type  –  checksum  –  records      kind  words  sources      group      source  …  words of
//!   1    1     2      2     2     ►    1      1       2      1 address               auxiliary data
//! ```

use core::marker::PhantomData;

use crate::bytes::{be16, first};
use crate::{Layer, WireError};

/// Bytes of a report before its records.
pub const REPORT_LEN: usize = 8;

const RECORDS: usize = 6;
/// Bytes of a record before its group.
const GROUP: usize = 4;

/// The type of a group record (RFC 3376 §4.2.12, RFC 3810 §5.2.12).
pub mod record_kind {
    /// Listens to these sources.
    pub const MODE_IS_INCLUDE: u8 = 1;
    /// Listens to all sources but these.
    pub const MODE_IS_EXCLUDE: u8 = 2;
    /// From now on listens to these.
    pub const CHANGE_TO_INCLUDE: u8 = 3;
    /// From now on listens to all but these.
    pub const CHANGE_TO_EXCLUDE: u8 = 4;
    /// Listens to these too.
    pub const ALLOW_NEW: u8 = 5;
    /// Listens to these no more.
    pub const BLOCK_OLD: u8 = 6;
}

/// An address of a family whose groups are reported.
pub trait Address: Copy {
    /// Its bytes.
    const LEN: usize;
    /// The protocol of these messages.
    const LAYER: Layer;
    /// The type of a report of the newest version.
    const REPORT: u8;

    /// The address in the first [`LEN`](Self::LEN) of these bytes, which are there.
    fn get(from: &[u8]) -> Self;
    /// Writes it to the front of `to`, where there is room.
    fn put(self, to: &mut [u8]);
}

/// A list of addresses, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a, A> {
    octets: &'a [u8],
    of: PhantomData<A>,
}

impl<'a, A: Address> Sources<'a, A> {
    pub(crate) const NONE: Self = Sources { octets: &[], of: PhantomData };

    /// All of them, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = A> + use<'a, A> {
        self.octets.chunks_exact(A::LEN).map(A::get)
    }

    /// The first `count` addresses in `bytes`, which have to be there.
    pub(crate) fn first(bytes: &'a [u8], count: u16) -> Result<Self, WireError> {
        let octets = take::<A>(bytes, A::LEN * usize::from(count))?;
        Ok(Sources { octets, of: PhantomData })
    }
}

fn take<A: Address>(bytes: &[u8], said: usize) -> Result<&[u8], WireError> {
    let max = bytes.len();
    bytes.get(..said).ok_or(WireError::BadLength { layer: A::LAYER, said, min: 0, max })
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a, A> {
    /// Version of the querier: 1 to 3 of IGMP, 1 or 2 of multicast listener discovery.
    pub version: u8,
    /// Milliseconds within which to answer.
    pub max_response: u32,
    /// The group that is asked for; unspecified: all.
    pub group: A,
    /// Sources that are asked for; none: all.
    pub sources: Sources<'a, A>,
    /// The querier's robustness; 0: not said.
    pub robustness: u8,
    /// Seconds between its general queries; 0: not said.
    pub interval: u32,
}

/// RFC 3376 §4.1.1: from 128 on, the code is a floating-point number. RFC 3810 §5.1.9 codes one
/// field in the same way.
pub(crate) const fn floating(code: u8) -> u32 {
    if code < 0x80 {
        return code as u32;
    }
    ((code & 0x0f) as u32 | 0x10) << ((code >> 4 & 7) + 3)
}

pub(crate) fn unexpected<A: Address>(kind: u8) -> WireError {
    WireError::BadField { layer: A::LAYER, field: "type", value: kind.into() }
}

/// The record of one group in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a, A> {
    /// See [`record_kind`].
    pub kind: u8,
    /// The group.
    pub group: A,
    /// Its sources.
    pub sources: Sources<'a, A>,
}

/// The records of a report of the newest version, one after the other. After a record that cannot
/// be read, there are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport<'a, A> {
    rest: &'a [u8],
    left: u16,
    of: PhantomData<A>,
}

impl<'a, A: Address> GroupReport<'a, A> {
    /// The records of `message`, a whole message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; REPORT_LEN] = first(message, A::LAYER)?;
        if fixed[0] != A::REPORT {
            return Err(unexpected::<A>(fixed[0]));
        }
        Ok(Self { rest: &message[REPORT_LEN..], left: be16(fixed, RECORDS), of: PhantomData })
    }

    fn read(&mut self) -> Result<Record<'a, A>, WireError> {
        let (need, have) = (GROUP + A::LEN, self.rest.len());
        let truncated = WireError::Truncated { layer: A::LAYER, need, have };
        let (fixed, after) = self.rest.split_at_checked(need).ok_or(truncated)?;
        let sources = Sources::first(after, u16::from_be_bytes([fixed[2], fixed[3]]))?;
        // Auxiliary data, in words, are stepped over.
        let len = sources.octets.len() + 4 * usize::from(fixed[1]);
        self.rest = &after[take::<A>(after, len)?.len()..];
        Ok(Record { kind: fixed[0], group: A::get(&fixed[GROUP..]), sources })
    }
}

impl<'a, A: Address> Iterator for GroupReport<'a, A> {
    type Item = Result<Record<'a, A>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// A report as it is being written, record by record.
#[derive(Debug)]
pub struct ReportWriter<'a> {
    out: &'a mut [u8],
    len: usize,
    records: u16,
}

impl<'a> ReportWriter<'a> {
    /// A report at the front of `out`, without records.
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: REPORT_LEN, records: 0 }
    }

    /// Adds a record; false, and nothing is written, if it does not fit.
    pub fn add<A: Address>(
        &mut self,
        kind: u8,
        group: A,
        sources: impl Iterator<Item = A> + Clone,
    ) -> bool {
        let list = GROUP + A::LEN;
        let Ok(count) = u16::try_from(sources.clone().count()) else { return false };
        let len = list + usize::from(count) * A::LEN;
        let Some(record) = self.out.get_mut(self.len..self.len + len) else { return false };
        let [high, low] = count.to_be_bytes();
        record[..GROUP].copy_from_slice(&[kind, 0, high, low]);
        group.put(&mut record[GROUP..]);
        for (place, source) in record[list..].chunks_exact_mut(A::LEN).zip(sources) {
            source.put(place);
        }
        (self.len, self.records) = (self.len + len, self.records + 1);
        true
    }

    /// The message, but for its checksum, which is zero; `None` without a record.
    pub fn finish<A: Address>(self) -> Option<&'a mut [u8]> {
        if self.records == 0 {
            return None;
        }
        let message = self.out.get_mut(..self.len)?;
        message[..REPORT_LEN].fill(0);
        message[0] = A::REPORT;
        message[RECORDS..REPORT_LEN].copy_from_slice(&self.records.to_be_bytes());
        Some(message)
    }
}

#[cfg(test)]
mod tests {
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
            let whole = said
                .iter()
                .all(|(kind, group, from)| report.add(*kind, *group, from.iter().copied()));
            (whole, report.finish::<A>().map_or(0, |message| message.len()))
        };
        let mut buf = std::vec![0xee; len];
        assert_eq!(written(&mut buf), (true, len));
        let read: Vec<_> = GroupReport::<A>::parse(&buf).unwrap().map(Result::unwrap).collect();
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
                true => GroupReport::<Ipv6Addr>::parse(&bytes).map(Iterator::count),
                false => GroupReport::<Ipv4Addr>::parse(&bytes).map(Iterator::count),
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
        let records: Vec<_> =
            GroupReport::<Ipv4Addr>::parse(&report).unwrap().map(Result::unwrap).collect();
        assert_eq!((records[0].kind, records[0].group), (4, Ipv4Addr::new(239, 0, 0, 1)));
        assert_eq!(records[1].sources.iter().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 1)]);
        let cut: Vec<_> = GroupReport::<Ipv4Addr>::parse(&report[..27]).unwrap().collect();
        assert!(cut.len() == 2 && cut[0].is_ok() && cut[1].is_err());
        assert!(matches!(GroupReport::<Ipv6Addr>::parse(&report), Err(WireError::BadField { .. })));
    }
}
