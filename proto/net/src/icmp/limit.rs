//! Rate limits of errors (RFC 1812 §4.3.2.8).

use super::kind;
use crate::SECOND;
use crate::state::{IcmpRates, Rate};

/// A token bucket in one number: the time at which it would be full again (the generic cell rate
/// algorithm). Nothing ticks, nothing allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Nanoseconds that one token takes to come back.
    interval: u64,
    /// Nanoseconds that a full bucket holds.
    depth: u64,
    /// When the bucket is full again.
    full_at: u64,
}

impl RateLimit {
    /// A bucket of `burst` tokens which gets `per_second` back; either being zero lets nothing
    /// through.
    pub const fn new(per_second: u32, burst: u32) -> Self {
        if per_second == 0 || burst == 0 {
            return Self { interval: 1, depth: 0, full_at: 0 };
        }
        let interval = SECOND / per_second as u64;
        Self { interval, depth: interval * burst as u64, full_at: 0 }
    }

    /// Takes a token; false if there is none at `now`.
    #[inline]
    pub fn take(&mut self, now: u64) -> bool {
        let missing = self.full_at.saturating_sub(now) + self.interval;
        let granted = missing <= self.depth;
        if granted {
            self.full_at = now.saturating_add(missing);
        }
        granted
    }
}

/// A limit for each type of error, so that a flood of one does not silence the others, and one for
/// all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorLimits {
    unreachable: RateLimit,
    time_exceeded: RateLimit,
    parameter_problem: RateLimit,
    redirect: RateLimit,
    all: RateLimit,
}

impl Default for ErrorLimits {
    /// A thousand per second and fifty at once of each type, and twice as many of all.
    fn default() -> Self {
        Self::of(IcmpRates::default())
    }
}

impl ErrorLimits {
    /// These limits.
    pub const fn of(rates: IcmpRates) -> Self {
        let each = RateLimit::new(rates.each.per_second, rates.each.burst);
        let all = RateLimit::new(rates.all.per_second, rates.all.burst);
        Self {
            unreachable: each,
            time_exceeded: each,
            parameter_problem: each,
            redirect: each,
            all,
        }
    }

    /// The same limit for each type, counted separately, and three times that for all.
    pub const fn new(per_second: u32, burst: u32) -> Self {
        let each = Rate { per_second, burst };
        let all = Rate { per_second: per_second.saturating_mul(3), burst: burst.saturating_mul(3) };
        Self::of(IcmpRates { each, all })
    }

    /// Whether an error of this type may go out at `now`; counts it if so. Types that this host
    /// does not send may not.
    pub fn take(&mut self, kind: u8, now: u64) -> bool {
        let own = match kind {
            kind::UNREACHABLE => &mut self.unreachable,
            kind::TIME_EXCEEDED => &mut self.time_exceeded,
            kind::PARAMETER_PROBLEM => &mut self.parameter_problem,
            kind::REDIRECT => &mut self.redirect,
            _ => return false,
        };
        own.take(now) && self.all.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_burst_then_the_rate() {
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
    fn all_types_share_one_limit() {
        let rate = |per_second, burst| Rate { per_second, burst };
        let mut limits = ErrorLimits::of(IcmpRates { each: rate(100, 10), all: rate(10, 12) });
        let kinds = [kind::UNREACHABLE, kind::TIME_EXCEEDED, kind::PARAMETER_PROBLEM];
        let sent = kinds.map(|kind| (0..20).filter(|_| limits.take(kind, 0)).count());
        assert_eq!(sent, [10, 2, 0]);
    }

    #[test]
    fn types_do_not_share() {
        let mut limits = ErrorLimits::new(1, 1);
        assert!(limits.take(kind::UNREACHABLE, 0) && !limits.take(kind::UNREACHABLE, 0));
        assert!(limits.take(kind::TIME_EXCEEDED, 0) && limits.take(kind::PARAMETER_PROBLEM, 0));
        assert!(!limits.take(kind::ECHO_REPLY, 0));
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
