//! The blocks that ship with weever.
#![forbid(unsafe_code)]
