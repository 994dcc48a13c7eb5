//! The results of changes.

use weever_plan::search::RuleId;

use super::XdpError;

/// The result of [`XdpSteering::apply`](super::XdpSteering::apply).
#[derive(Debug, Default)]
pub struct ProgramReport {
    /// The number of new rules.
    pub inserted: usize,
    /// The number of removed rules.
    pub removed: usize,
    /// How many send their packets elsewhere.
    pub retargeted: usize,
    /// Whether the program was exchanged; otherwise only its maps changed.
    pub exchanged: bool,
    /// Rules that are not carried out, and why. Their packets go as if there were no such rule.
    pub failed: Vec<(RuleId, XdpError)>,
}

impl ProgramReport {
    /// Adds the result of a later call.
    pub fn add(&mut self, other: ProgramReport) {
        self.inserted += other.inserted;
        self.removed += other.removed;
        self.retargeted += other.retargeted;
        self.exchanged |= other.exchanged;
        self.failed.extend(other.failed);
    }
}
