//! A worker's own free frames: a stock of each pool that it meets, and the cache that picks among them.
//! Neither locks nor allocates on the packet path.

use std::sync::Arc;

use crate::depot::BUNDLE;
use crate::frames::{Owner, prefetch};
use crate::{Borrower, Buffer, Pool};

/// Two bundles of slack on either side of the working set, so that a burst in and a burst out in
/// turn never reach the depot.
const CAPACITY: usize = 4 * BUNDLE;

/// A thread's stock of free frames of one pool. Neither locks nor allocates after construction.
pub struct Stock {
    owner: Arc<Owner>,
    free: Vec<u32>,
    /// How many it keeps.
    most: usize,
}

impl Stock {
    /// The most frames that a stock keeps.
    pub const MOST: usize = CAPACITY;

    pub(crate) fn new(owner: Arc<Owner>, most: usize) -> Stock {
        let most = most.clamp(BUNDLE, CAPACITY);
        Stock { owner, free: Vec::with_capacity(most), most }
    }

    /// The pool it draws from.
    pub fn pool(&self) -> Pool {
        Pool { owner: self.owner.clone() }
    }

    /// Bytes of the longest packet that a fresh buffer holds behind its headroom.
    #[inline]
    pub fn room(&self) -> usize {
        let shared = self.owner.shared();
        shared.frame_size as usize - usize::from(shared.headroom)
    }

    /// Bytes of a frame.
    #[inline]
    pub fn frame_size(&self) -> usize {
        self.owner.shared().frame_size as usize
    }

    /// Whether it draws from that pool.
    #[inline]
    pub fn draws_from(&self, pool: &Pool) -> bool {
        self.owner.as_ptr() == pool.owner.as_ptr()
    }

    /// Whether the buffer's home is this stock's pool.
    #[inline]
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.home() == self.owner.as_ptr()
    }

    /// An empty buffer with the pool's headroom, or `None` when the pool is exhausted.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        let index = self.take()?;
        // SAFETY: the stock owns its indices; this one has just left it.
        let mut buffer = unsafe { self.buffer(index) };
        buffer.clear();
        Some(buffer)
    }

    /// Gives a buffer back; one of another pool goes home by its own way.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        if self.owns(&buffer) {
            self.keep(buffer.into_index());
        }
    }

    /// Lends a free frame, or `None` when the pool is exhausted. Its bytes and metadata are stale.
    #[inline]
    pub fn lend(&mut self, to: &Borrower) -> Option<u32> {
        debug_assert!(to.is_of(&self.owner), "a borrower of another pool");
        let index = self.take()?;
        to.lend(index);
        Some(index)
    }

    /// Lends a packet's frame; gives back one of another pool.
    ///
    /// # Errors
    /// The packet, when its home is another pool.
    #[inline]
    pub fn lend_packet(&self, packet: Buffer, to: &Borrower) -> Result<Loaned, Buffer> {
        debug_assert!(to.is_of(&self.owner), "a borrower of another pool");
        if !self.owns(&packet) {
            return Err(packet);
        }
        let index = packet.into_index();
        Ok(Loaned { index, generation: to.lend(index) })
    }

    /// Makes a packet of a frame that a borrower says to give back, where it was; `None`, and counted by
    /// the borrower, when it has not borrowed that frame. With a generation, it must be this loan.
    ///
    /// # Safety
    /// The borrower touches the frame no more. If it has one [taker](crate::Takers), no other thread
    /// takes anything back from it meanwhile.
    #[inline]
    pub unsafe fn take_back(
        &self,
        index: u32,
        generation: Option<u32>,
        from: &Borrower,
    ) -> Option<Buffer> {
        let is_ours = from.is_of(&self.owner) && from.settle(index, generation);
        // SAFETY: a frame that was lent has no owner, and its loan has just ended.
        is_ours.then(|| unsafe { self.buffer(index) })
    }

    /// The same for a frame whose bytes are of no interest: it goes into the stock. False: not
    /// borrowed.
    ///
    /// # Safety
    /// As for [`take_back`](Self::take_back).
    #[inline]
    pub unsafe fn free_back(&mut self, index: u32, from: &Borrower) -> bool {
        let is_ours = from.is_of(&self.owner) && from.settle(index, None);
        if is_ours {
            self.keep(index);
        }
        is_ours
    }

    /// Hints that a frame which was lent out will be taken back soon. Any number is allowed.
    #[inline]
    pub fn expect(&self, index: u32) {
        let slot = self.owner.shared().slots.as_ptr().wrapping_add(index as usize);
        prefetch(slot.cast());
    }

    /// # Safety
    /// `index` is a frame of the pool without an owner.
    #[inline]
    unsafe fn buffer(&self, index: u32) -> Buffer {
        // SAFETY: the caller gives up the only claim to this frame.
        unsafe { Buffer::from_slot(self.owner.shared().slots[index as usize].get()) }
    }

    #[inline]
    fn take(&mut self) -> Option<u32> {
        match self.free.pop() {
            Some(index) => Some(index),
            None => self.restock(),
        }
    }

    #[inline]
    fn keep(&mut self, index: u32) {
        if self.free.len() == self.most {
            self.spill();
        }
        self.free.push(index);
    }

    #[cold]
    fn restock(&mut self) -> Option<u32> {
        self.owner.shared().depot.withdraw(&mut self.free);
        self.free.pop()
    }

    #[cold]
    fn spill(&mut self) {
        self.owner.shared().depot.deposit(&mut self.free);
    }
}

/// A frame that was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaned {
    /// Its index in the pool.
    pub index: u32,
    /// How often it was lent, modulo 2^20: of the loans of one frame, it tells one from the next.
    pub generation: u32,
}

impl Drop for Stock {
    fn drop(&mut self) {
        while !self.free.is_empty() {
            self.spill();
        }
    }
}

impl std::fmt::Debug for Stock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stock({})", self.free.len())
    }
}

/// A worker's stocks of frames: of the pool that its packets are made in, and of each pool that a queue
/// it serves receives into. Neither locks nor allocates, except when it meets a pool for the first time.
pub struct PoolCache {
    main: Stock,
    others: Vec<Stock>,
}

impl Pool {
    /// A cache for one worker, whose packets are made in this pool.
    pub fn cache(&self) -> PoolCache {
        self.cache_of(Stock::MOST)
    }

    /// The same, with a stock of no more than so many frames (64 to [`Stock::MOST`]), for small pools.
    pub fn cache_of(&self, most: usize) -> PoolCache {
        PoolCache { main: Stock::new(self.owner.clone(), most), others: Vec::new() }
    }

    /// A stock for one thread.
    pub fn stock(&self) -> Stock {
        Stock::new(self.owner.clone(), Stock::MOST)
    }
}

impl PoolCache {
    /// The pool that packets are made in.
    pub fn pool(&self) -> Pool {
        self.main.pool()
    }

    /// Bytes of the longest packet that a fresh buffer holds behind its headroom.
    #[inline]
    pub fn room(&self) -> usize {
        self.main.room()
    }

    /// Bytes of such a buffer's frame.
    #[inline]
    pub fn frame_size(&self) -> usize {
        self.main.frame_size()
    }

    /// An empty buffer with the pool's headroom, or `None` when the pool is exhausted.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        self.main.alloc()
    }

    /// The stock of a pool, which is made if there is none yet.
    #[inline]
    pub fn stock_of(&mut self, pool: &Pool) -> &mut Stock {
        if self.main.draws_from(pool) { &mut self.main } else { self.other(pool) }
    }

    fn other(&mut self, pool: &Pool) -> &mut Stock {
        let known = self.others.iter().position(|stock| stock.draws_from(pool));
        let place = known.unwrap_or_else(|| {
            self.others.push(pool.stock());
            self.others.len() - 1
        });
        &mut self.others[place]
    }

    /// Gives a buffer back: into the stock of its pool, or, if there is none, home by its own way.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        if self.main.owns(&buffer) {
            return self.main.free(buffer);
        }
        self.free_other(buffer);
    }

    fn free_other(&mut self, buffer: Buffer) {
        match self.others.iter_mut().find(|stock| stock.owns(&buffer)) {
            Some(stock) => stock.free(buffer),
            None => drop(buffer),
        }
    }
}

impl std::fmt::Debug for PoolCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entry(&self.main).entries(&self.others).finish()
    }
}
