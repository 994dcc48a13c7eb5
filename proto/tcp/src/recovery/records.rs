//! Records of sent octets, and a queue of them that keeps the first few in place.

use std::collections::VecDeque;

use weever_wire::tcp::Seq;

use crate::Nanos;

/// A run of sequence numbers that one segment carried, in 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: Seq,
    /// Behind the last one; SYN and FIN count.
    pub(crate) end: Seq,
    /// When it was sent last, to 32 nanoseconds; marks are in the bits below.
    packed: u64,
}

pub(super) const SACKED: u8 = 1;
pub(super) const LOST: u8 = 2;
/// Sent more than once, so that an acknowledgement is ambiguous (Karn).
pub(super) const AGAIN: u8 = 4;
pub(super) const SYN: u8 = 8;
pub(super) const FIN: u8 = 16;
const MARKS: u64 = 31;

impl Record {
    #[inline]
    pub(crate) fn new(start: Seq, end: Seq, sent_at: Nanos, syn: bool, fin: bool) -> Self {
        let marks = if syn { SYN } else { 0 } | if fin { FIN } else { 0 };
        Self { start, end, packed: sent_at & !MARKS | u64::from(marks) }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }

    /// When it was sent last.
    #[inline]
    pub(crate) fn sent_at(&self) -> Nanos {
        self.packed & !MARKS
    }

    #[inline]
    pub(super) fn has(&self, marks: u8) -> bool {
        self.packed & u64::from(marks) != 0
    }

    #[inline]
    pub(super) fn mark(&mut self, marks: u8) {
        self.packed |= u64::from(marks);
    }

    #[inline]
    pub(super) fn unmark(&mut self, marks: u8) {
        self.packed &= !u64::from(marks);
    }

    pub(super) fn sent_again(&mut self, now: Nanos) {
        let marks = self.packed & MARKS & !u64::from(LOST) | u64::from(AGAIN);
        self.packed = now & !MARKS | marks;
    }

    #[inline]
    pub(crate) fn is_sacked(&self) -> bool {
        self.has(SACKED)
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.has(LOST)
    }

    #[inline]
    pub(crate) fn is_retransmitted(&self) -> bool {
        self.has(AGAIN)
    }

    pub(crate) fn is_syn(&self) -> bool {
        self.has(SYN)
    }

    #[inline]
    pub(crate) fn is_fin(&self) -> bool {
        self.has(FIN)
    }
}

/// Records that are kept in place: as many as a request or a response has in flight.
const FEW: usize = 2;
/// An empty queue keeps room for so many.
const KEPT: usize = 8;

/// A queue of records. Up to [`FEW`] lie in place; more are all in a queue of their own.
#[allow(clippy::box_collection, reason = "one pointer in every connection instead of four words")]
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    few: [Record; FEW],
    count: u8,
    many: Option<Box<VecDeque<Record>>>,
}

impl Records {
    #[inline]
    pub(super) fn slices(&self) -> (&[Record], &[Record]) {
        match &self.many {
            None => (&self.few[..usize::from(self.count)], &[]),
            Some(many) => many.as_slices(),
        }
    }

    #[inline]
    pub(super) fn slices_mut(&mut self) -> (&mut [Record], &mut [Record]) {
        match &mut self.many {
            None => (&mut self.few[..usize::from(self.count)], &mut []),
            Some(many) => many.as_mut_slices(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.many.as_ref().map_or(usize::from(self.count), |many| many.len())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Record> {
        let (first, second) = self.slices();
        first.get(at).or_else(|| second.get(at.checked_sub(first.len())?))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Record> {
        let (first, second) = self.slices_mut();
        let behind = at.checked_sub(first.len());
        match behind {
            None => first.get_mut(at),
            Some(at) => second.get_mut(at),
        }
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&Record> {
        let (first, second) = self.slices();
        second.last().or(first.last())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        let (first, second) = self.slices();
        first.iter().chain(second)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        let (first, second) = self.slices_mut();
        first.iter_mut().chain(second)
    }

    /// How many records from the front on satisfy `is_before`, which only those do.
    pub(super) fn partition_point(&self, is_before: impl FnMut(&Record) -> bool + Copy) -> usize {
        let (first, second) = self.slices();
        let at = first.partition_point(is_before);
        if at < first.len() { at } else { at + second.partition_point(is_before) }
    }

    /// The queue that holds more than a few; records in place are moved into it.
    fn many(&mut self) -> &mut VecDeque<Record> {
        let few = &self.few[..usize::from(self.count)];
        self.many.get_or_insert_with(|| {
            let mut many = VecDeque::with_capacity(KEPT);
            many.extend(few);
            Box::new(many)
        })
    }

    #[inline]
    pub(super) fn push_back(&mut self, record: Record) {
        if self.many.is_none() && usize::from(self.count) < FEW {
            self.few[usize::from(self.count)] = record;
            self.count += 1;
        } else {
            self.many().push_back(record);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        match &mut self.many {
            Some(many) => {
                many.pop_front();
                if many.is_empty() {
                    self.count = 0;
                    if many.capacity() > 2 * KEPT {
                        many.shrink_to(KEPT);
                    }
                }
            }
            None => {
                self.few.copy_within(1.., 0);
                self.count = self.count.saturating_sub(1);
            }
        }
    }

    pub(super) fn insert(&mut self, at: usize, record: Record) {
        self.many().insert(at, record);
    }

    /// Bytes that it takes up beside itself.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        let of = |many: &VecDeque<Record>| size_of::<VecDeque<Record>>() + 16 * many.capacity();
        self.many.as_ref().map_or(0, |many| of(many))
    }

    /// Gives back memory that it does not need while the connection is idle.
    pub(super) fn trim(&mut self) {
        if self.is_empty() {
            (self.many, self.count) = (None, 0);
        }
    }
}
