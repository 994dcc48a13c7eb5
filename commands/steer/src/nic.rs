//! A NIC's own filters.

use std::path::Path;

use weever_device::actions::{Actions, Brought, StateFile};
use weever_device::claim::Claim;
use weever_device::ethtool::KernelDriver;
use weever_device::nic::{NicSteering, planned};
use weever_device::xdp::FlowCounter;
use weever_plan::search::Search;
use weever_plan::watch::FiveTuple;

use crate::backend::{Backend, UNSATISFIED};
use crate::{SteerArgs, SteerError};

/// More commands are not shown one by one.
const SHOWN: usize = 200;

/// A device that is configured by `ethtool`'s calls.
pub(crate) struct NicFilters {
    steering: NicSteering,
    device: String,
    ifindex: u32,
    is_to_stay: bool,
    counter: Option<FlowCounter>,
    /// Given up last.
    _claim: Option<Claim>,
}

impl NicFilters {
    /// Opens a device, with what an earlier process left on it.
    pub(crate) fn new(
        args: &SteerArgs,
        driver: KernelDriver,
        ifindex: u32,
        claim: Option<Claim>,
    ) -> Result<NicFilters, SteerError> {
        let file = StateFile::of(Path::new(StateFile::FOLDER), ifindex)?;
        Ok(NicFilters {
            steering: NicSteering::new(Box::new(driver), file)?,
            device: args.dev.clone(),
            ifindex,
            is_to_stay: args.persist,
            counter: None,
            _claim: claim,
        })
    }

    fn told(&self, actions: &Actions) -> Vec<String> {
        let mut lines: Vec<String> = actions.notes.iter().map(|n| format!("note: {n}")).collect();
        let commands = actions.commands(&self.device);
        let more = commands.len().saturating_sub(SHOWN);
        lines.extend(commands.into_iter().take(SHOWN));
        if more > 0 {
            lines.push(format!("# and {more} more"));
        }
        lines
    }

    /// Undoes what the record says.
    pub(crate) fn undo(&mut self) -> Result<Vec<String>, SteerError> {
        let actions = self.steering.undo()?;
        Ok(match actions.is_empty() {
            true => vec!["nothing was left to undo".into()],
            false => self.told(&actions),
        })
    }
}

impl Backend for NicFilters {
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let actions = self.steering.preview(&planned(search)?)?;
        let mut lines = self.told(&actions);
        lines.push(match actions.is_empty() {
            true => "# the device is already so".into(),
            false => "# nothing was changed; --apply does it".into(),
        });
        Ok(lines)
    }

    fn update(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let Brought { actions, refused } = self.steering.follow(search)?;
        let mut lines: Vec<String> =
            refused.iter().map(|said| format!("note: planned without it: {said}")).collect();
        if !refused.is_empty() && !search.cost().is_acceptable() {
            lines.push(UNSATISFIED.into());
        }
        lines.extend(self.told(&actions));
        Ok(lines)
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
            self.steering.leave();
            let path = self.steering.file().path().display();
            return Ok(vec![format!("it stays so; `--undo` undoes it ({path} says what that is)")]);
        }
        self.undo()
    }

    fn queue(&self, queue: u32) -> String {
        format!("queue {queue}")
    }

    fn filters(&self) -> usize {
        self.steering.record().locations().count()
    }
}
