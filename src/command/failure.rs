//! What a command failed with, and the exit status for it.

use std::process::ExitCode;

use weever_capture::CaptureError;
use weever_cli::CliError;
use weever_daemon::config::ConfigError;
use weever_daemon::{StartError, UpError};
use weever_graphtool::GraphToolError;

use super::papers::PapersError;
use weever_plantool::PlanToolError;
use weever_steertool::SteerError;

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
    /// Says on standard error what went wrong.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Failure::Up(UpError::Config(ConfigError::Several(problems))) => {
                problems.iter().for_each(|problem| eprintln!("error: {problem}"));
            }
            other => eprintln!("error: {other}"),
        }
        match self {
            Failure::Up(UpError::Config(_)) => ExitCode::from(USAGE),
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
