//! The interpreter: rule by rule, and against the reference on random graphs.

mod change;
mod deadlines;
mod faults;
mod observers;
mod property;
mod script;
mod semantics;
