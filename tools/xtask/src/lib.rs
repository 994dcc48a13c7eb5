//! The project's own checks.
#![forbid(unsafe_code)]
