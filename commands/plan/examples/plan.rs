//! `weever plan` and `weever policy` alone, without the rest of `weever`.

use std::process::ExitCode;

use clap::Parser;
use weever_commands_plan::{PlanArgs, PolicyCommand, run_plan, run_policy};

#[derive(Parser)]
enum Line {
    /// See `weever plan --help`.
    Plan(PlanArgs),
    /// See `weever policy --help`.
    #[command(subcommand)]
    Policy(PolicyCommand),
}

fn main() -> ExitCode {
    let result = match Line::parse() {
        Line::Plan(args) => run_plan(&args),
        Line::Policy(command) => run_policy(&command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.exit_code()
    })
}
