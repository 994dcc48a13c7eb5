//! The streams and files of a command, and the errors that keep it from doing its work.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// In bytes: a hundred times the host's graph. A longer file is a device, or no graph.
const LONGEST: u64 = 16 << 20;

/// The text of `path`, or of standard input for `-`.
pub(crate) fn read(path: &Path, streams: &mut Streams) -> Result<String, GraphToolError> {
    let file = shown(path);
    let bytes = match is_stdin(path) {
        true => read_most(&mut *streams.input),
        false => File::open(path).and_then(read_most),
    };
    let bytes = bytes.map_err(|source| GraphToolError::Read { file: file.clone(), source })?;
    if bytes.len() as u64 > LONGEST {
        return Err(GraphToolError::TooLong { file });
    }
    String::from_utf8(bytes)
        .map_err(|e| GraphToolError::NotText { file, at: e.utf8_error().valid_up_to() })
}

/// A byte more than is allowed, to notice.
fn read_most(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces the file's text at once: a reader sees the old text or the new one. A link stays, and
/// its target is replaced. A device such as `/dev/stdout` is written to.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), GraphToolError> {
    let written = match std::fs::metadata(path) {
        Ok(there) if there.is_file() => std::fs::canonicalize(path)
            .and_then(|behind| replace(&behind, text, Some(there.permissions()))),
        Ok(_) => std::fs::write(path, text),
        Err(e) if e.kind() == ErrorKind::NotFound => replace(path, text, None),
        Err(e) => Err(e),
    };
    written.map_err(|source| GraphToolError::Write { file: shown(path), source })
}

fn replace(path: &Path, text: &str, permissions: Option<Permissions>) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let replaced = std::fs::write(&beside, text).and_then(|()| {
        permissions.map_or(Ok(()), |as_before| std::fs::set_permissions(&beside, as_before))?;
        std::fs::rename(&beside, path)
    });
    if replaced.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The path as messages name it.
pub(crate) fn shown(path: &Path) -> String {
    if is_stdin(path) { "<stdin>".into() } else { path.display().to_string() }
}

/// The streams of a command.
pub struct Streams<'a> {
    /// Read when the file is `-`.
    pub input: &'a mut dyn Read,
    /// Gets results.
    pub output: &'a mut dyn Write,
    /// Gets diagnostics.
    pub errors: &'a mut dyn Write,
    /// Whether diagnostics are coloured.
    pub colours: bool,
}

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
