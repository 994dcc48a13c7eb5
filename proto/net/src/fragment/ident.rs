//! Identifications that cannot be guessed and do not repeat soon.

use alloc::boxed::Box;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::random::{Random, keyed_hash};

/// Counters: as many destinations as can be told apart.
const COUNTERS: usize = 256;

/// Identifications for fragmented datagrams: RFC 7739 §5.3, a counter per group of destinations
/// plus an offset per destination, both keyed by a secret. Towards one destination, values go up
/// one by one and so come back only after 65,536 (IPv4) or 4,294,967,296 (IPv6) datagrams, less
/// those that other destinations of the group have taken; they tell nothing about another
/// destination's.
///
/// Workers that send from the same addresses share one: RFC 6864 §5.3 leaves 65,536 values to an
/// address pair as a whole, and to divide them would have them come back sooner.
#[derive(Debug)]
pub struct Idents {
    secret: [u64; 2],
    counters: Box<[AtomicU32; COUNTERS]>,
}

impl Idents {
    /// Counters and offsets drawn from `random`.
    pub fn new(mut random: Random) -> Self {
        let secret = [random.next_u64(), random.next_u64()];
        let mut start = || AtomicU32::new(random.next_u64() as u32);
        Self { secret, counters: Box::new(core::array::from_fn(|_| start())) }
    }

    /// The next identification of a datagram with this protocol from `src` to `dst`; IPv4 uses its
    /// lower 16 bits.
    pub fn take(&self, src: IpAddr, dst: IpAddr, protocol: u8) -> u32 {
        let hash = self.hash(src, dst, protocol);
        let count = self.counters[hash as usize % COUNTERS].fetch_add(1, Ordering::Relaxed);
        count.wrapping_add((hash >> 32) as u32)
    }

    fn hash(&self, src: IpAddr, dst: IpAddr, protocol: u8) -> u64 {
        let (src, dst) = (bits(src), bits(dst));
        let words = [src.0, src.1, dst.0, dst.1, protocol.into()];
        keyed_hash(self.secret, &words)
    }
}

fn bits(ip: IpAddr) -> (u64, u64) {
    match ip {
        IpAddr::V4(ip) => (ip.to_bits().into(), 0),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64, ip.to_bits() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_destination_counts_up_and_another_tells_nothing() {
        let idents = Idents::new(Random::new(7));
        let first = idents.take(ip(1), ip(2), 17);
        assert_eq!(idents.take(ip(1), ip(2), 17), first.wrapping_add(1));
        let starts: HashSet<u32> = (3..100).map(|n| idents.take(ip(1), ip(n), 17)).collect();
        assert!(starts.len() > 90, "offsets differ");
        assert_ne!(
            Idents::new(Random::new(8)).take(ip(1), ip(2), 17),
            first,
            "the seed is a secret"
        );
    }

    #[test]
    fn does_not_repeat_within_sixteen_bits() {
        let idents = Idents::new(Random::new(1));
        let mut seen = HashSet::new();
        assert!((0..65_536).all(|_| seen.insert(idents.take(ip(1), ip(2), 17) as u16)));
    }

    #[test]
    fn workers_share_all_of_them() {
        let idents = Idents::new(Random::new(5));
        let take = || (0..16_384).map(|_| idents.take(ip(1), ip(2), 1) as u16).collect::<Vec<_>>();
        let taken: Vec<u16> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 65_536, "each value once");
    }
}
