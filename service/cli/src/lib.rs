//! The control commands of weever.
#![forbid(unsafe_code)]
