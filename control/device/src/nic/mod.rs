//! A NIC that is kept to a plan.
//!
//! [`NicSteering`] joins a [`Driver`], the [`Record`] of the changes made to it, and the record's
//! [`StateFile`]. Changes are recorded before they are made, and again afterwards: whenever the process
//! is killed, the next one can undo them. Changes that are not [left](NicSteering::leave) are undone
//! when it is dropped, also by a panic.

mod lost;
mod others;
mod seen;

pub use lost::Lost;
pub use seen::OthersRules;

use seen::Traces;

use weever_plan::search::Search;

use crate::actions::{
    AboutTo, Ahead, ApplyReport, BringError, ConfigurationError, ConfigurationSteps,
    DesiredConfiguration, PersistError, Record, Setting, Settings, StateFile, bring_noting, take,
    undo,
};
use crate::ethtool::{Driver, EthtoolError};

/// Why a NIC is not in the wanted state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NicError {
    /// The device's answer.
    #[error(transparent)]
    Device(#[from] EthtoolError),
    /// The plan does not come onto the device.
    #[error(transparent)]
    Bring(#[from] BringError),
    /// The record cannot be kept.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// Undoing failed in part.
    #[error(
        "not everything could be undone: {0}; look at the device with `ethtool -n`, `-x`, `-l`"
    )]
    Undo(String),
}

impl NicError {
    /// Whether the device is gone.
    pub fn is_gone(&self) -> bool {
        match self {
            NicError::Device(error)
            | NicError::Bring(
                BringError::Device(error)
                | BringError::ConfigurationSteps(ConfigurationError::Device(error)),
            ) => error.is_gone(),
            NicError::Bring(BringError::Apply(error)) => error.source.is_gone(),
            _ => false,
        }
    }
}

/// A NIC that is kept to a plan by `ethtool`'s calls. All calls block for as long as the device takes.
pub struct NicSteering {
    driver: Box<dyn Driver + Send>,
    record: Record,
    file: StateFile,
    /// Whether it is to be undone.
    is_ours: bool,
    /// Whether it was as a policy needs it before.
    has_followed: bool,
    /// Whether others have switched rules off.
    is_off: bool,
    /// Whether the present plan needs rules on although it has none.
    needs_rules_on: bool,
    /// The settings that the present plan relies on.
    settings: Settings,
    /// The settings that others changed, and that are left as they are.
    left: Vec<Setting>,
    traces: Traces,
    /// The rules of others that the present plan goes around.
    others: OthersRules,
}

impl NicSteering {
    /// Takes a device of the calling thread's network namespace, with the changes of an earlier process that the
    /// file lists. The caller has [claimed](crate::claim::Claim) it.
    ///
    /// # Errors
    /// [`PersistError`] if the file cannot be read.
    pub fn new(
        mut driver: Box<dyn Driver + Send>,
        file: StateFile,
    ) -> Result<NicSteering, PersistError> {
        let record = file.load()?;
        driver.listen();
        Ok(NicSteering {
            driver,
            record,
            file,
            is_ours: false,
            has_followed: false,
            is_off: false,
            needs_rules_on: false,
            settings: Settings::default(),
            left: Vec::new(),
            traces: Traces::default(),
            others: OthersRules::default(),
        })
    }

    /// The steps that would be necessary, without taking them.
    ///
    /// # Errors
    /// The device's answer, or why the plan does not fit it.
    pub fn preview(
        &mut self,
        desired: &DesiredConfiguration,
    ) -> Result<ConfigurationSteps, ConfigurationError> {
        ConfigurationSteps::between(&mut *self.driver, &mut self.record, desired)
    }

    /// Brings the device to the desired configuration, and returns the steps. After the first success,
    /// dropping this undoes it.
    ///
    /// # Errors
    /// [`NicError`]; the device is as it was before, unless the error tells otherwise.
    pub fn bring(
        &mut self,
        desired: &DesiredConfiguration,
    ) -> Result<ConfigurationSteps, NicError> {
        let actions = self.preview(desired).map_err(BringError::from)?;
        let file = self.file.clone();
        let mut ahead = move |record: &Record| file.save(record);
        let taken = take(&mut *self.driver, &mut self.record, &actions, &mut ahead);
        self.done(taken)?;
        Ok(actions)
    }

    /// Like [`bring`](Self::bring) with a search's plan, in which the search plans around the device's
    /// refusals ([`bring`](crate::actions::bring)). The first time, the policy has to be satisfied.
    /// Later, a plan that comes as near to that as the device allows is better than to end. Then rules that a reset
    /// took are made again, the plan goes around those that others made and is without those that they removed,
    /// settings that others changed stay, and nothing is done as long as others have switched rules off ([`Lost`]).
    ///
    /// # Errors
    /// As [`bring`](Self::bring).
    pub fn follow(&mut self, search: &mut Search) -> Result<ApplyReport, NicError> {
        self.follow_telling(search, &mut |_, _| ())
    }

    /// Like [`follow`](Self::follow), and reports each plan before it is tried: if this succeeds, the
    /// device has the last of them.
    ///
    /// # Errors
    /// As [`bring`](Self::bring).
    pub fn follow_telling(
        &mut self,
        search: &mut Search,
        about_to: &mut AboutTo<'_>,
    ) -> Result<ApplyReport, NicError> {
        let Some(settled) = self.settle_losses(search)? else {
            let note = "rules are switched off by another program (`ntuple off`): the plan waits until they are on";
            let actions = ConfigurationSteps { notes: vec![note.into()], ..Default::default() };
            return Ok(ApplyReport { actions, refused: Vec::new() });
        };
        let file = self.file.clone();
        let ahead: &mut Ahead<'_> = &mut move |record| file.save(record);
        let (mut names, mut needs_rules_on) = (Vec::new(), false);
        let about_to: &mut AboutTo<'_> = &mut |nic, configuration| {
            names = Setting::all(nic, configuration);
            needs_rules_on = nic.needs_rules_on(configuration);
            about_to(nic, configuration);
        };
        let (driver, record, left) = (&mut *self.driver, &mut self.record, &self.left[..]);
        let mut brought = bring_noting(driver, record, search, left, ahead, about_to);
        if self.has_followed
            && let Err(BringError::Unsatisfied { refused }) = brought
        {
            brought = bring_noting(driver, record, search, left, ahead, about_to);
            if let Ok(brought) = &mut brought {
                brought.refused.splice(..0, refused);
            }
        }
        if let Ok(brought) = &mut brought {
            brought.actions.notes.splice(..0, settled.notes);
            brought.refused.splice(..0, settled.taken);
            // What cannot be read cannot be compared later.
            let now = Settings::read(&names, driver).unwrap_or_default();
            self.settings = now.keeping(left, &self.settings);
            self.needs_rules_on = needs_rules_on;
        }
        self.has_followed |= brought.is_ok();
        self.done(brought)
    }

    /// Records the result.
    fn done<T>(&mut self, done: Result<T, BringError>) -> Result<T, NicError> {
        // Changes that cannot be recorded are undone nevertheless.
        self.is_ours |= done.is_ok();
        self.file.save(&self.record)?;
        Ok(done?)
    }

    /// Leaves the device as it is, for a later process to undo.
    pub fn leave(&mut self) {
        self.is_ours = false;
    }

    /// Undoes all recorded changes, also of earlier processes. If the device is gone there is nothing
    /// to undo, which is no error.
    ///
    /// # Errors
    /// [`NicError::Undo`]: a part could not be undone; the record keeps it.
    pub fn undo(&mut self) -> Result<ConfigurationSteps, NicError> {
        self.is_ours = false;
        let actions = match undo(&mut *self.driver, &mut self.record) {
            Err(error) if error.is_gone() => {
                self.forget()?;
                return Ok(ConfigurationSteps::default());
            }
            actions => actions?,
        };
        let failed = actions.apply_all(&mut *self.driver, &mut self.record);
        if failed.is_empty() || failed.iter().all(EthtoolError::is_gone) {
            // The rest of the record belongs to others now.
            self.forget()?;
            return Ok(actions);
        }
        self.file.save(&self.record)?;
        let errors: Vec<String> = failed.iter().map(ToString::to_string).collect();
        Err(NicError::Undo(errors.join("; ")))
    }

    fn forget(&mut self) -> Result<(), PersistError> {
        self.record = Record::default();
        self.file.save(&self.record)
    }

    /// The changes made to the device.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The file of the record.
    pub fn file(&self) -> &StateFile {
        &self.file
    }

    /// The device.
    pub fn driver(&mut self) -> &mut dyn Driver {
        &mut *self.driver
    }
}

/// A search's plan in the kernel's terms.
///
/// # Errors
/// [`ConfigurationError`] if a rule cannot be expressed.
pub fn planned(search: &mut Search) -> Result<DesiredConfiguration, ConfigurationError> {
    let plan = search.plan();
    let nic = search.nic();
    DesiredConfiguration::of(nic, &plan.configuration(nic.tables.len()))
}

impl Drop for NicSteering {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = self.undo()
        {
            // A destructor cannot return an error.
            eprintln!("{}: {error}", self.driver.device());
        }
    }
}

impl std::fmt::Debug for NicSteering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NicSteering({})", self.driver.device())
    }
}

#[cfg(test)]
mod tests;
