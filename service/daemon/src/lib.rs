//! The stack as a service: joins graph, engine, links and control.
#![forbid(unsafe_code)]

pub mod config;
pub mod control;
pub mod preflight;
