//! The expenses of a search: work of its budget, and moves of filters.

/// A plan's budget ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The budget, in steps.
    pub steps: u64,
    /// The flows for which no rule was tried.
    pub skipped: usize,
}

/// The work that the present call may do.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) limit: u64,
    /// Flows that this pass still has to place, the present one included.
    pub(super) waiting: usize,
    /// Whether a call since all flows were placed last ended for lack of budget.
    pub(super) exhausted: bool,
    /// Whether parts may have been placed roughly since all flows were placed last.
    pub(super) rough: bool,
}

/// Moves that have been paid for.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) saved: u32,
    /// The flow at which the search for a flow to move continues.
    pub(super) cursor: u32,
}
