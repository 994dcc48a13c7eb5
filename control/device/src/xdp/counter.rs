//! Seeing which flows there are, without steering any.

use std::sync::{Arc, Mutex};

use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_plan::watch::FiveTuple;

use super::XdpError;
use super::steering::lock;

/// A program that counts flows, and leaves frames where they go without.
#[derive(Debug)]
pub struct FlowCounter {
    classifier: Arc<Mutex<Classifier>>,
}

impl FlowCounter {
    /// Counts the `flows` flows of an interface that were seen last, of one frame in `every`, until
    /// this is dropped or the process ends.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn attach(ifindex: u32, flows: u32, every: u32) -> Result<FlowCounter, XdpError> {
        let mut classifier = Classifier::load(Sink::Count, Fallback::To(Target::Pass), 1)?;
        classifier.sample(flows, every)?;
        classifier.attach(ifindex)?;
        Ok(FlowCounter { classifier: Arc::new(Mutex::new(classifier)) })
    }

    /// The same in a program that is loaded and attached elsewhere, for as long as that lives.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn within(
        classifier: Arc<Mutex<Classifier>>,
        flows: u32,
        every: u32,
    ) -> Result<FlowCounter, XdpError> {
        lock(&classifier).sample(flows, every)?;
        Ok(FlowCounter { classifier })
    }

    /// The traffic since this was called last.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_traffic(&mut self, mut take: impl FnMut(FiveTuple, u64)) -> Result<(), XdpError> {
        let taken = lock(&self.classifier).take_missed(|flow| {
            let (src, dst) = (flow.src.into(), flow.dst.into());
            take(FiveTuple { protocol: flow.protocol, src, dst }, flow.frames);
        });
        Ok(taken.map(drop)?)
    }
}
