//! Octets sent and not yet acknowledged: the retransmission queue and the SACK scoreboard.

use weever_wire::tcp::Seq;

use super::records::{FIN, LOST, Record, Records, SACKED, SYN};
use crate::Nanos;

/// The records, in the order of their sequence numbers, without gaps between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    records: Records,
    /// Octets that are marked as received selectively.
    pub(crate) sacked: u32,
    /// Octets that are marked as lost and not yet sent again.
    pub(crate) lost: u32,
}

impl Sent {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes that the records take up beside it.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.records.memory()
    }

    /// Gives memory back that an idle connection does not need.
    pub(crate) fn trim(&mut self) {
        self.records.trim();
    }

    pub(crate) fn front(&self) -> Option<&Record> {
        self.records.get(0)
    }

    pub(crate) fn back(&self) -> Option<&Record> {
        self.records.back()
    }

    pub(crate) fn push(&mut self, record: Record) {
        self.records.push_back(record);
    }

    /// Removes the records that `una` acknowledges and shows each record, or the part of it, to
    /// `acked`.
    pub(crate) fn acknowledge(&mut self, una: Seq, mut acked: impl FnMut(&Record)) {
        while let Some(front) = self.records.get_mut(0) {
            if front.end.le(una) {
                let record = *front;
                self.records.pop_front();
                self.uncount(&record);
                acked(&record);
                continue;
            }
            if front.start.lt(una) {
                let mut part = *front;
                part.end = una;
                part.unmark(FIN);
                front.start = una;
                front.unmark(SYN);
                self.uncount(&part);
                acked(&part);
            }
            break;
        }
    }

    /// Removes from the front the records that `una` acknowledges and that were sent once; returns
    /// the last of them, or its part. Nothing must be marked.
    #[inline]
    pub(crate) fn acknowledge_plain(&mut self, una: Seq) -> Option<Record> {
        let mut last = None;
        while let Some(front) = self.records.get_mut(0) {
            if front.is_retransmitted() || front.start.ge(una) {
                break;
            }
            let mut record = *front;
            if front.end.le(una) {
                self.records.pop_front();
            } else {
                record.end = una;
                front.start = una;
            }
            last = Some(record);
        }
        last
    }

    fn uncount(&mut self, record: &Record) {
        if record.is_sacked() {
            self.sacked -= record.len();
        }
        if record.is_lost() {
            self.lost -= record.len();
        }
    }

    /// Marks the octets from `start` to `end` as received and shows each record that was not marked
    /// before to `sacked`. Blocks that cut a record in two split it, as long as there are at most
    /// `most` records: a peer that reports single octets must not make us keep a record for each.
    /// Blocks not taken over count as not reported, which RFC 2018 §8 allows: SACK is advice.
    pub(crate) fn sack(
        &mut self,
        start: Seq,
        end: Seq,
        most: usize,
        mut sacked: impl FnMut(&Record),
    ) {
        let mut at = self.records.partition_point(|record| record.end.le(start));
        while let Some(record) = self.records.get(at).copied() {
            if record.start.ge(end) {
                break;
            }
            let cut = record.start.lt(start) || record.end.gt(end);
            if cut && !record.is_sacked() && self.records.len() >= most {
                at += 1;
                continue;
            }
            if record.start.lt(start) && !record.is_sacked() {
                self.split(at, start);
                at += 1;
                continue;
            }
            if record.end.gt(end) && !record.is_sacked() {
                self.split(at, end);
                continue;
            }
            at += 1;
            if !record.is_sacked() {
                if record.is_lost() {
                    self.lost -= record.len();
                }
                self.sacked += record.len();
                if let Some(record) = self.records.get_mut(at - 1) {
                    record.unmark(LOST);
                    record.mark(SACKED);
                }
                sacked(&record);
            }
        }
    }

    /// Cuts the record with index `at` in two at the number `cut` inside it.
    fn split(&mut self, at: usize, cut: Seq) {
        let Some(record) = self.records.get_mut(at) else { return };
        let mut rest = *record;
        rest.start = cut;
        rest.unmark(SYN);
        record.end = cut;
        record.unmark(FIN);
        self.records.insert(at + 1, rest);
    }

    /// Marks the records as lost for which `lost` returns true; those received or lost already are
    /// skipped. True if there were any.
    pub(crate) fn mark_lost(&mut self, mut lost: impl FnMut(&Record) -> bool) -> bool {
        let before = self.lost;
        for record in self.records.iter_mut() {
            if !record.has(SACKED | LOST) && lost(record) {
                record.mark(LOST);
                self.lost += record.len();
            }
        }
        self.lost != before
    }

    /// Lost octets in records from `start` to `end`.
    pub(crate) fn lost_between(&self, start: Seq, end: Seq) -> u32 {
        let within = |record: &&Record| record.start.ge(start) && record.end.le(end);
        self.records.iter().filter(within).filter(|it| it.is_lost()).map(Record::len).sum()
    }

    /// Takes all marks of loss back: the records thought lost are on their way.
    pub(crate) fn unmark_lost(&mut self) {
        self.records.iter_mut().for_each(|record| record.unmark(LOST));
        self.lost = 0;
    }

    /// Forgets the selectively received octets. RFC 2018 §8: "after a retransmit timeout the data
    /// sender SHOULD turn off all of the SACKed bits".
    pub(crate) fn forget_sacked(&mut self) {
        self.records.iter_mut().for_each(|record| record.unmark(SACKED));
        self.sacked = 0;
    }

    /// The first lost record of not more than `most` octets, cut there if it is longer.
    pub(crate) fn next_lost(&mut self, most: u32) -> Option<Record> {
        if self.lost == 0 {
            return None;
        }
        let at = self.records.iter().position(Record::is_lost)?;
        self.cut(at, most)
    }

    /// The last record, of not more than `most` octets, for a probe of the tail.
    pub(crate) fn tail(&mut self, most: u32) -> Option<Record> {
        let last = self.records.back()?;
        let over = last.len().saturating_sub(u32::from(last.is_fin()));
        if over > most {
            let cut = last.start + (over - most);
            self.split(self.records.len() - 1, cut);
        }
        self.records.back().copied()
    }

    /// The first record, of not more than `most` octets.
    pub(crate) fn head(&mut self, most: u32) -> Option<Record> {
        if self.records.is_empty() { None } else { self.cut(0, most) }
    }

    fn cut(&mut self, at: usize, most: u32) -> Option<Record> {
        let record = *self.records.get(at)?;
        let control = u32::from(record.is_fin()) + u32::from(record.is_syn());
        if record.len() - control > most {
            self.split(at, record.start + most + u32::from(record.is_syn()));
        }
        self.records.get(at).copied()
    }

    /// Notes that the record that starts at `start` was sent again.
    pub(crate) fn sent_again(&mut self, start: Seq, now: Nanos) {
        let at = self.records.partition_point(|record| record.start.lt(start));
        let Some(record) = self.records.get_mut(at) else { return };
        if record.is_lost() {
            self.lost -= record.len();
        }
        record.sent_again(now);
    }

    /// Invariants that hold at any time.
    pub(crate) fn check(&self, una: Seq, nxt: Seq) {
        let mut at = una;
        let (mut sacked, mut lost) = (0, 0);
        for record in self.records.iter() {
            assert!(record.start == at && record.end.gt(at), "records without gaps");
            assert!(!(record.is_sacked() && record.is_lost()));
            sacked += if record.is_sacked() { record.len() } else { 0 };
            lost += if record.is_lost() { record.len() } else { 0 };
            at = record.end;
        }
        assert_eq!(at, nxt, "records reach up to SND.NXT");
        assert_eq!((sacked, lost), (self.sacked, self.lost));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_agree_with_marks_whatever_is_reported(
            start: u32,
            steps in vec((0u8..6, 0u32..2000, 1u32..800), 1..60),
        ) {
            let (mut una, mut nxt) = (Seq(start), Seq(start));
            let mut sent = Sent::default();
            for (what, at, len) in steps {
                let at = una + at.min(nxt - una);
                match what {
                    0 | 1 => {
                        sent.push(Record::new(nxt, nxt + len, 0, false, false));
                        nxt += len;
                    }
                    2 => sent.sack(at, (at + len).min(nxt), 40, |record| assert!(!record.is_sacked())),
                    3 => {
                        sent.acknowledge(at, |_| {});
                        una = at;
                    }
                    4 => {
                        sent.mark_lost(|record| record.start.lt(at));
                    }
                    _ => {
                        if let Some(record) = sent.next_lost(len) {
                            prop_assert!(record.is_lost() && record.len() <= len);
                            sent.sent_again(record.start, 1);
                        }
                    }
                }
                sent.check(una, nxt);
            }
        }
    }
}
