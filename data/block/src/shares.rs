//! How many flows each worker has in each part of a table of owners, so that its flows are found without a look at the
//! whole table: a worker that loses a node does so between two bursts, when mostly none or a few of its flows are left.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// Parts of a table: a look at all counts of a worker is a look at 4 KB.
const PARTS: usize = 1024;

/// The counts of all workers. Those of a worker exist from its first flow on.
#[derive(Debug)]
pub(crate) struct Shares {
    of: Box<[OnceLock<Box<[AtomicU32]>>]>,
    parts: usize,
    /// The number of a bucket, shifted so far, is that of its part.
    shift: u32,
}

impl Shares {
    /// Of a table with so many buckets, a power of two.
    pub(crate) fn new(workers: usize, buckets: usize) -> Shares {
        let parts = buckets.min(PARTS);
        let shift = (buckets / parts).trailing_zeros();
        Shares { of: (0..workers).map(|_| OnceLock::new()).collect(), parts, shift }
    }

    fn counts(&self, worker: u16) -> Option<&[AtomicU32]> {
        let new = || (0..self.parts).map(|_| AtomicU32::new(0)).collect();
        self.of.get(usize::from(worker)).map(|counts| &**counts.get_or_init(new))
    }

    /// Called before a worker gets a flow in that bucket, so that no part with one counts as empty.
    pub(crate) fn add(&self, worker: u16, bucket: usize) {
        if let Some(counts) = self.counts(worker) {
            counts[bucket >> self.shift].fetch_add(1, AcqRel);
        }
    }

    /// Called after it has lost one, or has not got it.
    pub(crate) fn remove(&self, worker: u16, bucket: usize) {
        if let Some(counts) = self.counts(worker) {
            counts[bucket >> self.shift].fetch_sub(1, AcqRel);
        }
    }

    /// The ranges of buckets in which a worker has flows.
    pub(crate) fn of(&self, worker: u16) -> impl Iterator<Item = std::ops::Range<usize>> {
        let counts = self.of.get(usize::from(worker)).and_then(OnceLock::get);
        let counts = counts.into_iter().flat_map(|counts| counts.iter().enumerate());
        let used = counts.filter(|(_, count)| count.load(Acquire) > 0);
        let shift = self.shift;
        used.map(move |(part, _)| part << shift..(part + 1) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and end of each range.
    fn ranges(shares: &Shares, worker: u16) -> Vec<[usize; 2]> {
        shares.of(worker).map(|part| [part.start, part.end]).collect()
    }

    #[test]
    fn a_part_counts_as_long_as_a_worker_has_flows_there() {
        let shares = Shares::new(4, 4096);
        assert_eq!(shares.of(3).count(), 0);
        [5, 7, 4095].into_iter().for_each(|bucket| shares.add(3, bucket));
        shares.add(2, 100);
        let of = |worker| ranges(&shares, worker);
        assert_eq!(of(3), [[4, 8], [4092, 4096]]);
        shares.remove(3, 7);
        assert_eq!(of(3), [[4, 8], [4092, 4096]]);
        shares.remove(3, 5);
        assert_eq!((of(3), of(2)), (vec![[4092, 4096]], vec![[100, 104]]));
        shares.add(4, 1);
        assert!(of(4).is_empty(), "there are four workers");
    }

    #[test]
    fn a_small_table_has_a_part_for_each_bucket() {
        let shares = Shares::new(1, 2);
        shares.add(0, 1);
        assert_eq!(ranges(&shares, 0), [[1, 2]]);
    }
}
