//! A NIC whose own filters carry out the plan.
//!
//! The NIC gets a queue for each worker before its link is opened ([`Ready`]), and the rules after
//! it. From then on every change is a comparison of the plan with the device, which is as it was if a
//! step fails; that is tried again, less and less often.

use std::path::Path;

use weever_device::actions::{Brought, Desired, StateFile};
use weever_device::ethtool::{Driver, KernelDriver};
use weever_device::nic::{NicError, NicSteering, planned};
use weever_device::xdp::{FlowCounter, XdpError};
use weever_plan::config::Configuration;
use weever_plan::embed::{either, needs};
use weever_plan::search::Search;
use weever_plan::watch::FiveTuple;

use super::intent::{Intent, Planned, Sorter};
use super::means::Means;
use super::work::{Steward, order};
use super::{Kept, PolicyError};

const SECOND: u64 = 1_000_000_000;
/// The longest pause between two attempts.
const LONGEST_PAUSE: u64 = 64 * SECOND;

/// A NIC with as many queues as there are workers, and what is planned for it.
pub(in super::super) struct Ready {
    pub(in super::super) kept: Kept,
    pub(super) planned: Planned,
}

impl Ready {
    /// Gives a device of the calling thread's network namespace its queues.
    pub(in super::super) fn of(
        dev: &str,
        intent: &Intent,
        sorter: &Sorter,
    ) -> Result<Ready, PolicyError> {
        let failed = |error| failed(dev, error);
        let driver = KernelDriver::open(dev).map_err(|error| failed(error.into()))?;
        let index = weever_device::ifindex(dev).unwrap_or_default();
        let file = StateFile::of(Path::new(StateFile::FOLDER), index);
        let file = file.map_err(|error| failed(error.into()))?;
        Ready::on(Box::new(driver), file, intent, sorter)
    }

    /// Likewise a device that may not be the kernel's.
    pub(super) fn on(
        driver: Box<dyn Driver + Send>,
        file: StateFile,
        intent: &Intent,
        sorter: &Sorter,
    ) -> Result<Ready, PolicyError> {
        let dev = driver.device().to_owned();
        let mut ready = intent.plan(&sorter.nic)?;
        let steering = NicSteering::new(driver, file);
        let mut steering = steering.map_err(|error| failed(&dev, error.into()))?;
        let queues = queues_only(&mut ready.search);
        let brought = queues.and_then(|queues| steering.bring(&queues).map(drop));
        brought.map_err(|error| failed(&dev, error))?;
        Ok(Ready { kept: Kept::new(steering), planned: ready })
    }
}

fn failed(dev: &str, error: NicError) -> PolicyError {
    PolicyError::Hardware { link: dev.to_owned(), source: Box::new(error) }
}

/// What the plan says of queues and spreading: rules come when somebody takes what they send.
fn queues_only(search: &mut Search) -> Result<Desired, NicError> {
    let all = planned(search).map_err(weever_device::actions::BringError::from)?;
    Ok(Desired { rules: Vec::new(), contexts: Vec::new(), ..all })
}

/// A NIC that carries out a plan.
pub(super) struct Hardware {
    kept: Kept,
    counter: Option<FlowCounter>,
    /// What it was told last.
    configuration: Option<Configuration>,
    trouble: Option<Trouble>,
    /// What the policy lacks because of what it refuses.
    shortfall: Option<String>,
}

/// What went wrong when it was to change.
struct Trouble {
    said: String,
    /// When it is tried again; a device that is gone does not come back.
    again: Option<u64>,
    pause: u64,
}

impl Hardware {
    pub(super) fn new(kept: Kept, counter: Option<FlowCounter>) -> Hardware {
        Hardware { kept, counter, configuration: None, trouble: None, shortfall: None }
    }

    pub(super) fn configuration(&self) -> Configuration {
        self.configuration.clone().unwrap_or_default()
    }

    pub(super) fn samples(&self) -> bool {
        self.counter.is_some()
    }

    pub(super) fn take_traffic(
        &mut self,
        take: impl FnMut(FiveTuple, u64),
    ) -> Result<(), XdpError> {
        self.counter.as_mut().map_or(Ok(()), |counter| counter.take_traffic(take))
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        let again = self.trouble.as_ref().and_then(|trouble| trouble.again);
        again.is_some_and(|again| now >= again)
    }

    pub(super) fn problem(&self) -> Option<&str> {
        let trouble = self.trouble.as_ref().map(|trouble| trouble.said.as_str());
        trouble.or(self.shortfall.as_deref())
    }

    /// Says what went wrong, once for as long as it stays the same.
    fn is_troubled(&mut self, link: &str, error: &NicError) {
        let (said, now) = (error.to_string(), weever_engine::monotonic());
        let before = self.trouble.take();
        if before.as_ref().is_none_or(|before| before.said != said) {
            tracing::error!(link, "the device's filters are not set: {said}");
        }
        let pause = before.map_or(SECOND, |before| (2 * before.pause).min(LONGEST_PAUSE));
        let again = (!error.is_gone()).then_some(now + pause);
        self.trouble = Some(Trouble { said, again, pause });
    }

    /// Says what the policy lacks, when that begins.
    fn falls_short(&mut self, link: &str, search: &Search, brought: &Brought) {
        if self.shortfall.is_none() && !search.cost().is_acceptable() {
            let refused = brought.refused.join("; ");
            let said =
                format!("the policy is not satisfied without what the device refuses: {refused}");
            tracing::warn!(link, "{said}");
            self.shortfall = Some(said);
        }
    }

    fn is_gone(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.again.is_none())
    }
}

impl Steward {
    /// Has the NIC do what is planned now, between two changes of what workers run: before it they
    /// learn what is new, after it they forget what is over. If it fails, they go on knowing both.
    pub(super) fn instruct_nic(&mut self) -> Result<(), NicError> {
        let Steward { means: Means::Nic(hardware), search, .. } = self else { return Ok(()) };
        // Also flows without a filter of their own can be what was too much.
        if search.cost().is_acceptable() {
            hardware.shortfall = None;
        }
        let is_new = !search.take_changes().is_empty() || hardware.configuration.is_none();
        if hardware.is_gone() || !(is_new || hardware.is_due(weever_engine::monotonic())) {
            return Ok(());
        }
        self.is_paced = false;
        let (tailor, fitting) = (self.tailor.as_ref(), &mut self.fitting);
        let fields = tailor.map(|(_, tailor)| tailor.fields());
        let (before, mut last) = (self.arriving.clone(), None);
        let mut about_to = |nic: &_, configuration: &Configuration| {
            let after = fields.as_ref().map(|fields| needs(nic, configuration, fields));
            let after = after.unwrap_or_default();
            order(tailor, fitting, either(&before, &after));
            last = Some((after, configuration.clone()));
        };
        let followed = hardware.kept.lock().follow_telling(search, &mut about_to);
        match (&followed, last) {
            (Ok(brought), Some((after, configuration))) => {
                hardware.trouble = None;
                hardware.configuration = Some(configuration);
                tell(&self.link, brought);
                hardware.falls_short(&self.link, search, brought);
                order(tailor, &mut self.fitting, after.clone());
                self.arriving = after;
            }
            (Err(error), last) => {
                hardware.is_troubled(&self.link, error);
                let after = last.map(|(after, _)| after).unwrap_or_default();
                self.arriving = either(&self.arriving, &after);
            }
            (Ok(_), None) => {}
        }
        followed.map(drop)
    }
}

fn tell(link: &str, brought: &Brought) {
    let steps = brought.actions.steps.len();
    tracing::debug!(link, steps, "the device's filters");
    brought.actions.notes.iter().for_each(|note| tracing::debug!(link, "{note}"));
    for said in &brought.refused {
        tracing::warn!(link, "a filter is not set: {said}");
    }
}
