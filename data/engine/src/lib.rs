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
//! A [`Worker`] joins an engine with the queues of its links. A [`Team`] is all workers of a stack; its
//! [`Publisher`] changes the graph that they run.
#![forbid(unsafe_code)]

mod counters;
mod interpreter;
mod limits;
mod mailbox;
pub mod reference;
mod schedule;
mod sync;
mod team;
#[cfg(test)]
mod testkit;
mod worker;

pub use counters::{CounterKind, Counters, NODE_WAS_REMOVED, REMOVED, Reading, sum};
pub use interpreter::Engine;
pub use limits::Limits;
pub use mailbox::Mailbox;
pub use schedule::{CompileError, Entry, Idp, Idps, Schedule, Update};
pub use team::{Fit, Member, MemberQueue, Published, Publisher, Team, TeamError};
pub use worker::{Attached, Lost, Mode, Pace, Turn, Waker, Worker, WorkerStats, monotonic};
