//! `weever run`: a program that knows nothing of weever, on a weever stack.
//!
//! ```text
//!  PROGRAM ─► program: can the dynamic loader put a library into it? ─► library: where is it?
//!                                                                          │
//!  a stack that serves applications? ── no: a warning, and the kernel's ───┤
//!  or one inside, of this device and these addresses                       ▼
//!                                              exec, with LD_PRELOAD and WEEVER_APPS
//! ```
#![forbid(unsafe_code)]

mod library;
mod program;
mod stack;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use weever_app_sockets::{Selection, SelectionError};

pub use library::LibraryError;
pub use program::ProgramError;
pub use stack::{StackArgs, StackError, Where};

/// Runs a program on the stack: its UDP and TCP sockets are weever's, without a change to the program.
///
/// The stack is one that runs with `--apps`, or with `--stack inside` one in the program itself. Sockets that it cannot have (loopback, other interfaces) are the
/// kernel's, as everything else that the program does. The exit status is the program's; 1 if it cannot be run.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  weever run nginx                                  all of its sockets
  weever run --only 'tcp port 80' -- nginx -g 'daemon off;'
  weever run --require --log -- memcached -U 11211  fail without a stack; say what is the kernel's
  weever run --stack inside --dev eth0 --addr 192.0.2.10/24 -- redis-server
                                                    a stack of its own, in the program's process")]
pub struct RunArgs {
    /// The stack.
    #[command(flatten)]
    pub stack: StackArgs,
    /// The sockets that are to be weever's, as `tcp port 80 or udp port 5000-5010`; by default all
    #[arg(long, value_name = "CHOICE", value_parser = selection)]
    pub only: Option<String>,
    /// Fail when no stack serves applications, instead of running on the kernel's
    #[arg(long)]
    pub require: bool,
    /// Write which sockets are the kernel's and why, to standard error or to a file with an absolute path
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub log: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

fn selection(text: &str) -> Result<String, SelectionError> {
    text.parse::<Selection>().map(|_| text.to_owned())
}

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
    program::check(&program)?;
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
    Ok((program, command))
}
