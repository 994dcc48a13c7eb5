//! The interpreter against the reference, on random graphs.

mod property;
