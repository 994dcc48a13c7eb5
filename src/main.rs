//! `weever`: the command that joins the rooms. Each subcommand lives in a crate of its own.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = command::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
