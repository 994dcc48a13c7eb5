//! Round trip times and the retransmission timeout (RFC 6298).

use weever_net::{MILLIS, SECOND};

use crate::{Config, Nanos};

/// G: the granularity of the clock, here that of the timer wheel.
const GRANULARITY: Nanos = MILLIS;
/// How long the least round trip time is believed.
const MIN_RTT_AGE: Nanos = 300 * SECOND;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    /// SRTT; 0 before the first sample.
    pub(crate) smoothed: Nanos,
    variation: Nanos,
    /// RTO before any backing off.
    rto: Nanos,
    /// The least of the last minutes; 0 before the first sample.
    pub(crate) min: Nanos,
    min_at: Nanos,
    /// How often the timeout was doubled.
    pub(crate) backoff: u8,
}

impl Rtt {
    pub(crate) fn new(config: &Config) -> Self {
        // RFC 6298 (2.1): "Until a round-trip time (RTT) measurement has been made for a segment
        // sent between the sender and receiver, the sender SHOULD set RTO <- 1 second".
        let rto = SECOND.clamp(config.min_rto, config.max_rto.max(config.min_rto));
        Self { smoothed: 0, variation: 0, rto, min: 0, min_at: 0, backoff: 0 }
    }

    /// Takes a measurement over.
    pub(crate) fn sample(&mut self, rtt: Nanos, now: Nanos, config: &Config) {
        let rtt = rtt.max(1);
        if self.min == 0 || rtt <= self.min || now.saturating_sub(self.min_at) > MIN_RTT_AGE {
            (self.min, self.min_at) = (rtt, now);
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
        // "RTO <- SRTT + max (G, K*RTTVAR)", K = 4.
        let rto = self.smoothed + (4 * self.variation).max(GRANULARITY);
        self.rto = rto.clamp(config.min_rto, config.max_rto.max(config.min_rto));
        self.backoff = 0;
    }

    /// The timeout as it is now, doubled for each time that it ran out: (5.5) "RTO <- RTO * 2 ('back
    /// off the timer')".
    pub(crate) fn timeout(&self, config: &Config) -> Nanos {
        self.rto.saturating_mul(1 << self.backoff.min(30)).min(config.max_rto.max(config.min_rto))
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// RFC 6298 (5.7): "If the timer expires awaiting the ACK of a SYN segment and the TCP
    /// implementation is using an RTO less than 3 seconds, the RTO MUST be re-initialized to 3 seconds
    /// when data transmission begins".
    pub(crate) fn after_lost_syn(&mut self, config: &Config) {
        self.backoff = 0;
        if self.smoothed == 0 {
            self.rto = self.rto.max(3 * SECOND).min(config.max_rto.max(config.min_rto));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298() {
        let config = Config { min_rto: 0, ..Config::default() };
        let mut rtt = Rtt::new(&config);
        assert_eq!(rtt.timeout(&config), SECOND);
        rtt.sample(100 * MILLIS, 0, &config);
        assert_eq!(rtt.timeout(&config), 300 * MILLIS);
        rtt.sample(180 * MILLIS, 0, &config);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5, SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(rtt.timeout(&config), 340 * MILLIS);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(&config), 1360 * MILLIS);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(&config), config.max_rto);
        rtt.sample(110 * MILLIS, 0, &config);
        assert!(rtt.timeout(&config) < SECOND);
        assert_eq!(rtt.min, 100 * MILLIS);
    }
}
