//! Bounds of an engine's queues.

/// Bounds of an engine's queues. A packet that finds its queue full is dropped, and counted at that
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// HIGH tasks that wait for one entry.
    pub high: usize,
    /// LOW tasks that wait for one entry.
    pub low: usize,
    /// HIGH tasks that wait for any entry.
    pub high_total: usize,
    /// LOW tasks that wait for any entry.
    pub low_total: usize,
    /// Tasks to start after a delay.
    pub delayed: usize,
    /// Blocked tasks, and woken ones that have not run.
    pub blocked: usize,
    /// Packets of flows whose state is on its way: to this worker, or, half of these at most, to others to which the
    /// rings are full.
    pub held: usize,
    /// Tasks blocked for one key at one node.
    pub blocked_per_key: usize,
    /// The number of links.
    pub links: u16,
    /// Packets that wait for one link to send them.
    pub outbox: usize,
    /// Packets that wait for one queue of a link that has several at this worker, beside those in the
    /// link's outbox.
    pub backlog: usize,
    /// Messages that wait for one other worker. A team's rings are all as the first worker's limits say,
    /// and hold at most an eighth of its pool's frames, but 16 messages each in any case.
    pub ring: usize,
    /// Tasks that walk the graph together: 1 to 64.
    pub batch: usize,
    /// The most LOW tasks that one [`run`](crate::Engine::run) serves, so that tasks which restart
    /// themselves do not keep it busy forever. HIGH tasks are bounded by the call's budget.
    pub low_share: usize,
    /// The resolution of delays in nanoseconds.
    pub tick: u64,
}

impl Limits {
    /// The defaults, reduced for a small pool: blocked, delayed and queued tasks, and packets of flows
    /// that move, hold at most half of `frames`, and the packets waiting for one link at most an eighth. The rest serves
    /// reception and transmission, so that the packet which unblocks waiting tasks always finds a
    /// frame. `frames` is this engine's share of the pool, at least 64.
    pub fn within(frames: usize) -> Limits {
        let (most, budget) = (Limits::default(), frames / 2);
        let blocked = most.blocked.min(budget / 4);
        let delayed = most.delayed.min(budget / 16);
        let held = most.held.min(budget / 4);
        let low_total = most.low_total.min(budget / 16);
        let high_total = most.high_total.min(budget - blocked - delayed - held - low_total);
        Limits {
            high: most.high.min(high_total),
            low: most.low.min(low_total),
            high_total,
            low_total,
            delayed,
            blocked,
            held,
            blocked_per_key: most.blocked_per_key.min(blocked),
            outbox: most.outbox.min(frames / 8),
            backlog: most.backlog.min(frames / 8),
            ..most
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            high: 4096,
            low: 1024,
            high_total: 32_768,
            low_total: 8192,
            delayed: 4096,
            blocked: 1024,
            held: 32_768,
            blocked_per_key: 64,
            links: 1,
            outbox: 1024,
            backlog: 256,
            ring: 1024,
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
        for frames in [64, 100, 1024, 8192, 16_384, 1 << 20] {
            let l = Limits::within(frames);
            let held = l.blocked + l.delayed + l.held + l.high_total + l.low_total;
            assert!(held <= frames / 2 && l.outbox <= frames / 8, "{frames} frames: {l:?}");
            assert!(
                l.high.min(l.low).min(l.delayed).min(l.blocked).min(l.held) > 0,
                "{frames} frames: {l:?}"
            );
        }
    }

    #[test]
    fn a_large_pool_allows_the_defaults() {
        assert_eq!(Limits::within(1 << 20), Limits::default());
    }
}
