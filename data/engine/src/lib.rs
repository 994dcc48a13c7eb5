//! Schedules, the interpreter, tasks and workers.
#![forbid(unsafe_code)]
