//! What brings a plan onto a device.

use weever_plan::search::Search;
use weever_plan::watch::FiveTuple;

use crate::SteerError;

/// What the device refused while flows were followed was needed.
pub(crate) const UNSATISFIED: &str = "note: without them the policy cannot be satisfied";

/// A device that is steered.
pub(crate) trait Backend {
    /// What would be done, a line each.
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError>;
    /// Brings what changed in the plan onto the device, and says what was done, a line each. If it
    /// fails, the device is as it was before.
    fn update(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError>;
    /// Begins to look for flows.
    fn watch(&mut self, flows: u32, every: u32) -> Result<(), SteerError>;
    /// The traffic since the last time.
    fn traffic(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), SteerError>;
    /// Leaves the device as it was found, or as it is if that is wanted; says what became of it.
    fn finish(&mut self) -> Result<Vec<String>, SteerError>;
    /// How a queue is shown.
    fn queue(&self, queue: u32) -> String;
    /// How many filters there are.
    fn filters(&self) -> usize;
}
