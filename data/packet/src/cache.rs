//! A worker's own stock of frames.

use std::sync::Arc;

use crate::frames::{BUNDLE, Bundle, Owner, prefetch};
use crate::{Buffer, Pool};

/// Two bundles of slack on either side of the working set, so that a burst in and a burst out in
/// turn never reach the depot.
const CAPACITY: usize = 4 * BUNDLE;

/// Frames of one pool for the use of one thread. Neither locks nor allocates after construction.
pub struct PoolCache {
    owner: Arc<Owner>,
    stock: Vec<u32>,
}

impl Pool {
    /// A cache for one worker.
    pub fn cache(&self) -> PoolCache {
        PoolCache { owner: self.owner.clone(), stock: Vec::with_capacity(CAPACITY) }
    }
}

impl PoolCache {
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

    /// Whether it draws from that pool.
    #[inline]
    pub fn draws_from(&self, pool: &Pool) -> bool {
        self.owner.as_ptr() == pool.owner.as_ptr()
    }

    /// Whether the buffer's home is this cache's pool.
    #[inline]
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.home() == self.owner.as_ptr()
    }

    /// An empty buffer with the pool's headroom, or `None` when the pool is exhausted.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        let index = self.alloc_raw()?;
        // SAFETY: the stock owns its indices; this one has just left it.
        let mut buffer = unsafe { self.adopt(index) };
        buffer.clear();
        Some(buffer)
    }

    /// Takes a frame by its index, to lend it to a device. Its metadata is stale until
    /// [`adopt`](Self::adopt) and [`Buffer::received`] make a packet of it.
    #[inline]
    pub fn alloc_raw(&mut self) -> Option<u32> {
        match self.stock.pop() {
            Some(index) => Some(index),
            None => self.restock(),
        }
    }

    /// Makes a buffer of a frame that was lent out.
    ///
    /// # Safety
    /// `index` came from [`alloc_raw`](Self::alloc_raw) or [`Buffer::into_raw`] of this cache's
    /// pool, and nobody, the device included, has used it since to make a buffer or touches the
    /// frame.
    #[inline]
    pub unsafe fn adopt(&self, index: u32) -> Buffer {
        // SAFETY: the caller gives up the only claim to this frame.
        unsafe { Buffer::from_slot(self.owner.shared().slots[index as usize].get()) }
    }

    /// Hints that a frame which was lent out will be adopted soon. Any number is allowed.
    #[inline]
    pub fn expect(&self, index: u32) {
        let slot = self.owner.shared().slots.as_ptr().wrapping_add(index as usize);
        prefetch(slot.cast());
    }

    /// Gives a buffer back. One of another pool goes home by its own way.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        if !self.owns(&buffer) {
            return drop(buffer);
        }
        // SAFETY: the buffer was the only claim to its frame, and of this pool.
        unsafe { self.free_raw(buffer.into_raw()) };
    }

    /// Gives a frame back that was lent out, without touching its bookkeeping.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    #[inline]
    pub unsafe fn free_raw(&mut self, index: u32) {
        if self.stock.len() == CAPACITY {
            self.spill();
        }
        self.stock.push(index);
    }

    #[cold]
    fn restock(&mut self) -> Option<u32> {
        let shared = self.owner.shared();
        if let Some(bundle) = shared.bundles.pop() {
            self.stock.extend_from_slice(&bundle);
        } else {
            self.stock.extend(std::iter::from_fn(|| shared.singles.pop()).take(BUNDLE));
        }
        self.stock.pop()
    }

    #[cold]
    fn spill(&mut self) {
        let keep = self.stock.len() - BUNDLE;
        let mut bundle: Bundle = [0; BUNDLE];
        bundle.copy_from_slice(&self.stock[keep..]);
        self.stock.truncate(keep);
        if let Err(bundle) = self.owner.shared().bundles.push(bundle) {
            // Bundles may also be made of singles, so the ring of bundles can be full.
            self.scatter(&bundle);
        }
    }

    fn scatter(&self, indices: &[u32]) {
        for index in indices {
            let pushed = self.owner.shared().singles.push(*index);
            debug_assert!(pushed.is_ok(), "the depot has room for every frame");
        }
    }
}

impl Drop for PoolCache {
    fn drop(&mut self) {
        while self.stock.len() >= BUNDLE {
            self.spill();
        }
        self.scatter(&self.stock);
    }
}

impl std::fmt::Debug for PoolCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PoolCache({} in stock)", self.stock.len())
    }
}
