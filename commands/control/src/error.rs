//! Errors of commands.

use std::io;
use std::path::PathBuf;

use weever_service_api::ClientError;

/// Why a control command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// No stack was found.
    #[error(
        "no stack is running: no control socket in {}\nstart one with `weever up --dev DEVICE --addr ADDRESS`, or name its socket with --socket",
        joined(looked_in)
    )]
    NothingRuns {
        /// The directories that were searched.
        looked_in: Vec<PathBuf>,
    },
    /// A directory of control sockets may not be read.
    #[error(
        "cannot look for control sockets in {}: {source}\nonly the user who started a stack, and root, may ask it: try `sudo weever`",
        directory.display()
    )]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Only sockets of stacks that were killed were found.
    #[error(
        "no stack is running: nobody answers on {}\nstart one with `weever up --dev DEVICE --addr ADDRESS`",
        joined(sockets)
    )]
    OnlyDeadSockets {
        /// The sockets.
        sockets: Vec<PathBuf>,
    },
    /// Stacks run, but none in the network namespace of the command.
    #[error("no stack is running in this network namespace, but elsewhere: {}", .0.join(", "))]
    Elsewhere(
        /// These stacks, with the option that asks each.
        Vec<String>,
    ),
    /// Several stacks run, and no option says which is meant.
    #[error("several stacks are running: choose one with --dev {}", devices.join(" or --dev "))]
    Several {
        /// Their devices.
        devices: Vec<String>,
    },
    /// The stack could not be asked.
    #[error("{0}{hint}", hint = hint(.0))]
    Client(#[from] ClientError),
    /// The answer could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(" or ")
}

fn hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::NotRunning { .. } => {
            "\nstart a stack with `weever up`, or name another one's socket with --socket or --dev"
        }
        ClientError::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "\nonly the user who started the stack, and root, may ask it: try `sudo weever`"
        }
        _ => "",
    }
}
