//! What a user says to `weever run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use weever_app_sockets::{Selection, SelectionError};

use crate::stack::StackArgs;

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
    /// Run a program that makes io_urings by itself, for files: sockets that it uses by them are the kernel's
    #[arg(long)]
    pub rings: bool,
    /// Write which sockets are the kernel's and why, to standard error or to a file with an absolute path
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub log: Option<String>,
    /// A file of defaults for these options; by default the value of WEEVER_RUN, or /etc/weever/run.toml if it is there
    #[arg(long, value_name = "FILE")]
    pub defaults: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// A choice of sockets that means something.
pub(crate) fn selection(text: &str) -> Result<String, SelectionError> {
    text.parse::<Selection>().map(|_| text.to_owned())
}
