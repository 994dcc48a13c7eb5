//! What runs and what was counted, in the terms of control messages.

pub(super) mod counters;
pub(super) mod network;
pub(super) mod picture;
pub(super) mod totals;
