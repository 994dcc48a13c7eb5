//! A configuration becomes a running team of workers.
#![forbid(unsafe_code)]
