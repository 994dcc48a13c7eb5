//! The control commands of weever.
//!
//! They know a running stack only by its control socket and the messages of `service/api`
//! (design/0000 §3, rule 6): what they do, a script can.
#![forbid(unsafe_code)]

mod counters;
mod error;
mod find;
mod flows;
mod format;
mod graph;
mod queues;
mod set;
mod status;
mod stop;
mod table;
mod watch;

pub use counters::{CountersArgs, write_counters};
pub use error::CliError;
pub use find::Target;
pub use flows::FlowsArgs;
pub use graph::{apply_graph, running_graph};
pub use queues::QueuesArgs;
pub use set::{SetArgs, described};
pub use status::StatusArgs;
pub use stop::StopArgs;
