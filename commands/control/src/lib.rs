//! The control commands of weever.
//!
//! They know a running stack only by its control socket and the messages of `service/api`: a script can
//! do all that they do.
#![forbid(unsafe_code)]

mod counters;
mod find;
mod flows;
mod queues;
mod set;
mod sockets;
mod status;
mod table;
mod watch;

use std::io::Write;

pub use counters::write_counters;
pub use find::{CliError, Target};
pub use set::described;

/// A command that asks a running stack and prints the answer.
#[derive(Clone, Debug, clap::Subcommand)]
#[allow(missing_docs, reason = "the help of a command is the text of its arguments' type")]
pub enum ControlCommand {
    Status(status::StatusArgs),
    Counters(counters::CountersArgs),
    Flows(flows::FlowsArgs),
    #[command(visible_alias = "queue")]
    Queues(queues::QueuesArgs),
    Set(set::SetArgs),
    Settings(set::SettingsArgs),
    Sockets(sockets::SocketsArgs),
    Stop(set::StopArgs),
}

impl ControlCommand {
    /// Asks the stack and prints to `out`; with `--watch` until the stack ends, which is an error.
    ///
    /// # Errors
    /// When the stack cannot be asked or refuses, or `out` cannot be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        match self {
            ControlCommand::Status(args) => args.run(out),
            ControlCommand::Counters(args) => args.run(out),
            ControlCommand::Flows(args) => args.run(out),
            ControlCommand::Queues(args) => args.run(out),
            ControlCommand::Set(args) => args.run(out),
            ControlCommand::Settings(args) => args.run(out),
            ControlCommand::Sockets(args) => args.run(out),
            ControlCommand::Stop(args) => args.run(out),
        }
    }
}
