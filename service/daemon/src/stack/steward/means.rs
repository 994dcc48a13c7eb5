//! What carries out plans.

use weever_device::xdp::{XdpError, XdpSteering};
use weever_plan::search::RuleId;
use weever_plan::watch::FiveTuple;

use super::nic::Hardware;

/// What carries out a plan.
pub(super) enum Means {
    /// The program in front of the sockets, which counts what it does.
    Program(Box<XdpSteering>),
    /// The NIC itself, which does not; a program behind it may count flows.
    Nic(Box<Hardware>),
}

impl Means {
    /// The flows without a filter of their own since this was called last; of a NIC, all flows.
    pub(super) fn take_missed(&mut self, take: impl FnMut(FiveTuple, u64)) -> Result<(), XdpError> {
        match self {
            Means::Program(steering) => steering.take_missed(take).map(drop),
            Means::Nic(hardware) => hardware.take_traffic(take),
        }
    }

    /// How often rules were hit since this was called last, as far as that is counted.
    pub(super) fn take_hits(&mut self) -> Result<Vec<(RuleId, u64)>, XdpError> {
        match self {
            Means::Program(steering) => steering.take_hits(),
            Means::Nic(_) => Ok(Vec::new()),
        }
    }

    /// How often each rule was hit; nothing if nobody counts.
    pub(super) fn hits(&self) -> Option<Vec<(RuleId, u64)>> {
        match self {
            Means::Program(steering) => Some(steering.hits().unwrap_or_default()),
            Means::Nic(_) => None,
        }
    }

    /// Whether flows are counted.
    pub(super) fn samples(&self) -> bool {
        match self {
            Means::Program(_) => true,
            Means::Nic(hardware) => hardware.samples(),
        }
    }

    /// Whether something that failed is to be tried again.
    pub(super) fn is_due(&self, now: u64) -> bool {
        match self {
            Means::Program(_) => false,
            Means::Nic(hardware) => hardware.is_due(now),
        }
    }

    /// Why the device is not as planned.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Means::Program(_) => None,
            Means::Nic(hardware) => hardware.problem(),
        }
    }
}
