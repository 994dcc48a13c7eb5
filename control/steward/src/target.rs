//! The steered device, and the receivers behind its queues.

use std::time::Duration;

use weever_device::nic::NicError;
use weever_device::xdp::XdpError;
use weever_plan::config::{Configuration, Rule};
use weever_plan::nic::Nic;
use weever_plan::policy::QueueMode;
use weever_plan::search::{RuleId, Search};
use weever_plan::watch::FiveTuple;

/// A device that sorts packets into queues by filters. All calls block for as long as the
/// kernel or the device takes.
pub trait Target: Send {
    /// The changes that [`apply`](Target::apply) would make now, a line each, without making them.
    ///
    /// # Errors
    /// As [`apply`](Target::apply).
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, TargetError>;

    /// Brings the plan's changes since the last call onto the device. The search learns of filters that
    /// the device refuses, and its new plan is brought there, a bounded number of times. The first
    /// time, the policy has to be satisfied in the end; later, a plan that comes as near to that as the
    /// device allows is better than none.
    ///
    /// # Errors
    /// [`TargetError`]; the receivers are ready for the packets of the earlier plan and of this one.
    fn apply(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
    ) -> Result<Applied, TargetError>;

    /// Whether others have changed the device since the last look or change, so that [`apply`](Target::apply) has
    /// something to do although the plan is the same. Changes nothing.
    ///
    /// # Errors
    /// [`TargetError`] if the device cannot be read.
    fn look(&mut self) -> Result<bool, TargetError> {
        Ok(false)
    }

    /// Whether anything about the device was announced since the last call, so that a [`look`](Target::look) is due.
    /// Does not wait.
    fn has_news(&mut self) -> bool {
        false
    }

    /// Whether the device has gone to another network namespace, with the filters that it had.
    fn has_moved(&mut self) -> bool {
        false
    }

    /// What of the plan does not hold because others changed the device, and it is left so.
    fn shortfall(&self) -> Option<String> {
        None
    }

    /// The policy is another one: what others changed is set again as plans want it.
    fn renew(&mut self) {}

    /// The configuration that was applied last.
    fn configuration(&self, search: &Search) -> Configuration;

    /// The flows without a filter of their own since the last call, with their packets. A target that
    /// cannot distinguish them reports all flows.
    ///
    /// # Errors
    /// [`TargetError`] if the counters cannot be read.
    fn take_missed(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError>;

    /// The flows with a filter of their own since the last call, with their packets.
    ///
    /// # Errors
    /// [`TargetError`] if the counters cannot be read.
    fn take_hits(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError>;

    /// How often each filter was hit; `None` if the target does not count that.
    fn hits(&self) -> Option<Vec<(RuleId, u64)>>;

    /// How many frames arrived where, as far as the device counts them.
    ///
    /// # Errors
    /// [`TargetError`] if the counters cannot be read.
    fn arrivals(&mut self, search: &Search) -> Result<Arrivals, TargetError>;

    /// Whether [`take_missed`](Target::take_missed) reports flows.
    fn counts_flows(&self) -> bool;

    /// The number of filters on the device.
    fn filters(&self) -> usize;

    /// From now on, packets that no filter takes all come to the default queue; or else they are spread as
    /// planned again. Returns whether the target can do that.
    ///
    /// # Errors
    /// [`TargetError`]; nothing has changed then.
    fn gather(&mut self, _search: &Search, _all: bool) -> Result<bool, TargetError> {
        Ok(false)
    }

    /// The switches that the plan relies on, read back from the device: features, private flags, and whether rules
    /// are on.
    ///
    /// # Errors
    /// [`TargetError`] if the device cannot be read.
    fn switches(&mut self, _: &Search) -> Result<Vec<Switch>, TargetError> {
        Ok(Vec::new())
    }

    /// Leaves the device as it was found, or as it is if so configured; returns which, a line each.
    ///
    /// # Errors
    /// [`TargetError`] if something could not be undone.
    fn finish(&mut self) -> Result<Vec<String>, TargetError>;
}

/// The code that runs behind the queues and adapts to the packets that can arrive there.
pub trait Receivers: Send {
    /// Filters will change, these among them, each with its table's position. `false`: the receivers are not
    /// prepared yet, and the steward asks again in its next step. Does not block.
    fn expect(&mut self, _nic: &Nic, _changing: &[(usize, Rule)]) -> bool {
        true
    }

    /// Packets of the configuration `next` may arrive soon, and those of the present one still do.
    fn prepare(&mut self, nic: &Nic, next: &Configuration);

    /// The device is configured like this: nothing else arrives any more.
    fn commit(&mut self, nic: &Nic, present: &Configuration);

    /// The prepared configuration may be in effect in part: packets of both may arrive for now.
    fn abandon(&mut self);

    /// Sets the wait mode of the worker of each queue, from queue 0 on, where a class gives one.
    fn set_modes(&mut self, modes: Vec<Option<QueueMode>>);

    /// The time that receivers took since the last call. It is mostly waiting, so it does not count
    /// as the steward's work.
    fn take_time(&mut self) -> Duration;
}

/// The kernel's stack, or another receiver that takes all packets of every queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReceivers;

impl Receivers for NoReceivers {
    fn prepare(&mut self, _: &Nic, _: &Configuration) {}
    fn commit(&mut self, _: &Nic, _: &Configuration) {}
    fn abandon(&mut self) {}
    fn set_modes(&mut self, _: Vec<Option<QueueMode>>) {}

    fn take_time(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// The numbers of frames that arrived, since some time before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// At each queue, except those that count as spread.
    pub queues: Vec<u64>,
    /// Those that no filter took, at any of the queues of the plan's spreading, if the device counts them apart.
    pub spread: u64,
    /// Those that a filter dropped, if the device counts them.
    pub dropped: u64,
    /// Whether it counts those that a filter dropped, and those that none took, apart.
    pub counts_by_filter: bool,
}

/// A switch of a device that a plan relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The name that `ethtool` has for it.
    pub name: String,
    /// Whether the plan wants it on.
    pub wanted: bool,
    /// Whether it is on; nothing if the device has no such switch.
    pub found: Option<bool>,
}

impl Switch {
    /// Features that are wanted on or off, as a device has them.
    pub(crate) fn of_features(
        driver: &mut dyn weever_device::ethtool::Driver,
        wanted: std::collections::BTreeMap<String, bool>,
    ) -> Result<Vec<Switch>, TargetError> {
        let each = wanted.into_iter().map(|(name, wanted)| {
            let found = driver.feature(&name).map_err(weever_device::nic::NicError::from)?;
            Ok(Switch { name, wanted, found })
        });
        each.collect()
    }

    /// Whether it is as wanted. A device without the switch does no such work.
    pub fn is_as_wanted(&self) -> bool {
        self.found.unwrap_or_default() == self.wanted
    }
}

/// The changes made to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The changes, a line each.
    pub lines: Vec<String>,
    /// The filters that the device refused, a line each with the reason. The plan is without them.
    pub refused: Vec<String>,
}

impl Applied {
    /// Whether nothing was to be done.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.refused.is_empty()
    }

    /// Adds changes that were made after these.
    pub(crate) fn add(&mut self, later: Applied) {
        self.lines.extend(later.lines);
        self.refused.extend(later.refused);
    }
}

/// Why a device is not as planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The program, or the kernel's reason.
    #[error(transparent)]
    Program(#[from] XdpError),
    /// The NIC, or the record of the changes made to it.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The device refuses filters that the policy needs; nothing was changed.
    #[error("the device refuses filters that the policy needs:\n  {}", reasons.join("\n  "))]
    Unsatisfied {
        /// The refusals and the shortfalls of the policy, a line each.
        reasons: Vec<String>,
    },
}

impl TargetError {
    /// Whether the device is gone. A later device of its name is another one.
    pub fn is_gone(&self) -> bool {
        matches!(self, TargetError::Nic(error) if error.is_gone())
    }

    /// Whether the same plan may succeed later. A program that failed as a whole has lost its changes.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, TargetError::Nic(error) if !error.is_gone())
    }
}
