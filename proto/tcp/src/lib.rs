//! TCP as state machines without input, output or clock.
#![forbid(unsafe_code)]
