//! A hierarchical timing wheel without a clock.
#![forbid(unsafe_code)]
