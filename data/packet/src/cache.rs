//! A worker's own frames.

use crate::{Buffer, Pool, Stock};

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
