//! The stack as a service: joins graph, engine, links and control.
#![forbid(unsafe_code)]
