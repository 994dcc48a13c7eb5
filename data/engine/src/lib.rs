//! Executes graphs: from a verified graph to packets that walk it, sixty-four at a time.
//!
//! [`Schedule::compile`] makes a block of each node and, for every node at which a task may start,
//! a flat array of steps in topological order. An [`Engine`] runs batches of tasks over these
//! arrays as bit masks (design/0000 §4.2) and keeps the task queues between batches (design/0000 §4.3).
//! [`reference`](mod@reference) defines the same semantics, slowly and one packet at a time,
//! following the Dragonet thesis; the tests compare the two.
//!
//! The engine runs any verified graph. It depends on neither the language, nor plans, nor policies
//! (design/0000 §3, rule 3). Only [`Worker::run`] reads a clock; everything below it takes the time as
//! an argument. A [`Worker`] connects an engine with the queues of its links. A [`Team`] is all
//! workers of a stack; its [`Publisher`] changes the graph that they run.
#![forbid(unsafe_code)]

mod counters;
mod faults;
mod interpreter;
mod limits;
mod mailbox;
mod moves;
mod quiet;
pub mod reference;
mod schedule;
mod slots;
mod team;
#[cfg(test)]
mod testkit;
mod worker;

pub use counters::{Counters, Reading, sum};
pub use faults::{BLOCK_PANICKED, BLOCK_QUARANTINED, Fault};
pub use interpreter::Engine;
pub use limits::Limits;
pub use mailbox::{Mailbox, Waker};
pub use moves::{ListedFlows, Moved};
pub use schedule::{CompileError, Entry, Idp, Idps, Schedule, Update};
pub use slots::{CounterKind, NODE_WAS_REMOVED, REMOVED};
pub use team::{
    Fit, FlowLists, FlowMoves, Member, MemberQueue, Published, Publisher, Team, TeamError,
};
pub use worker::{Attached, Lost, Mode, Pace, Turn, Worker, WorkerStats, monotonic};
