//! Namespaces and veth pairs for tests, the demo and benchmarks.
#![forbid(unsafe_code)]
