//! `weever graph` alone, for trying it without the rest of weever.

use std::process::ExitCode;

use clap::Parser;
use weever_commands_graph::{GraphCommand, run};

/// Work with protocol graphs in Unicorn files.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: GraphCommand,
}

fn main() -> ExitCode {
    run(Cli::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.exit_code()
    })
}
