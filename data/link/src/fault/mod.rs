//! A link that loses and reorders packets, the same ones on every run for one seed.
//!
//! It wraps any link. With all probabilities at zero it changes nothing.

mod lane;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Link, LinkInfo, LinkQueue};

pub use queue::FaultyQueue;

/// What goes wrong in one direction. Probabilities are per packet, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The packet vanishes.
    pub loss: f64,
    /// The packet is overtaken by later ones.
    pub reorder: f64,
    /// By how many at most, not counting those that were kept back themselves; each time a number
    /// from 1 to this is drawn. A packet that nothing overtakes is not kept longer than until the
    /// next idle poll or flush.
    pub reorder_depth: u32,
}

/// What goes wrong on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultConfig {
    /// Decides which packets it hits. Queue *i* of a link uses a stream of its own.
    pub seed: u64,
    /// On the way to us.
    pub rx: Faults,
    /// On the way out.
    pub tx: Faults,
}

/// What was done so far, over all queues of a link.
#[derive(Debug, Default)]
pub struct FaultCounters {
    rx_lost: AtomicU64,
    rx_reordered: AtomicU64,
    tx_lost: AtomicU64,
    tx_reordered: AtomicU64,
}

/// A reading of [`FaultCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Packets that the wrapped link received and nobody else did.
    pub rx_lost: u64,
    /// Received packets that were kept back to be overtaken.
    pub rx_reordered: u64,
    /// Packets that were taken for sending and never sent.
    pub tx_lost: u64,
    /// Sent packets that were kept back to be overtaken.
    pub tx_reordered: u64,
}

impl FaultCounters {
    /// The present values.
    pub fn read(&self) -> FaultStats {
        FaultStats {
            rx_lost: self.rx_lost.load(Ordering::Relaxed),
            rx_reordered: self.rx_reordered.load(Ordering::Relaxed),
            tx_lost: self.tx_lost.load(Ordering::Relaxed),
            tx_reordered: self.tx_reordered.load(Ordering::Relaxed),
        }
    }
}

/// A link with faults. Its queues' [`stats`](LinkQueue::stats) are those of the wrapped link: a
/// packet lost on the way in was received there, one lost on the way out was not sent.
pub struct FaultyLink {
    inner: Box<dyn Link>,
    info: LinkInfo,
    config: FaultConfig,
    counters: Arc<FaultCounters>,
}

impl FaultyLink {
    /// Wraps a link whose queues have not been taken.
    pub fn new(inner: Box<dyn Link>, config: FaultConfig) -> FaultyLink {
        let mut info = inner.info().clone();
        info.mode = format!("{}, with faults", info.mode);
        FaultyLink { inner, info, config, counters: Arc::default() }
    }

    /// What was done so far. It outlives the link.
    pub fn counters(&self) -> Arc<FaultCounters> {
        self.counters.clone()
    }
}

impl Link for FaultyLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let wrap = |(index, inner): (usize, Box<dyn LinkQueue>)| {
            let seed = self.config.seed ^ (index as u64) << 32;
            let config = FaultConfig { seed, ..self.config };
            Box::new(FaultyQueue::new(inner, config, self.counters.clone())) as Box<dyn LinkQueue>
        };
        self.inner.take_queues().into_iter().enumerate().map(wrap).collect()
    }
}

#[cfg(test)]
mod tests;
