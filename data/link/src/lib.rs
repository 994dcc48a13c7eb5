//! The Link trait, memory links, fault middleware and the conformance suite.
#![forbid(unsafe_code)]
