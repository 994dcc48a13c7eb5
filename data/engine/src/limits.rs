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
