//! A NIC's own filters.

use std::path::Path;

use weever_device::actions::{Actions, Brought, Desired, Record, StateFile, bring, undo};
use weever_device::ethtool::{Driver, KernelDriver};
use weever_device::xdp::FlowCounter;
use weever_plan::search::Search;
use weever_plan::watch::FiveTuple;

use crate::backend::Backend;
use crate::{SteerArgs, SteerError};

/// More commands are not shown one by one.
const SHOWN: usize = 200;

/// A device that is configured by `ethtool`'s calls.
pub(crate) struct NicFilters {
    driver: KernelDriver,
    ifindex: u32,
    record: Record,
    file: StateFile,
    is_to_stay: bool,
    counter: Option<FlowCounter>,
}

impl NicFilters {
    /// Opens a device, with what an earlier process left on it.
    pub(crate) fn new(
        args: &SteerArgs,
        driver: KernelDriver,
        ifindex: u32,
    ) -> Result<NicFilters, SteerError> {
        let file = StateFile::of(Path::new(StateFile::FOLDER), &args.dev)?;
        let record = file.load()?;
        let is_to_stay = args.persist;
        Ok(NicFilters { driver, ifindex, record, file, is_to_stay, counter: None })
    }

    fn between(&mut self, search: &mut Search) -> Result<Actions, SteerError> {
        let plan = search.plan();
        let nic = search.nic();
        let desired = Desired::of(nic, &plan.configuration(nic.tables.len()))?;
        Ok(Actions::between(&mut self.driver, &mut self.record, &desired)?)
    }

    fn told(&self, actions: &Actions) -> Vec<String> {
        let mut lines: Vec<String> = actions.notes.iter().map(|n| format!("note: {n}")).collect();
        let commands = actions.commands(self.driver.device());
        let more = commands.len().saturating_sub(SHOWN);
        lines.extend(commands.into_iter().take(SHOWN));
        if more > 0 {
            lines.push(format!("# and {more} more"));
        }
        lines
    }

    /// Undoes what the record says.
    pub(crate) fn undo(&mut self) -> Result<Vec<String>, SteerError> {
        let actions = undo(&mut self.driver, &mut self.record)?;
        let lines = match actions.is_empty() {
            true => vec!["nothing was left to undo".into()],
            false => self.told(&actions),
        };
        let failed = actions.apply_all(&mut self.driver, &mut self.record);
        if failed.is_empty() {
            // What is still noted is what somebody else answers for now.
            self.record = Record::default();
        }
        self.file.save(&self.record)?;
        match failed.is_empty() {
            true => Ok(lines),
            false => {
                let errors: Vec<String> = failed.iter().map(ToString::to_string).collect();
                Err(SteerError::Undo(errors.join("; ")))
            }
        }
    }
}

impl Backend for NicFilters {
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let actions = self.between(search)?;
        let mut lines = self.told(&actions);
        lines.push(match actions.is_empty() {
            true => "# the device is already so".into(),
            false => "# nothing was changed; --apply does it".into(),
        });
        Ok(lines)
    }

    fn update(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let brought = bring(&mut self.driver, &mut self.record, search);
        // Whatever became of it: if this process is killed, the next one knows.
        self.file.save(&self.record)?;
        let Brought { actions, refused } = brought?;
        let refused = refused.into_iter().map(|said| format!("note: planned without it: {said}"));
        Ok(refused.chain(self.told(&actions)).collect())
    }

    fn watch(&mut self, flows: u32, every: u32) -> Result<(), SteerError> {
        self.counter = Some(FlowCounter::attach(self.ifindex, flows, every)?);
        Ok(())
    }

    fn traffic(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), SteerError> {
        let Some(counter) = &mut self.counter else { return Ok(()) };
        Ok(counter.take_traffic(take)?)
    }

    fn finish(&mut self) -> Result<Vec<String>, SteerError> {
        self.counter = None;
        if self.is_to_stay {
            let path = self.file.path().display();
            return Ok(vec![format!("it stays so; `--undo` undoes it ({path} says what that is)")]);
        }
        self.undo()
    }

    fn queue(&self, queue: u32) -> String {
        format!("queue {queue}")
    }

    fn filters(&self) -> usize {
        self.record.locations().count()
    }
}
