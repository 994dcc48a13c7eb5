//! How often something may be done.

/// A token bucket: at most `burst` at once, and one more every `interval` nanoseconds.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: u64,
    burst: u32,
    tokens: u32,
    /// When the token before the next one came.
    since: u64,
}

impl TokenBucket {
    /// A full bucket. An interval of 0 allows everything; a burst of 0 counts as 1.
    pub fn new(interval: u64, burst: u32) -> TokenBucket {
        let burst = burst.max(1);
        TokenBucket { interval, burst, tokens: burst, since: 0 }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: u64) -> bool {
        self.refill(now);
        let is_allowed = self.interval == 0 || self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        is_allowed
    }

    fn refill(&mut self, now: u64) {
        if self.tokens >= self.burst {
            // A full bucket does not save up for later.
            self.since = now;
        }
        let Some(came) = now.saturating_sub(self.since).checked_div(self.interval) else { return };
        let room = u64::from(self.burst - self.tokens);
        self.tokens += came.min(room) as u32;
        self.since += came * self.interval;
    }
}
