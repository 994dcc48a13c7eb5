//! The workers' graph: its program, the parts of it that workers run, and captures in it.

pub(super) mod capture;
pub(super) mod parts;
mod places;
pub(super) mod program;
