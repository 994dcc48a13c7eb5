//! Rate limits: token buckets as one number each, the time at which the bucket would be full again
//! (the generic cell rate algorithm). Nothing ticks, nothing allocates per packet.
//!
//! - [`RateLimit`]: for one owner;
//! - [`SharedLimit`]: for workers that share it without a lock;
//! - [`SourceLimits`]: a bucket for each of many sources, so that a flood from one exhausts its own;
//! - [`ErrorLimits`]: the budget of ICMP errors of one family.

use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::SECOND;
use crate::random::{Key, keyed_hash};
use crate::state::{IcmpRates, Rate};

/// The new time at which a bucket of this rate is full, after `tokens` were taken at `now`; `None` if
/// it does not hold so many. A rate or burst of zero holds none.
#[inline]
fn take_from(full_at: u64, rate: Rate, tokens: u64, now: u64) -> Option<u64> {
    if rate.per_second == 0 || rate.burst == 0 {
        return None;
    }
    let interval = SECOND / u64::from(rate.per_second);
    let missing = full_at.saturating_sub(now) + interval * tokens;
    (missing <= interval * u64::from(rate.burst)).then(|| now.saturating_add(missing))
}

/// A token bucket of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    rate: Rate,
    /// When the bucket is full again.
    full_at: u64,
}

impl RateLimit {
    /// A bucket of `burst` tokens which gets `per_second` back; either being zero lets nothing
    /// through.
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self { rate: Rate { per_second, burst }, full_at: 0 }
    }

    /// Takes a token; false if there is none at `now`.
    #[inline]
    pub fn take(&mut self, now: u64) -> bool {
        let after = take_from(self.full_at, self.rate, 1, now);
        self.full_at = after.unwrap_or(self.full_at);
        after.is_some()
    }
}

/// A token bucket that several workers share. Wait-free readers, lock-free writers.
#[derive(Debug, Default)]
pub struct SharedLimit(AtomicU64);

impl SharedLimit {
    /// Takes so many tokens of a bucket of this rate; false, and none taken, if it does not hold them.
    #[inline]
    pub fn take(&self, rate: Rate, tokens: u64, now: u64) -> bool {
        let order = Ordering::Relaxed;
        self.0.fetch_update(order, order, |full_at| take_from(full_at, rate, tokens, now)).is_ok()
    }
}

/// Sources that have a bucket of their own. More sources share buckets, by a keyed hash: without
/// the key, a sender cannot choose addresses that share a victim's bucket.
const SOURCES: usize = 256;

/// A token bucket for each source.
#[derive(Clone, Debug)]
pub struct SourceLimits {
    key: Key,
    rate: Rate,
    full_at: Box<[u64]>,
}

impl SourceLimits {
    /// Full buckets of this rate.
    pub fn new(key: Key, rate: Rate) -> Self {
        Self { key, rate, full_at: vec![0; SOURCES].into() }
    }

    /// Takes a token of the source's bucket; false if there is none at `now`.
    pub fn take(&mut self, source: IpAddr, now: u64) -> bool {
        let full_at = &mut self.full_at[bucket(self.key, source, SOURCES)];
        let after = take_from(*full_at, self.rate, 1, now);
        *full_at = after.unwrap_or(*full_at);
        after.is_some()
    }
}

fn bucket(key: Key, ip: IpAddr, buckets: usize) -> usize {
    let bits = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    keyed_hash(key, &[(bits >> 64) as u64, bits as u64]) as usize % buckets
}

/// Errors to one destination. Far below the limit of a type of error (fifty at once by default): a
/// stranger that forges one source address must not be able to use up the errors of others.
const PER_DESTINATION: Rate = Rate { per_second: 10, burst: 10 };
const DESTINATIONS: usize = 256;
/// Types of errors that have a budget of their own.
const KINDS: usize = 5;
/// Tokens that an error takes of the common budget: one to three, by lot. Twice the tokens are there,
/// so that the configured rate holds on average.
const MAX_COST: u64 = 3;

/// The budget of errors of one family, shared by the workers of a host without a lock: for each type
/// of error, so that a flood of one does not silence the others; for each destination; and for all
/// together.
///
/// A stranger that could read the state of a global budget would learn whether a probe from a forged
/// source used a token, and so which UDP ports are open (SAD DNS, CVE-2020-25705). The budget of the
/// forged destination runs out first, and the common one is spent by lot.
#[derive(Debug)]
pub struct ErrorLimits {
    key: Key,
    kinds: [SharedLimit; KINDS],
    destinations: Box<[SharedLimit]>,
    all: SharedLimit,
    draws: AtomicU64,
}

impl ErrorLimits {
    /// Full budgets; `key` is a secret.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            kinds: Default::default(),
            destinations: (0..DESTINATIONS).map(|_| SharedLimit::default()).collect(),
            all: SharedLimit::default(),
            draws: AtomicU64::new(0),
        }
    }

    /// Whether an error of this type, a number below five, may go to `to` at `now`; counts it if so.
    pub fn take(&self, rates: IcmpRates, kind: Option<usize>, to: IpAddr, now: u64) -> bool {
        let Some(kind) = kind.and_then(|kind| self.kinds.get(kind)) else { return false };
        let destination = &self.destinations[bucket(self.key, to, DESTINATIONS)];
        let Rate { per_second, burst } = rates.all;
        let mean = (MAX_COST + 1) as u32 / 2;
        let all =
            Rate { per_second: per_second.saturating_mul(mean), burst: burst.saturating_mul(mean) };
        destination.take(PER_DESTINATION, 1, now)
            && kind.take(rates.each, 1, now)
            && self.all.take(all, self.draw(), now)
    }

    fn draw(&self) -> u64 {
        let count = self.draws.fetch_add(1, Ordering::Relaxed);
        1 + keyed_hash(self.key, &[count]) % MAX_COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn ip(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut limit = RateLimit::new(10, 3);
        let at = |limit: &mut RateLimit, now| (0..100).filter(|_| limit.take(now)).count();
        assert_eq!(at(&mut limit, 0), 3);
        assert_eq!(at(&mut limit, SECOND / 10 - 1), 0);
        assert_eq!(at(&mut limit, SECOND / 10), 1);
        assert_eq!(at(&mut limit, 100 * SECOND), 3, "it fills up to the burst, not beyond");
    }

    #[test]
    fn zero_lets_nothing_through() {
        for mut limit in [RateLimit::new(0, 5), RateLimit::new(5, 0)] {
            assert!(!limit.take(0) && !limit.take(u64::MAX));
        }
    }

    #[test]
    fn workers_share_a_bucket() {
        let (limit, rate) = (SharedLimit::default(), Rate { per_second: 1, burst: 1000 });
        let take = || (0..1000).filter(|_| limit.take(rate, 1, 5)).count();
        let taken: usize = std::thread::scope(|scope| {
            let workers: std::vec::Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }

    #[test]
    fn a_source_that_floods_leaves_the_others_theirs() {
        let mut limits = SourceLimits::new([1, 2], Rate { per_second: 10, burst: 5 });
        assert_eq!((0..10_000).filter(|_| limits.take(ip(1), 0)).count(), 5);
        let others = (2..50).filter(|&n| limits.take(ip(n), 0)).count();
        assert!(others >= 46, "{others} of 48: few share its bucket");
    }

    fn errors() -> ErrorLimits {
        ErrorLimits::new([3, 4])
    }

    #[test]
    fn types_do_not_share_and_unknown_ones_are_not_sent() {
        let (limits, rates) = (errors(), IcmpRates::default());
        let sent = |kind| (0..200).filter(|&n| limits.take(rates, Some(kind), ip(n), 0)).count();
        assert_eq!([sent(0), sent(1), sent(7)], [50, 50, 0]);
        assert!(!limits.take(rates, None, ip(1), 0));
    }

    #[test]
    fn all_types_share_one_limit() {
        let limits = errors();
        let rate = |per_second, burst| Rate { per_second, burst };
        let rates = IcmpRates { each: rate(1000, 1000), all: rate(10, 30) };
        let take = |kind| (0..200).filter(|&n| limits.take(rates, Some(kind), ip(n), 0)).count();
        let sent = [0, 1, 2].map(take).iter().sum::<usize>();
        assert!((20..=60).contains(&sent), "thirty on average: {sent}");
    }

    /// SAD DNS: the attacker probes ports in the name of another host, one of which may be open, and
    /// then asks from its own address whether an error is still to be had. The answer must be the same.
    #[test]
    fn a_forged_source_does_not_use_up_the_budget_of_others() {
        let rates = IcmpRates::default();
        let (victim, attacker) = (ip(7), ip(1000));
        for closed in [1000, 999, 51, 50, 49] {
            let limits = errors();
            let answered = (0..closed).filter(|_| limits.take(rates, Some(0), victim, 0)).count();
            assert_eq!(answered, 10);
            assert!(limits.take(rates, Some(0), attacker, 0), "{closed} closed ports");
        }
    }

    /// With its own addresses an attacker can bring the common budget near its end. How near, it
    /// cannot count on.
    #[test]
    fn the_common_budget_is_spent_by_lot() {
        let rates =
            IcmpRates { each: Rate { per_second: 1000, burst: 10_000 }, ..IcmpRates::default() };
        let spent = |key| {
            let limits = ErrorLimits::new([key, 9]);
            (0..5000).filter(|&n| limits.take(rates, Some(0), ip(n), 0)).count()
        };
        let counts: HashSet<usize> = (0..20).map(spent).collect();
        assert!(counts.len() > 5, "{counts:?}");
    }

    proptest! {
        #[test]
        fn never_more_than_burst_plus_rate(
            per_second in 1u32..5000, burst in 1u32..100,
            gaps in vec(0u64..SECOND / 100, 1..300),
        ) {
            let (mut limit, mut now, mut taken) = (RateLimit::new(per_second, burst), 0, 0u64);
            for gap in gaps {
                now += gap;
                taken += u64::from(limit.take(now));
            }
            let interval = SECOND / u64::from(per_second);
            prop_assert!(taken <= u64::from(burst) + now / interval);
        }
    }
}
