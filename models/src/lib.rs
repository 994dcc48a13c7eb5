//! The protocol graphs that ship with weever.
#![forbid(unsafe_code)]
