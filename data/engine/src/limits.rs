//! How much an engine holds before it drops.

/// Bounds of an engine's queues. What finds its queue full is dropped and counted where it
/// happened; nothing waits and nothing grows beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// HIGH tasks that wait for one entry.
    pub high: usize,
    /// LOW tasks that wait for one entry.
    pub low: usize,
    /// Tasks to start after a delay.
    pub delayed: usize,
    /// Blocked tasks, and woken ones that have not run.
    pub blocked: usize,
    /// Tasks blocked for one key at one node.
    pub blocked_per_key: usize,
    /// How many links there are to send by.
    pub links: u16,
    /// Packets that wait for one link to send them.
    pub outbox: usize,
    /// Tasks that walk the graph together: 1 to 64.
    pub batch: usize,
    /// LOW tasks that one [`run`](crate::Engine::run) serves at most, so that tasks which start
    /// themselves again let it end. HIGH tasks have the budget of the call.
    pub low_share: usize,
    /// The resolution of delays in nanoseconds.
    pub tick: u64,
}

impl Limits {
    /// The defaults, made smaller where tasks could hold too much of a pool: those that are blocked,
    /// delayed or queued at any of `entries` hold at most half of `frames`, and what waits for one
    /// link at most an eighth. The rest is for what is received and sent, so that the answer that
    /// blocked tasks wait for finds a frame, however many wait. `frames` is this engine's share of
    /// the pool, 64 and eight for each entry at least;
    /// [`Schedule::entries`](crate::Schedule::entries) has the entries.
    pub fn within(frames: usize, entries: usize) -> Limits {
        let (most, budget, entries) = (Limits::default(), frames / 2, entries.max(1));
        let blocked = most.blocked.min(budget / 4);
        let delayed = most.delayed.min(budget / 16).max(1);
        let low = most.low.min(budget / 16 / entries).max(1);
        let rest = budget.saturating_sub(blocked + delayed + low * entries);
        Limits {
            high: most.high.min(rest / entries).max(1),
            low,
            delayed,
            blocked,
            blocked_per_key: most.blocked_per_key.min(blocked),
            outbox: most.outbox.min(frames / 8).max(1),
            ..most
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            high: 4096,
            low: 1024,
            delayed: 4096,
            blocked: 1024,
            blocked_per_key: 64,
            links: 1,
            outbox: 1024,
            batch: 64,
            low_share: 64,
            tick: 1 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_hold_at_most_half_of_the_pool() {
        for frames in [64, 192, 1024, 8192, 16_384, 1 << 20] {
            for entries in [1, 5, 8, 12, 24].into_iter().filter(|entries| entries * 8 <= frames) {
                let l = Limits::within(frames, entries);
                let held = l.blocked + l.delayed + (l.high + l.low) * entries;
                assert!(held <= frames / 2, "{held} of {frames} with {entries} entries: {l:?}");
                assert!(l.outbox <= frames / 8 && l.high > 0 && l.low > 0 && l.delayed > 0);
            }
        }
    }

    #[test]
    fn a_large_pool_allows_the_defaults() {
        assert_eq!(Limits::within(1 << 20, 12), Limits::default());
    }
}
