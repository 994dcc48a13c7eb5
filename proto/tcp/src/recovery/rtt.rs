//! Round trip times and the retransmission timeout (RFC 6298).

use weever_net::{MILLIS, SECOND};

use crate::{Nanos, TcpConfig};

/// G: the granularity of the clock, here that of the timer wheel.
const GRANULARITY: Nanos = MILLIS;
/// How long the least round trip time is believed, in seconds.
const MIN_RTT_AGE: u32 = 300;

/// Times are in units of 16 ns, so that 32 bits hold up to 68 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// SRTT; 0 before the first sample.
    smoothed: u32,
    variation: u32,
    /// The least of the last minutes; 0 before the first sample.
    min: u32,
    /// The second in which that was.
    min_at: u32,
    /// How often the timeout was doubled.
    pub(crate) backoff: u8,
    /// RTO before the first sample, in seconds.
    first: u8,
}

const UNIT_BITS: u32 = 4;

impl Rtt {
    pub(crate) fn new() -> Self {
        // RFC 6298 (2.1): "Until a round-trip time (RTT) measurement has been made for a segment
        // sent between the sender and receiver, the sender SHOULD set RTO <- 1 second".
        Self { smoothed: 0, variation: 0, min: 0, min_at: 0, backoff: 0, first: 1 }
    }

    /// SRTT in nanoseconds; 0 before the first sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Nanos {
        Nanos::from(self.smoothed) << UNIT_BITS
    }

    /// The least of the last minutes in nanoseconds; 0 before the first sample.
    #[inline]
    pub(crate) fn min(&self) -> Nanos {
        Nanos::from(self.min) << UNIT_BITS
    }

    /// RTTVAR in nanoseconds.
    pub(crate) fn variation(&self) -> Nanos {
        Nanos::from(self.variation) << UNIT_BITS
    }

    /// Takes a measurement over.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: Nanos, now: Nanos) {
        let rtt = u32::try_from(rtt >> UNIT_BITS).unwrap_or(u32::MAX / 2).clamp(1, u32::MAX / 2);
        let second = (now / SECOND) as u32;
        if self.min == 0 || rtt <= self.min || second.wrapping_sub(self.min_at) > MIN_RTT_AGE {
            (self.min, self.min_at) = (rtt, second);
        }
        if self.smoothed == 0 {
            // (2.2): "SRTT <- R, RTTVAR <- R/2".
            (self.smoothed, self.variation) = (rtt, rtt / 2);
        } else {
            // (2.3): "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|", then
            // "SRTT <- (1 - alpha) * SRTT + alpha * R'", with alpha 1/8 and beta 1/4.
            self.variation = self.variation - self.variation / 4 + self.smoothed.abs_diff(rtt) / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
        self.backoff = 0;
    }

    /// The timeout as it is now, doubled for each time that it ran out: (5.5) "RTO <- RTO * 2 ('back
    /// off the timer')".
    #[inline]
    pub(crate) fn timeout(&self, config: &TcpConfig) -> Nanos {
        let most = config.max_rto.max(config.min_rto);
        let rto = match self.smoothed {
            0 => Nanos::from(self.first) * SECOND,
            // "RTO <- SRTT + max (G, K*RTTVAR)", K = 4.
            _ => {
                let variation = Nanos::from(self.variation) << UNIT_BITS;
                self.smoothed() + (4 * variation).max(GRANULARITY)
            }
        };
        rto.clamp(config.min_rto, most).saturating_mul(1 << self.backoff.min(30)).min(most)
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// RFC 6298 (5.7): "If the timer expires awaiting the ACK of a SYN segment and the TCP
    /// implementation is using an RTO less than 3 seconds, the RTO MUST be re-initialized to 3 seconds
    /// when data transmission begins".
    pub(crate) fn after_lost_syn(&mut self) {
        self.backoff = 0;
        self.first = 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298() {
        let config = TcpConfig { min_rto: 0, ..TcpConfig::default() };
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout(&config), SECOND);
        rtt.sample(100 * MILLIS, 0);
        assert_eq!(rtt.timeout(&config), 300 * MILLIS);
        rtt.sample(180 * MILLIS, 0);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5, SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(rtt.timeout(&config), 340 * MILLIS);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(&config), 1360 * MILLIS);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(&config), config.max_rto);
        rtt.sample(110 * MILLIS, 0);
        assert!(rtt.timeout(&config) < SECOND);
        assert_eq!(rtt.min(), 100 * MILLIS);
    }
}
