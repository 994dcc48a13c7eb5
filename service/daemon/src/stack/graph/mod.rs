//! The workers' graph: what it is made of, the parts that workers run of it, and captures in it.

pub(super) mod capture;
pub(super) mod parts;
pub(super) mod program;
