//! Counts: those of a steering, and those of a program that steers nothing and only counts flows.

use std::sync::{Arc, Mutex};

use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_plan::search::RuleId;
use weever_plan::watch::FiveTuple;

use super::steering::lock;
use super::{XdpError, XdpSteering};

impl XdpSteering {
    /// Has the program count the flows that no rule takes
    /// ([`Classifier::sample`](weever_ebpf::xdp::classify::Classifier::sample)).
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn sample(&mut self, flows: u32, every: u32) -> Result<(), XdpError> {
        Ok(self.classifier().sample(flows, every)?)
    }

    /// The same, and also flows within wider rules
    /// ([`Classifier::sample_within_filters`](weever_ebpf::xdp::classify::Classifier::sample_within_filters)).
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn sample_within_rules(&mut self, flows: u32, every: u32) -> Result<(), XdpError> {
        Ok(self.classifier().sample_within_filters(flows, every)?)
    }

    /// The flows that no rule took since this was called last, with their frames.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_missed(&self, mut take: impl FnMut(FiveTuple, u64)) -> Result<usize, XdpError> {
        let taken = self.classifier().take_missed(|flow| {
            let (src, dst) = (flow.src.into(), flow.dst.into());
            take(FiveTuple { protocol: flow.protocol, src, dst }, flow.frames);
        });
        Ok(taken?)
    }

    /// How often each rule was hit, in no order.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn hits(&self) -> Result<Vec<(RuleId, u64)>, XdpError> {
        let mut all = Vec::with_capacity(self.rules());
        let classifier = self.classifier();
        self.exact.hits(&classifier, &mut all)?;
        self.ordered.hits(&classifier, &mut all)?;
        Ok(all)
    }

    /// How often each rule was hit since this was called last; rules that were not are left out.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_hits(&mut self) -> Result<Vec<(RuleId, u64)>, XdpError> {
        let mut fresh = Vec::new();
        for (id, hits) in self.hits()? {
            let before = self.told.insert(id, hits).unwrap_or_default();
            if hits > before {
                fresh.push((id, hits - before));
            }
        }
        Ok(fresh)
    }

    /// The number of frames that rules took, removed rules included.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn taken(&self) -> Result<u64, XdpError> {
        let retired = self.exact.retired + self.ordered.retired;
        Ok(retired + self.hits()?.iter().map(|(_, hits)| hits).sum::<u64>())
    }

    /// The number of frames that no rule took.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn missed(&self) -> Result<u64, XdpError> {
        Ok(self.classifier().missed()?)
    }
}

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
