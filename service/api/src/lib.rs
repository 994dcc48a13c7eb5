//! Versioned control messages and their client.
#![forbid(unsafe_code)]
