//! Errors that keep a command from doing its work, apart from mistakes in the text itself.

use std::process::ExitCode;

/// A file that could not be read or written, or a stack that could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphToolError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}; is the path right, and may you read it?")]
    Read {
        /// The path as given.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not UTF-8.
    #[error("{file} is not UTF-8 text: byte {at} cannot be decoded; is it a Unicorn file?")]
    NotText {
        /// The path as given.
        file: String,
        /// The first byte that is wrong.
        at: usize,
    },
    /// The file does not end within 16 MiB.
    #[error("{file} is longer than 16 MiB: no graph is; is the path right?")]
    TooLong {
        /// The path as given.
        file: String,
    },
    /// The file cannot be written.
    #[error("cannot write {file}: {source}; is there such a folder, and may you write to it?")]
    Write {
        /// The path as given.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// `--write` with standard input.
    #[error("`--write` needs a file: standard input cannot be written back")]
    WriteToStdin,
    /// A cluster that is to be unfolded is not there.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Unfold(#[from] weever_graph::svg::UnknownCluster),
    /// The running graph could not be had.
    #[error(transparent)]
    Running(#[from] weever_commands_control::CliError),
}

impl GraphToolError {
    /// The exit status for such errors: 2, but 1 if a running stack cannot be asked.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            GraphToolError::Running(_) => ExitCode::FAILURE,
            _ => ExitCode::from(2),
        }
    }
}
