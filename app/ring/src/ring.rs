//! A single-producer single-consumer ring of entries, whose other end is in another process.

use crossbeam_utils::CachePadded;

use crate::entry::Entry;
use crate::layout::ChannelError;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Where a ring lies. The indices count entries, only grow, and wrap at 2³².
pub struct RingParts<'m> {
    /// Entries produced; written by the producer only.
    pub produced: &'m CachePadded<AtomicU32>,
    /// Entries consumed; written by the consumer only.
    pub consumed: &'m CachePadded<AtomicU32>,
    /// The slots, a power of two of them: two words each.
    pub slots: &'m [[AtomicU64; 2]],
}

impl Clone for RingParts<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for RingParts<'_> {}

impl RingParts<'_> {
    fn slot(&self, index: u32) -> &[AtomicU64; 2] {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}

/// The end that writes. It never reads its own index back from shared memory.
pub struct Producer<'m> {
    parts: RingParts<'m>,
    /// Written, perhaps not yet published.
    next: u32,
    /// The index that was published last.
    published: u32,
    /// The consumer's index when last looked at.
    consumed: u32,
}

impl<'m> Producer<'m> {
    /// The producing end of a ring in which nothing was produced yet.
    pub fn new(parts: RingParts<'m>) -> Producer<'m> {
        Producer { parts, next: 0, published: 0, consumed: 0 }
    }

    /// How many entries can be written now. Looks at the other side's index only when it has to
    /// (fewer than `wanted` are known to be free).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] when the other side's index is impossible.
    #[inline]
    pub fn room(&mut self, wanted: u32) -> Result<u32, ChannelError> {
        let len = self.parts.len();
        let known = len - self.next.wrapping_sub(self.consumed);
        if known >= wanted {
            return Ok(known);
        }
        // Acquire: the consumer's reads of the slots happened before we overwrite them.
        let consumed = self.parts.consumed.load(Ordering::Acquire);
        // Between its index at the last look and the published one: everything else is impossible.
        if consumed.wrapping_sub(self.consumed) > self.published.wrapping_sub(self.consumed) {
            return Err(ChannelError::Corrupt("consumer index"));
        }
        self.consumed = consumed;
        Ok(len - self.next.wrapping_sub(consumed))
    }

    /// Writes an entry behind those written before; the other side sees it after
    /// [`publish`](Self::publish). False when the ring is full.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    #[inline]
    pub fn push(&mut self, entry: Entry) -> Result<bool, ChannelError> {
        if self.room(1)? == 0 {
            return Ok(false);
        }
        let [first, second] = entry.to_words();
        let slot = self.parts.slot(self.next);
        slot[0].store(first, Ordering::Relaxed);
        slot[1].store(second, Ordering::Relaxed);
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Makes everything written visible to the other side and says whether there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.next == self.published {
            return false;
        }
        self.parts.produced.store(self.next, Ordering::Release);
        self.published = self.next;
        true
    }
}

/// The end that reads.
pub struct Consumer<'m> {
    parts: RingParts<'m>,
    next: u32,
    released: u32,
    /// The producer's index when last looked at.
    produced: u32,
    /// No entry before this index is one that [`search`](Self::search) looks for.
    searched: u32,
}

impl<'m> Consumer<'m> {
    /// The consuming end of a ring of which nothing was consumed yet.
    pub fn new(parts: RingParts<'m>) -> Consumer<'m> {
        Consumer { parts, next: 0, released: 0, produced: 0, searched: 0 }
    }

    /// How many entries can be read; looks at the other side's index only when none is known of.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] when the other side's index is impossible.
    #[inline]
    pub fn available(&mut self) -> Result<u32, ChannelError> {
        if self.produced == self.next {
            self.look()
        } else {
            Ok(self.produced.wrapping_sub(self.next))
        }
    }

    /// Looks at the other side's index and says how many entries can be read.
    ///
    /// # Errors
    /// As [`available`](Self::available).
    #[inline]
    pub fn look(&mut self) -> Result<u32, ChannelError> {
        self.produced = self.published()?;
        Ok(self.produced.wrapping_sub(self.next))
    }

    /// The other side's index.
    #[inline]
    fn published(&self) -> Result<u32, ChannelError> {
        // Acquire: the entries were written before the index.
        let produced = self.parts.produced.load(Ordering::Acquire);
        let ahead = produced.wrapping_sub(self.released);
        if ahead > self.parts.len() || ahead < self.produced.wrapping_sub(self.released) {
            return Err(ChannelError::Corrupt("producer index"));
        }
        Ok(produced)
    }

    /// How many entries were taken, and how many are known to have been published; both wrap.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.next, self.produced)
    }

    /// Copies the next entry out. Its slot is reused by the other side after
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// As [`available`](Self::available).
    #[inline]
    pub fn pop(&mut self) -> Result<Option<Entry>, ChannelError> {
        if self.available()? == 0 {
            return Ok(None);
        }
        let slot = self.parts.slot(self.next);
        // Relaxed, each word once: a hostile writer can make them anything, but not change them
        // after they were checked.
        let words = [slot[0].load(Ordering::Relaxed), slot[1].load(Ordering::Relaxed)];
        self.next = self.next.wrapping_add(1);
        Ok(Some(Entry::from_words(words)))
    }

    /// The frame of an entry further on, if it is known to be there: a hint, unchecked.
    #[inline]
    pub(crate) fn frame_ahead(&self, distance: u32) -> Option<u32> {
        let ahead = self.produced.wrapping_sub(self.next);
        (distance < ahead).then(|| {
            let slot = self.parts.slot(self.next.wrapping_add(distance));
            slot[0].load(Ordering::Relaxed) as u32
        })
    }

    /// Whether one of the entries that are there now is looked for: a hint, unchecked. Searches always look for the same, and
    /// each looks only at entries that came after the last one. They change nothing for [`available`](Self::available).
    ///
    /// # Errors
    /// As [`available`](Self::available).
    #[inline]
    pub(crate) fn search(
        &mut self,
        is_wanted: impl Fn(Entry) -> bool,
    ) -> Result<bool, ChannelError> {
        let end = self.published()?;
        if self.searched.wrapping_sub(self.next) > end.wrapping_sub(self.next) {
            self.searched = self.next;
        }
        while self.searched != end {
            let slot = self.parts.slot(self.searched);
            let words = [slot[0].load(Ordering::Relaxed), slot[1].load(Ordering::Relaxed)];
            if is_wanted(Entry::from_words(words)) {
                return Ok(true);
            }
            self.searched = self.searched.wrapping_add(1);
        }
        Ok(false)
    }

    /// Puts the entry back that was popped last and not released; the next pop reads it afresh.
    pub(crate) fn unpop(&mut self) {
        debug_assert!(self.next != self.released, "nothing was popped");
        self.next = self.next.wrapping_sub(1);
    }

    /// Lets the other side write the slots of popped entries. Call it once per batch.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.next {
            self.parts.consumed.store(self.next, Ordering::Release);
            self.released = self.next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Memory {
        produced: CachePadded<AtomicU32>,
        consumed: CachePadded<AtomicU32>,
        slots: Vec<[AtomicU64; 2]>,
    }

    impl Memory {
        fn new(len: usize) -> Memory {
            Memory {
                produced: CachePadded::default(),
                consumed: CachePadded::default(),
                slots: (0..len).map(|_| Default::default()).collect(),
            }
        }

        fn parts(&self) -> RingParts<'_> {
            RingParts { produced: &self.produced, consumed: &self.consumed, slots: &self.slots }
        }
    }

    #[test]
    fn entries_come_out_in_order_and_a_full_ring_says_so() {
        let memory = Memory::new(4);
        let (mut producer, mut consumer) =
            (Producer::new(memory.parts()), Consumer::new(memory.parts()));
        for round in 0..10 {
            for i in 0..4 {
                assert!(producer.push(Entry::frame(round * 4 + i)).unwrap());
            }
            assert!(!producer.push(Entry::frame(99)).unwrap(), "the ring holds four");
            assert_eq!(consumer.look().unwrap(), 0, "nothing is published yet");
            assert!(producer.publish());
            assert!(!producer.publish(), "nothing is left to publish");
            for i in 0..4 {
                assert_eq!(consumer.pop().unwrap().unwrap().frame, round * 4 + i);
            }
            assert_eq!(consumer.pop().unwrap(), None);
            assert_eq!(producer.room(1).unwrap(), 0, "popped is not released");
            consumer.release();
        }
    }

    #[test]
    fn impossible_indices_are_errors() {
        let memory = Memory::new(4);
        let mut consumer = Consumer::new(memory.parts());
        memory.produced.store(5, Ordering::Relaxed);
        assert_eq!(consumer.pop(), Err(ChannelError::Corrupt("producer index")));
        memory.produced.store(3, Ordering::Relaxed);
        assert_eq!(consumer.look(), Ok(3));
        memory.produced.store(2, Ordering::Relaxed);
        assert_eq!(consumer.look(), Err(ChannelError::Corrupt("producer index")), "it went back");

        let memory = Memory::new(4);
        let mut producer = Producer::new(memory.parts());
        for i in 0..4 {
            assert!(producer.push(Entry::frame(i)).unwrap());
        }
        memory.consumed.store(1, Ordering::Relaxed);
        let corrupt = Err(ChannelError::Corrupt("consumer index"));
        assert_eq!(producer.room(1), corrupt, "more consumed than published");
        producer.publish();
        assert_eq!(producer.room(1), Ok(1));
        memory.consumed.store(0, Ordering::Relaxed);
        assert_eq!(producer.room(2), corrupt, "it went back");
    }
}
