//! Views and builders of protocol headers: no I/O, no allocation.
#![forbid(unsafe_code)]
