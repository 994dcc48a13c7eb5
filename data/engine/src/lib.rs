//! Executes graphs: from a verified graph to packets that walk it, sixty-four at a time.
//!
//! One path: [`Schedule::compile`] makes blocks of the nodes and, for every node where a task may
//! start, a flat array of steps in topological order. An [`Engine`] runs batches of tasks over
//! these arrays as bit masks (DESIGN §4.2), and keeps the queues of tasks between the batches
//! (DESIGN §4.3). [`reference`](mod@reference) is the same meaning, one packet at a time and slowly, in the words
//! of the Dragonet thesis; the tests hold the two together.
//!
//! The engine takes any verified graph. It knows neither the language, nor plans, nor policies
//! (DESIGN §3, rule 3). Only [`Worker::run`] reads a clock; everything below it is told the time.
//! A [`Worker`] joins an engine with the queues of its links.
#![forbid(unsafe_code)]

mod counters;
mod interpreter;
mod limits;
pub mod reference;
mod schedule;
#[cfg(test)]
mod testkit;
mod worker;

pub use counters::{CounterKind, Counters, Reading};
pub use interpreter::Engine;
pub use limits::Limits;
pub use schedule::{CompileError, Entry, Schedule};
pub use worker::{Attached, Lost, Mode, Turn, Waker, Worker, WorkerStats, monotonic};
