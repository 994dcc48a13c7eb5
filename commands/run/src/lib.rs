//! `weever run`: a program that knows nothing of weever, on a weever stack.
//!
//! ```text
//!  options, environment, a file of defaults
//!     ▼
//!  PROGRAM ─► program: can the dynamic loader put a library into it? ─► library: where is it?
//!                                                                          │
//!  a stack that serves applications? ── no: a warning, and the kernel's ───┤
//!  or one inside, of this device and these addresses                       ▼
//!                                              exec, with LD_PRELOAD and WEEVER_APPS
//! ```
#![forbid(unsafe_code)]

mod args;
mod defaults;
mod library;
mod program;
mod stack;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

pub use args::RunArgs;
pub use defaults::DefaultsError;
pub use library::LibraryError;
pub use program::ProgramError;
pub use stack::{StackArgs, StackError, Where};

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The loader cannot put the library into the program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The library is not there.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The file of defaults means nothing, or is not there.
    #[error(transparent)]
    Defaults(#[from] DefaultsError),
    /// The options name no stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// No stack serves applications.
    #[error(transparent)]
    NoStack(weever_app_sockets::Error),
    /// The system does not start the program.
    #[error("{}: {source}", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Becomes the program; returns only when it cannot.
pub fn run(args: &RunArgs) -> RunError {
    match prepare(args) {
        Ok((program, mut command)) => RunError::Exec { program, source: command.exec() },
        Err(error) => error,
    }
}

fn prepare(args: &RunArgs) -> Result<(PathBuf, Command), RunError> {
    let name = args.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let in_environment = std::env::var_os("WEEVER_APPS").is_some();
    let named = args.defaults.clone().or_else(|| std::env::var_os("WEEVER_RUN").map(PathBuf::from));
    let defaults = defaults::Defaults::read(named.as_deref())?;
    let args = &defaults.complete(args.clone(), name, in_environment);
    let program = program::find(name)?;
    let mut command = Command::new(&program);
    command.arg0(name).args(args.command.iter().skip(1));
    let stack = stack::Stack::of(&args.stack)?;
    if let Err(error) = stack.is_there() {
        if args.require {
            return Err(RunError::NoStack(error));
        }
        eprintln!("warning: {} runs on the kernel's stack: {error}", name.display());
        return Ok((program, command));
    }
    program::check(&program, args.rings)?;
    let library = library::find(stack.library())?;
    // Others that the user preloads come behind: their definitions are the next.
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload).env("WEEVER_APPS", stack.name());
    if let Some(only) = &args.only {
        command.env("WEEVER_PRELOAD_ONLY", only);
    }
    if let Some(log) = &args.log {
        command.env("WEEVER_PRELOAD_LOG", log);
    }
    if args.rings {
        command.env("WEEVER_PRELOAD_RINGS", "1");
    }
    Ok((program, command))
}
