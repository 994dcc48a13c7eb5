//! A worker's counters and a copy of its queues', for other threads.

use nix::sys::resource::{UsageWho, getrusage};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weever_link::QueueStats;
use weever_packet::Nanos;

use super::queues::{Attached, Turn};
use crate::interpreter::Peers;

/// The interval at which queue counters are copied: reading them costs a system call.
pub(super) const PUBLISH_EVERY: Nanos = 100_000_000;

const FIELDS: usize = 11;
/// The number of workers whose ring depth is reported.
const MAX_DEPTHS: usize = 64;

#[derive(Debug, Default)]
struct Published([AtomicU64; FIELDS]);

/// Counters of a worker. Only the worker writes.
#[derive(Debug)]
pub struct WorkerStats {
    links: Vec<u16>,
    queues: Vec<Published>,
    turns: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    undeliverable: AtomicU64,
    sleeps: AtomicU64,
    handed_over: AtomicU64,
    taken_over: AtomicU64,
    /// The ring depth, by worker.
    depths: [AtomicU64; MAX_DEPTHS],
    switches: [AtomicU64; 2],
}

impl WorkerStats {
    pub(super) fn new(links: Vec<u16>) -> WorkerStats {
        WorkerStats {
            queues: links.iter().map(|_| Published::default()).collect(),
            links,
            turns: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            undeliverable: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            taken_over: AtomicU64::new(0),
            depths: [const { AtomicU64::new(0) }; MAX_DEPTHS],
            switches: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Turns of the loop.
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// Packets received on all queues.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Packets handed to devices.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Packets dropped because their link has no queue here.
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable.load(Relaxed)
    }

    /// Times the worker went to sleep.
    pub fn sleeps(&self) -> u64 {
        self.sleeps.load(Relaxed)
    }

    /// Tasks, wake-ups and packets handed to other workers.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.load(Relaxed)
    }

    /// Tasks, wake-ups and packets that other workers have handed to this one.
    pub fn taken_over(&self) -> u64 {
        self.taken_over.load(Relaxed)
    }

    /// The number of messages from worker `from` that waited at the end of the last turn; 0 for
    /// workers from 64 on.
    #[cfg(test)]
    pub(crate) fn ring_depth(&self, from: usize) -> u64 {
        self.depths.get(from).map_or(0, |depth| depth.load(Relaxed))
    }

    /// The thread's voluntary and involuntary context switches. As recent as
    /// [`queues`](Self::queues).
    #[cfg(test)]
    pub(crate) fn context_switches(&self) -> (u64, u64) {
        (self.switches[0].load(Relaxed), self.switches[1].load(Relaxed))
    }

    /// Each queue's link and counters, in the order of attachment. They are up to 100 ms old
    /// while the worker runs, exact once it has stopped; those of a failed queue stay as they
    /// were when last asked for.
    pub fn queues(&self) -> Vec<(u16, QueueStats)> {
        let read = |p: &Published| unpack(std::array::from_fn(|i| p.0[i].load(Relaxed)));
        self.links.iter().copied().zip(self.queues.iter().map(read)).collect()
    }

    pub(super) fn count_turn(&self, turn: &Turn, undeliverable: u64) {
        add(&self.turns, 1);
        add(&self.received, turn.received as u64);
        add(&self.sent, turn.sent as u64);
        add(&self.undeliverable, undeliverable);
    }

    pub(super) fn count_peers(&self, peers: &Peers) {
        self.handed_over.store(peers.sent, Relaxed);
        self.taken_over.store(peers.received, Relaxed);
        for (from, depth) in self.depths.iter().enumerate().take(peers.len()) {
            depth.store(peers.depth(from) as u64, Relaxed);
        }
    }

    pub(super) fn count_sleep(&self) {
        add(&self.sleeps, 1);
    }

    pub(super) fn publish(&self, queues: &[Option<Attached>]) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            let counts = [usage.voluntary_context_switches(), usage.involuntary_context_switches()];
            for (cell, count) in self.switches.iter().zip(counts) {
                cell.store(u64::try_from(count).unwrap_or(0), Relaxed);
            }
        }
        for (published, attached) in self.queues.iter().zip(queues) {
            let Some(attached) = attached else { continue };
            for (cell, value) in published.0.iter().zip(pack(attached.queue.stats())) {
                cell.store(value, Relaxed);
            }
        }
    }
}

fn add(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed) + n, Relaxed);
}

fn pack(stats: QueueStats) -> [u64; FIELDS] {
    let QueueStats {
        rx_packets,
        rx_bytes,
        tx_packets,
        tx_bytes,
        rx_dropped,
        rx_invalid,
        rx_unusable,
        tx_dropped,
        fill_empty,
        tx_copied,
        bad_returns,
    } = stats;
    [
        rx_packets,
        rx_bytes,
        tx_packets,
        tx_bytes,
        rx_dropped,
        rx_invalid,
        rx_unusable,
        tx_dropped,
        fill_empty,
        tx_copied,
        bad_returns,
    ]
}

fn unpack(values: [u64; FIELDS]) -> QueueStats {
    let [
        rx_packets,
        rx_bytes,
        tx_packets,
        tx_bytes,
        rx_dropped,
        rx_invalid,
        rx_unusable,
        tx_dropped,
        fill_empty,
        tx_copied,
        bad_returns,
    ] = values;
    QueueStats {
        rx_packets,
        rx_bytes,
        tx_packets,
        tx_bytes,
        rx_dropped,
        rx_invalid,
        rx_unusable,
        tx_dropped,
        fill_empty,
        tx_copied,
        bad_returns,
    }
}
