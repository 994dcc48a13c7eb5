//! Identifications that nobody can guess and that do not come back soon.

use alloc::boxed::Box;
use core::net::IpAddr;

use crate::random::{Random, keyed_hash};

/// Counters: as many destinations as can be told apart.
const COUNTERS: usize = 256;

/// Identifications for fragmented datagrams: RFC 7739 §5.3, a counter per group of destinations
/// plus an offset per destination, both keyed by a secret. Towards one destination, values go up
/// one by one and so come back only after 65,536 (IPv4) or 4,294,967,296 (IPv6) datagrams, or
/// those less what others in the group have taken; another destination's are not known from them.
///
/// One owner: workers that send from the same address each get a counter of their own by
/// [`Idents::split`].
#[derive(Clone, Debug)]
pub struct Idents {
    secret: [u64; 2],
    counters: Box<[u32; COUNTERS]>,
    stride: u32,
}

impl Idents {
    /// Counters from a seed that nobody else knows.
    pub fn new(seed: u64) -> Self {
        Self::split(seed, 0, 1)
    }

    /// The counters of owner `index` of `owners`, all with the same seed: they never meet.
    pub fn split(seed: u64, index: u32, owners: u32) -> Self {
        let mut random = Random::new(seed);
        let secret = [random.next_u64(), random.next_u64()];
        // A power of two, so that owners stay apart in the lower 16 bits as well.
        let stride = owners.max(1).next_power_of_two();
        let mut start = || (random.next_u64() as u32 / stride * stride).wrapping_add(index);
        Self { secret, counters: Box::new(core::array::from_fn(|_| start())), stride }
    }

    /// The next identification of a datagram with this protocol from `src` to `dst`; IPv4 uses its
    /// lower 16 bits.
    pub fn take(&mut self, src: IpAddr, dst: IpAddr, protocol: u8) -> u32 {
        let hash = self.hash(src, dst, protocol);
        let counter = &mut self.counters[hash as usize % COUNTERS];
        let count = *counter;
        *counter = count.wrapping_add(self.stride);
        // The offset must keep owners apart, so it is a multiple of the stride.
        let offset = (hash >> 32) as u32 / self.stride * self.stride;
        count.wrapping_add(offset)
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

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_destination_counts_up_and_another_tells_nothing() {
        let mut idents = Idents::new(7);
        let first = idents.take(ip(1), ip(2), 17);
        assert_eq!(idents.take(ip(1), ip(2), 17), first.wrapping_add(1));
        let starts: HashSet<u32> = (3..100).map(|n| idents.take(ip(1), ip(n), 17)).collect();
        assert!(starts.len() > 90, "offsets differ");
        assert_ne!(Idents::new(8).take(ip(1), ip(2), 17), first, "the seed is a secret");
    }

    #[test]
    fn does_not_repeat_within_sixteen_bits() {
        let mut idents = Idents::new(1);
        let mut seen = HashSet::new();
        assert!((0..65_536).all(|_| seen.insert(idents.take(ip(1), ip(2), 17) as u16)));
    }

    #[test]
    fn owners_do_not_meet() {
        let (mut a, mut b) = (Idents::split(5, 0, 2), Idents::split(5, 1, 2));
        let mut seen = HashSet::new();
        for _ in 0..10_000 {
            assert!(seen.insert(a.take(ip(1), ip(2), 1)) && seen.insert(b.take(ip(1), ip(2), 1)));
        }
    }
}
