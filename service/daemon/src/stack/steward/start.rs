//! Stewards of devices: a program in front of the sockets, or the NIC's own filters.
//!
//! A NIC gets a queue for each worker before its link is opened ([`PreparedNic`]), and the rules after
//! it, when workers take the packets that they send.

use std::path::Path;
use std::sync::Arc;

use weever_device::actions::{BringError, DesiredConfiguration, StateFile};
#[cfg(test)]
use weever_device::ethtool::Driver;
use weever_device::ethtool::KernelDriver;
use weever_device::nic::{NicError, NicSteering, planned};
use weever_device::xdp::{FlowCounter, XdpSteering};
use weever_link_sys::af_xdp::Steering;
use weever_plan::search::Search;
use weever_steward::{
    InitialPlan, NicTarget, ProgramTarget, Settings, SharedNicSteering, Steward, Target,
    TargetError,
};

use super::setup::{DeviceModel, PolicySetup};
use crate::stack::PolicyError;

/// A NIC with as many queues as there are workers, and the plan for it.
pub(in crate::stack) struct PreparedNic {
    pub(in crate::stack) steering: SharedNicSteering,
    planned: InitialPlan,
}

impl PreparedNic {
    /// Gives a device of the calling thread's network namespace its queues.
    pub(in crate::stack) fn open(
        dev: &str,
        setup: &PolicySetup,
        model: &DeviceModel,
    ) -> Result<PreparedNic, PolicyError> {
        PreparedNic::of(open(dev)?, setup, model)
    }

    /// Likewise for a device that may be simulated.
    #[cfg(test)]
    pub(super) fn with(
        driver: Box<dyn Driver + Send>,
        file: StateFile,
        setup: &PolicySetup,
        model: &DeviceModel,
    ) -> Result<PreparedNic, PolicyError> {
        let dev = driver.device().to_owned();
        let steering = NicSteering::new(driver, file);
        PreparedNic::of(steering.map_err(|error| hardware(&dev, error.into()))?, setup, model)
    }

    fn of(
        mut steering: NicSteering,
        setup: &PolicySetup,
        model: &DeviceModel,
    ) -> Result<PreparedNic, PolicyError> {
        let dev = steering.driver().device().to_owned();
        let others = steering.others(&model.nic);
        let others = others.map_err(|error| hardware(&dev, error.into()))?;
        if let Some(note) = others.note() {
            tracing::info!(device = dev.as_str(), "{note}");
        }
        let mut planned = setup.plan_around(&model.nic, others.known)?;
        let queues = queues_only(planned.search());
        let brought = queues.and_then(|queues| steering.bring(&queues).map(drop));
        brought.map_err(|error| hardware(&dev, error))?;
        Ok(PreparedNic { steering: SharedNicSteering::new(steering), planned })
    }
}

/// A device of the calling thread's network namespace, with what an earlier process left on it.
fn open(dev: &str) -> Result<NicSteering, PolicyError> {
    let failed = |error| hardware(dev, error);
    let driver = KernelDriver::open(dev).map_err(|error| failed(error.into()))?;
    let index = weever_device::ifindex(dev).unwrap_or_default();
    let file = StateFile::of(Path::new(StateFile::FOLDER), index);
    let file = file.map_err(|error| failed(error.into()))?;
    NicSteering::new(Box::new(driver), file).map_err(|error| failed(error.into()))
}

/// The queues and the spreading of a plan, without its rules.
fn queues_only(search: &mut Search) -> Result<DesiredConfiguration, NicError> {
    let all = planned(search).map_err(BringError::from)?;
    Ok(DesiredConfiguration { rules: Vec::new(), contexts: Vec::new(), ..all })
}

/// A steward of the program in front of a link's sockets; none if a single worker gets everything.
pub(in crate::stack) fn on_program(
    link: &str,
    steering: &Steering,
    setup: &PolicySetup,
    model: &DeviceModel,
) -> Result<Option<Steward>, PolicyError> {
    let Some(classifier) = steering.classifier() else { return Ok(None) };
    let device = |source| PolicyError::Device { link: link.to_owned(), source };
    let mut planned = setup.plan(&model.nic)?;
    let steering = XdpSteering::of(classifier.clone(), &model.nic, planned.search().rss());
    let mut steering = steering.map_err(device)?;
    let [flows, every] = ProgramTarget::SAMPLING;
    steering.sample_within_rules(flows, every).map_err(device)?;
    let features = SharedNicSteering::new(open(link)?);
    let target = ProgramTarget::attached(steering).with_features_of(features);
    start(link, planned, Box::new(target)).map(Some)
}

/// A steward of a NIC's own filters. The program that hands packets to the sockets counts flows, if
/// there is one.
pub(in crate::stack) fn on_nic(
    link: &str,
    prepared: PreparedNic,
    steering: Option<&Steering>,
) -> Result<Steward, PolicyError> {
    let [flows, every] = ProgramTarget::SAMPLING;
    let count = |to: &Arc<_>| FlowCounter::within(Arc::clone(to), flows, every);
    let counter = steering.and_then(Steering::classifier).map(count).transpose();
    let device = |source| PolicyError::Device { link: link.to_owned(), source };
    let PreparedNic { steering, planned } = prepared;
    let target = NicTarget::new(steering, counter.map_err(device)?, false);
    start(link, planned, Box::new(target))
}

fn start(
    link: &str,
    planned: InitialPlan,
    target: Box<dyn Target>,
) -> Result<Steward, PolicyError> {
    let started = Steward::start(link, planned, target, Settings::default());
    let (steward, _) = started.map_err(|error| refused(link, error))?;
    Ok(steward)
}

fn hardware(dev: &str, error: NicError) -> PolicyError {
    PolicyError::Hardware { link: dev.to_owned(), source: Box::new(error) }
}

fn refused(link: &str, error: TargetError) -> PolicyError {
    match error {
        TargetError::Nic(error) => hardware(link, error),
        TargetError::Program(source) => PolicyError::Device { link: link.to_owned(), source },
        error => PolicyError::Refused { link: link.to_owned(), source: Box::new(error) },
    }
}
