//! Filters of a NIC, by `ethtool`'s calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_device::actions::{ApplyReport, BringError, ConfigurationSteps, DesiredConfiguration};
use weever_device::nic::{Lost, NicError, NicSteering, planned};
use weever_device::xdp::FlowCounter;
use weever_plan::config::Configuration;
use weever_plan::search::{RuleId, Search};
use weever_plan::watch::FiveTuple;

use crate::target::{Applied, Arrivals, Receivers, Switch, Target, TargetError};

/// More commands are not shown one by one.
const MAX_COMMANDS: usize = 200;

/// A NIC's steering with several owners: the last drop undoes the changes to the NIC.
#[derive(Clone, Debug)]
pub struct SharedNicSteering(Arc<Mutex<NicSteering>>);

impl SharedNicSteering {
    /// Shares a NIC's steering.
    pub fn new(steering: NicSteering) -> SharedNicSteering {
        SharedNicSteering(Arc::new(Mutex::new(steering)))
    }

    /// Waits for the other owners. A panic of one of them does not spoil it: the record lists the
    /// changes that were made.
    pub fn lock(&self) -> MutexGuard<'_, NicSteering> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A NIC that sorts packets itself. It does not count them; a program behind it may count flows.
pub struct NicTarget {
    steering: SharedNicSteering,
    counter: Option<FlowCounter>,
    /// Whether the NIC is left configured at the end, for a later process to undo.
    stays: bool,
    /// The configuration that was applied last.
    configuration: Option<Configuration>,
    /// Whether the plan has to be compared with the device again: the last attempt failed, or others changed the
    /// device.
    must_compare: bool,
}

impl NicTarget {
    /// A NIC, with a program that counts flows if they are to be watched. `stays`: finishing leaves
    /// the NIC configured.
    pub fn new(
        steering: SharedNicSteering,
        counter: Option<FlowCounter>,
        stays: bool,
    ) -> NicTarget {
        NicTarget { steering, counter, stays, configuration: None, must_compare: false }
    }

    /// Undoes the recorded changes, also of an earlier process, and reports them, a line each.
    ///
    /// # Errors
    /// [`TargetError::Nic`]: some of it could not be undone; the record keeps the rest.
    pub fn undo(&mut self) -> Result<Vec<String>, TargetError> {
        let actions = self.steering.lock().undo()?;
        Ok(match actions.is_empty() {
            true => vec!["nothing was left to undo".into()],
            false => self.lines(&actions),
        })
    }

    fn lines(&self, actions: &ConfigurationSteps) -> Vec<String> {
        let mut lines: Vec<String> = actions.notes.iter().map(|n| format!("note: {n}")).collect();
        let commands = actions.commands(self.steering.lock().driver().device());
        let more = commands.len().saturating_sub(MAX_COMMANDS);
        lines.extend(commands.into_iter().take(MAX_COMMANDS));
        if more > 0 {
            lines.push(format!("# and {more} more"));
        }
        lines
    }
}

impl Target for NicTarget {
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, TargetError> {
        let desired = planned(search).map_err(BringError::from);
        let desired = desired.map_err(NicError::from)?;
        let actions = self.steering.lock().preview(&desired);
        let actions = actions.map_err(BringError::from);
        let actions = actions.map_err(NicError::from)?;
        let mut lines = self.lines(&actions);
        lines.push(match actions.is_empty() {
            true => "# the device is already so".into(),
            false => "# nothing was changed; --apply does it".into(),
        });
        Ok(lines)
    }

    fn apply(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
    ) -> Result<Applied, TargetError> {
        let has_changed = !search.take_changes().is_empty();
        if !has_changed && self.configuration.is_some() && !self.must_compare {
            return Ok(Applied::default());
        }
        let mut last = None;
        let mut about_to = |nic: &_, next: &Configuration| {
            receivers.prepare(nic, next);
            last = Some(next.clone());
        };
        let followed = self.steering.lock().follow_telling(search, &mut about_to);
        self.must_compare = followed.is_err();
        match (followed, last) {
            (Ok(ApplyReport { actions, refused }), last) => {
                if let Some(present) = last {
                    receivers.commit(search.nic(), &present);
                    self.configuration = Some(present);
                }
                Ok(Applied { lines: self.lines(&actions), refused })
            }
            (Err(error), _) => {
                receivers.abandon();
                Err(error.into())
            }
        }
    }

    fn look(&mut self) -> Result<bool, TargetError> {
        let mut steering = self.steering.lock();
        let has_changed = match steering.look()? {
            Lost::Nothing => false,
            // Said once.
            Lost::SwitchedOff => !steering.is_switched_off(),
            Lost::Reset(_) | Lost::Taken(_) | Lost::Set(_) | Lost::Others => true,
        };
        self.must_compare |= has_changed;
        Ok(has_changed)
    }

    fn has_news(&mut self) -> bool {
        self.steering.lock().announced().anything
    }

    fn has_moved(&mut self) -> bool {
        self.steering.lock().has_moved()
    }

    fn shortfall(&self) -> Option<String> {
        let steering = self.steering.lock();
        if steering.is_switched_off() {
            return Some("rules are switched off by another program (`ntuple off`)".into());
        }
        let left: Vec<String> = steering.left().iter().map(ToString::to_string).collect();
        (!left.is_empty()).then(|| {
            format!(
                "another program changed {}: the plan does not hold until that is as it was, or the policy is read \
                 again (SIGHUP)",
                left.join(", ")
            )
        })
    }

    fn renew(&mut self) {
        self.steering.lock().take_settings_back();
        self.must_compare = true;
    }

    fn configuration(&self, _: &Search) -> Configuration {
        self.configuration.clone().unwrap_or_default()
    }

    fn take_missed(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        let Some(counter) = &mut self.counter else { return Ok(()) };
        Ok(counter.take_traffic(take)?)
    }

    fn take_hits(&mut self, _: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        Ok(())
    }

    fn hits(&self) -> Option<Vec<(RuleId, u64)>> {
        None
    }

    fn arrivals(&mut self, _: &Search) -> Result<Arrivals, TargetError> {
        let queues = self.steering.lock().driver().received().map_err(NicError::from)?;
        Ok(Arrivals { queues, ..Arrivals::default() })
    }

    fn switches(&mut self, search: &Search) -> Result<Vec<Switch>, TargetError> {
        let configuration = self.configuration(search);
        let desired = DesiredConfiguration::of(search.nic(), &configuration);
        let desired = desired.map_err(BringError::from).map_err(NicError::from)?;
        let mut steering = self.steering.lock();
        let driver = steering.driver();
        let mut switches = Vec::new();
        if desired.rules_on || !desired.rules.is_empty() {
            let found = Some(driver.ntuple().map_err(NicError::from)?);
            switches.push(Switch { name: "ntuple".into(), wanted: true, found });
        }
        for name in desired.off {
            let found = driver.private_flag(&name).map_err(NicError::from)?;
            switches.push(Switch { name, wanted: false, found });
        }
        switches.extend(Switch::of_features(driver, desired.features)?);
        Ok(switches)
    }

    fn counts_flows(&self) -> bool {
        self.counter.is_some()
    }

    fn filters(&self) -> usize {
        self.steering.lock().record().locations().count()
    }

    fn finish(&mut self) -> Result<Vec<String>, TargetError> {
        self.counter = None;
        if !self.stays {
            return self.undo();
        }
        let mut steering = self.steering.lock();
        steering.leave();
        let path = steering.file().path().display();
        Ok(vec![format!("the changes stay; `--undo` takes them back ({path} lists them)")])
    }
}
