//! A link that loses, copies, damages, delays and reorders packets, the same ones on every run for
//! one seed.
//!
//! It wraps any link, another faulty one included. With the default [`Faults`] it changes nothing.
//! On the way through a direction's *lane* a packet is drawn lots for, passes the rate, travels for
//! the delay, and may be overtaken at the end. The time is the queue's
//! ([`LinkQueue::advance`]): on a virtual clock a simulation is the same each time.

mod control;
mod lane;
mod queue;

use crate::{Link, LinkInfo, LinkQueue};

pub use control::{FaultConfig, FaultControl, FaultStats, Faults, LaneStats, Rate};
pub use queue::FaultyQueue;

/// A link with faults. Its queues' [`stats`](LinkQueue::stats) are those of the wrapped link: a
/// packet lost on the way in was received there, one lost on the way out was not sent.
pub struct FaultyLink {
    inner: Box<dyn Link>,
    info: LinkInfo,
    config: FaultConfig,
    control: FaultControl,
}

impl FaultyLink {
    /// Wraps a link whose queues have not been taken.
    pub fn new(inner: Box<dyn Link>, config: FaultConfig) -> FaultyLink {
        let mut info = inner.info().clone();
        info.mode = format!("{}, with faults", info.mode);
        FaultyLink { inner, info, config, control: FaultControl::default() }
    }

    /// The counters so far, and the link's plug.
    pub fn control(&self) -> FaultControl {
        self.control.clone()
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
            Box::new(FaultyQueue::new(inner, config, self.control.clone())) as Box<dyn LinkQueue>
        };
        self.inner.take_queues().into_iter().enumerate().map(wrap).collect()
    }
}

#[cfg(test)]
mod tests;
