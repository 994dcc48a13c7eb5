//! The failure of a command, and the exit status for it.

use std::io::{self, Write};
use std::process::ExitCode;

use weever_capture::CaptureError;
use weever_commands_control::CliError;
use weever_commands_graph::GraphToolError;
use weever_daemon::config::ConfigError;
use weever_daemon::{StartError, UpError};

use super::papers::PapersError;
use weever_commands_plan::PlanToolError;
use weever_commands_steer::SteerError;

/// A command line or a configuration that is wrong; clap's own choice, too.
const USAGE: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Cli(#[from] CliError),
    #[error(transparent)]
    Up(#[from] UpError),
    #[error("while the stack ran: {0}")]
    Ended(String),
    #[error(transparent)]
    Papers(#[from] PapersError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Graph(#[from] GraphToolError),
    #[error(transparent)]
    Plan(#[from] PlanToolError),
    #[error(transparent)]
    Steer(#[from] SteerError),
}

impl Failure {
    /// Reports the failure on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        let mut errors = io::stderr().lock();
        // A reader that has gone away (`2>&1 | head`) is no reason for another status.
        let _ = match self {
            Failure::Up(UpError::Config(ConfigError::Several(problems))) => {
                problems.iter().try_for_each(|problem| writeln!(errors, "error: {problem}"))
            }
            other => writeln!(errors, "error: {other}"),
        };
        match self {
            Failure::Up(UpError::Config(_) | UpError::Log(_)) => ExitCode::from(USAGE),
            Failure::Up(UpError::Start(StartError::Policy(error))) if error.is_about_files() => {
                ExitCode::from(USAGE)
            }
            Failure::Graph(error) => error.exit_code(),
            Failure::Plan(error) => error.exit_code(),
            Failure::Steer(error) => error.exit_code(),
            _ => ExitCode::FAILURE,
        }
    }
}
