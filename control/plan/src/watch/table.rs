//! The table of flows that were seen, and the token bucket that limits how often flows become due.

use std::collections::HashMap;

use super::FiveTuple;

const SECOND: u64 = 1_000_000_000;

/// The limits that decide when flows are reported to a search.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many flows are kept at most.
    pub most: usize,
    /// The packets per second at which a flow becomes due.
    pub rate: u64,
    /// The nanoseconds without packets after which a flow has gone.
    pub stale: u64,
    /// The average interval between searches in nanoseconds, at least …
    pub interval: u64,
    /// … and the most searches at once.
    pub burst: u32,
    /// How many flows one search is given at most.
    pub batch: usize,
}

impl Default for Settings {
    /// 65,536 flows; due at 10 packets a second, gone after 10 seconds; 4 searches at once and 10 a
    /// second, of up to 4,096 flows each.
    fn default() -> Settings {
        Settings {
            most: 1 << 16,
            rate: 10,
            stale: 10 * SECOND,
            interval: SECOND / 10,
            burst: 4,
            batch: 4096,
        }
    }
}

/// The flows that a search should add and remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueFlow {
    /// Flows to be added, with their packets per second, the fastest first.
    pub came: Vec<(FiveTuple, u64)>,
    /// Flows to be removed.
    pub gone: Vec<FiveTuple>,
}

impl DueFlow {
    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.gone.is_empty()
    }
}

#[derive(Clone, Debug)]
struct Seen {
    /// Packets since the last [`Watch::tick`].
    fresh: u64,
    /// Packets per second, smoothed.
    rate: f64,
    last: u64,
    /// Whether it was reported to a search.
    is_known: bool,
}

/// The flows that were seen; see the module.
#[derive(Debug)]
pub struct Watch {
    settings: Settings,
    bucket: TokenBucket,
    flows: HashMap<FiveTuple, Seen>,
    ticked: Option<u64>,
    refused: u64,
}

impl Watch {
    /// An empty table.
    pub fn new(settings: Settings) -> Watch {
        let bucket = TokenBucket::new(settings.interval, settings.burst);
        Watch { settings, bucket, flows: HashMap::new(), ticked: None, refused: 0 }
    }

    /// Counts `packets` packets of a flow since the last call for it. A new flow for which there is no
    /// room is counted ([`Watch::refused`]) and left out.
    pub fn saw(&mut self, now: u64, flow: FiveTuple, packets: u64) {
        if packets == 0 {
            return;
        }
        if let Some(seen) = self.flows.get_mut(&flow) {
            (seen.fresh, seen.last) = (seen.fresh.saturating_add(packets), now);
        } else if self.flows.len() < self.settings.most {
            let seen = Seen { fresh: packets, rate: 0.0, last: now, is_known: false };
            self.flows.insert(flow, seen);
        } else {
            self.refused += 1;
        }
    }

    /// Computes rates. To be called at regular intervals, after the observed packets were reported;
    /// takes time in proportion to the flows that are kept.
    pub fn tick(&mut self, now: u64) {
        // The first interval is not known; a second is as good as any.
        let since = self.ticked.map_or(SECOND, |at| now.saturating_sub(at)).max(1);
        self.ticked = Some(now);
        let stale = self.settings.stale;
        self.flows.retain(|_, seen| {
            let now_rate = seen.fresh as f64 * SECOND as f64 / since as f64;
            // The first estimate counts unchanged, later ones are smoothed.
            seen.rate = if seen.rate == 0.0 { now_rate } else { (seen.rate + now_rate) / 2.0 };
            seen.fresh = 0;
            // Flows that were not reported to a search may go silently.
            seen.is_known || now.saturating_sub(seen.last) < stale
        });
    }

    /// The changes that a search has to learn now: nothing if nothing is due, or if the last search was
    /// too recent. Returned changes count as reported.
    pub fn due(&mut self, now: u64) -> DueFlow {
        let mut due = self.all_due(now);
        if due.is_empty() || !self.bucket.take(now) {
            return DueFlow::default();
        }
        due.came.sort_unstable_by_key(|(flow, rate)| (std::cmp::Reverse(*rate), *flow));
        due.came.truncate(self.settings.batch);
        due.gone.sort_unstable();
        for (flow, _) in &due.came {
            if let Some(seen) = self.flows.get_mut(flow) {
                seen.is_known = true;
            }
        }
        for flow in &due.gone {
            self.flows.remove(flow);
        }
        due
    }

    fn all_due(&self, now: u64) -> DueFlow {
        let mut due = DueFlow::default();
        for (flow, seen) in &self.flows {
            let is_stale = now.saturating_sub(seen.last) >= self.settings.stale;
            match seen.is_known {
                true if is_stale => due.gone.push(*flow),
                false if !is_stale && seen.rate >= self.settings.rate.max(1) as f64 => {
                    due.came.push((*flow, seen.rate as u64));
                }
                _ => {}
            }
        }
        due
    }

    /// A due flow could not be placed, or was removed elsewhere: it may become due again.
    pub fn forget(&mut self, flow: &FiveTuple) {
        self.flows.remove(flow);
    }

    /// A flow's packets per second, if it is kept.
    pub fn rate(&self, flow: &FiveTuple) -> Option<u64> {
        self.flows.get(flow).map(|seen| seen.rate as u64)
    }

    /// The number of kept flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// How often a new flow was left out because there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

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
