//! A report as it is being written, record by record.

use super::Family;

/// Bytes in front of the records, in both families.
const HEADER_LEN: usize = 8;

pub(super) struct Report<'a> {
    out: &'a mut [u8],
    at: usize,
    records: u16,
}

impl<'a> Report<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: HEADER_LEN, records: 0 }
    }

    /// Adds a record; false, and nothing is written, if it does not fit.
    pub(super) fn add<A: Family>(
        &mut self,
        kind: u8,
        group: A,
        sources: impl Iterator<Item = A> + Clone,
    ) -> bool {
        let count = sources.clone().count();
        let len = A::RECORD_LEN + count * A::ADDR_LEN;
        let Some(record) = self.out.get_mut(self.at..self.at + len) else { return false };
        record[..4].copy_from_slice(&[kind, 0, (count >> 8) as u8, count as u8]);
        group.put(&mut record[4..]);
        for (place, source) in record[A::RECORD_LEN..].chunks_exact_mut(A::ADDR_LEN).zip(sources) {
            source.put(place);
        }
        (self.at, self.records) = (self.at + len, self.records + 1);
        true
    }

    /// The message's length; `None` without a record.
    pub(super) fn finish<A: Family>(self, src: A) -> Option<usize> {
        if self.records == 0 {
            return None;
        }
        let message = &mut self.out[..self.at];
        message[..HEADER_LEN].fill(0);
        message[0] = A::REPORT;
        message[6..8].copy_from_slice(&self.records.to_be_bytes());
        A::fill_checksum(message, src, A::REPORTS);
        Some(self.at)
    }
}
