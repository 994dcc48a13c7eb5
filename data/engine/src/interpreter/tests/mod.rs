//! The interpreter: rule by rule, and against the reference on random graphs.

mod change;
mod property;
mod script;
mod semantics;
