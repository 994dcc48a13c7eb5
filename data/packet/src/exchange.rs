//! Frames that a program outside works in. It always has the same number of them: for each frame with a packet that
//! it gets it gives an empty one, and for each that it sends it gets another.

use std::sync::Arc;

use crate::frames::Takers;
use crate::{Borrower, Buffer, Pool, PoolCache, PoolError};

/// The exchange of frames with one program, at one worker.
///
/// Taking a frame back is safe although others have a way to its bytes: they have it by the region's
/// [memfd](crate::Region::memfd), and mapping that takes `unsafe` and the promise that a frame which was given back is
/// not touched.
pub struct Exchange {
    lease: Arc<Lease>,
}

/// The frames of a program. They go home when this is dropped, whoever has them then: it is kept as long as somebody
/// may use one.
#[derive(Debug)]
pub struct Lease {
    pool: Pool,
    program: Borrower,
    frames: usize,
}

impl Exchange {
    /// An exchange with a program called `name`, and the numbers of the frames that it has at first.
    ///
    /// # Errors
    /// [`PoolError::Borrowers`]; [`PoolError::Exhausted`] when the pool has too few frames.
    pub fn new(pool: &Pool, name: &str, frames: usize) -> Result<(Exchange, Vec<u32>), PoolError> {
        let program = pool.borrower(name, Takers::One)?;
        let lease = Lease { pool: pool.clone(), program, frames };
        let mut stock = pool.stock();
        let lent: Vec<u32> =
            std::iter::from_fn(|| stock.lend(&lease.program)).take(frames).collect();
        if lent.len() < frames {
            return Err(PoolError::Exhausted { wanted: frames, available: lent.len() });
        }
        Ok((Exchange { lease: Arc::new(lease) }, lent))
    }

    /// What keeps the frames away from the pool.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }

    /// Whether a packet's frame can be given.
    #[inline]
    pub fn has(&self, cache: &mut PoolCache, packet: &Buffer) -> bool {
        cache.stock_of(&self.lease.pool).owns(packet)
    }

    /// An empty packet in a frame that can be given, or `None` when the pool is exhausted.
    #[inline]
    pub fn alloc(&self, cache: &mut PoolCache) -> Option<Buffer> {
        cache.stock_of(&self.lease.pool).alloc()
    }

    /// Gives the program a packet's frame for one of its own: the packet in that one, where it was, and the number of
    /// the frame that it has now.
    ///
    /// # Errors
    /// The packet, when its frame is another pool's, or the program does not have the frame, which is counted.
    #[inline]
    pub fn swap(
        &mut self,
        cache: &mut PoolCache,
        packet: Buffer,
        frame: u32,
    ) -> Result<(Buffer, u32), Buffer> {
        let stock = cache.stock_of(&self.lease.pool);
        if !stock.owns(&packet) {
            return Err(packet);
        }
        // SAFETY: who can reach the bytes has promised not to (see the type). The program's frames are taken back
        // only here, by exclusive access to the only `Exchange`, and by `Lease::drop`, when that is gone.
        let Some(taken) = (unsafe { stock.take_back(frame, None, &self.lease.program) }) else {
            return Err(packet);
        };
        let given = stock.lend_packet(packet, &self.lease.program)?;
        Ok((taken, given.index))
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exchange({} frames of {:?})", self.lease.frames, self.lease.pool)
    }
}

impl Lease {
    /// How many frames the program has.
    pub fn frames(&self) -> usize {
        self.frames
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut stock = self.pool.stock();
        for frame in 0..self.pool.frames() as u32 {
            if self.program.has(frame) {
                // SAFETY: nobody uses a frame of the program's any more, and the `Exchange` is gone.
                unsafe { stock.free_back(frame, &self.program) };
            }
        }
    }
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use super::*;
    use crate::PoolConfig;

    fn pool() -> Pool {
        Pool::shareable(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap()
    }

    #[test]
    fn a_program_has_as_many_frames_as_before_whatever_passes() {
        let pool = pool();
        let (mut exchange, mut theirs) = Exchange::new(&pool, "kv", 100).unwrap();
        let mut cache = pool.cache_of(64);
        for _ in 0..1000 {
            let mut packet = cache.alloc().unwrap();
            packet.append(b"request");
            assert!(exchange.has(&mut cache, &packet));
            let (empty, given) = exchange.swap(&mut cache, packet, theirs.remove(0)).unwrap();
            theirs.push(given);
            let empty = exchange.swap(&mut cache, empty, u32::MAX).unwrap_err();
            let (again, mine) = (empty.index(), empty);
            let mine = exchange.swap(&mut cache, mine, again).unwrap_err();
            cache.free(mine);
        }
        assert_eq!(exchange.lease.program.rejected(), 2000, "frames that it did not have");
        let sent = cache.alloc().unwrap();
        assert_eq!(theirs.len(), 100);
        drop((sent, cache));
        assert_eq!(pool.census().lent, [("kv".to_owned(), 100)]);
        let lease = exchange.lease();
        drop(exchange);
        assert_eq!(pool.available(), 156, "somebody may use them");
        drop(lease);
        assert!(pool.census().is_complete());
    }

    #[test]
    fn frames_of_others_and_frames_that_there_are_not_are_no_frames_of_the_program() {
        let (pool, other) = (pool(), pool());
        let (mut exchange, theirs) = Exchange::new(&pool, "kv", 10).unwrap();
        let mut cache = pool.cache();
        let packet = other.alloc().unwrap();
        assert!(!exchange.has(&mut cache, &packet));
        assert!(exchange.swap(&mut cache, packet, theirs[0]).is_err());
        let mine = cache.alloc().unwrap();
        for nobodys in [256, u32::MAX] {
            assert!(exchange.swap(&mut cache, other.alloc().unwrap(), nobodys).is_err());
        }
        drop((mine, cache, exchange));
        assert!(pool.census().is_complete() && other.census().is_complete());
    }

    #[test]
    fn a_pool_that_has_too_few_frames_keeps_them() {
        let pool = pool();
        let refused = Exchange::new(&pool, "kv", 257).unwrap_err();
        assert!(matches!(refused, PoolError::Exhausted { wanted: 257, available: 256 }));
        assert!(pool.census().is_complete());
    }
}
