//! The command line, and the room that carries out each command.

mod papers;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weever_capture::{CaptureArgs, CaptureError};
use weever_commands_control::{CliError, ControlCommand};
use weever_commands_graph::{GraphCommand, GraphToolError};
use weever_commands_plan::{PlanArgs, PlanToolError, PolicyCommand};
use weever_commands_run::{RunArgs, RunError};
use weever_commands_steer::{SteerArgs, SteerError};
use weever_daemon::config::ConfigError;
use weever_daemon::{ReleaseError, StackTotals, StartError, UpArgs, UpError};

use papers::PapersError;

const EXAMPLES: &str = "\
Examples:
  weever demo                                           see it at work
  weever up --dev eth0 --addr 192.0.2.10/24 --echo 7    run a stack that echoes UDP
  weever up -c weever.toml                              run a stack as a file says
  weever status                                         what is running
  weever counters --watch 1                             what it counts, with rates
  weever counters --drops                               what it dropped, and why
  weever flows                                          which worker gets which flow (up --policy)
  weever queues --watch 1                               what each worker gets, with rates
  weever capture udp port 53                            show packets as they pass
  weever graph check host.unicorn                       check a protocol graph
  weever graph svg --running -o now.svg                 draw what runs, with its counters
  weever graph apply mine.unicorn                       change it while it runs
  weever set services.echo=8                            and its settings
  weever settings                                       as they are now
  weever stop                                           shut it down
  weever plan --nic 82599 --queues 8 --flows flows.txt --explain
                                                        which queue gets which flow, and why
  weever steer --dev eth0 --policy policy.toml --apply --watch
                                                        steer the kernel's own flows
  weever run nginx                                      run a program on the stack
  weever release --dev eth0                             give ports back that a stack has kept
  weever bench udp-echo --json                          measure it beside the kernel

Exit status: 0 for success, 1 for failure, 2 for a command line or configuration that is wrong.";

/// A host network stack for Linux, driven by a policy and built as a graph.
///
/// weever runs in user space, takes its packets from the queues of a network device by AF_XDP, and
/// executes a protocol graph that is written in a language of its own, Unicorn.
#[derive(Debug, Parser)]
#[command(name = "weever", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(Box<weever_daemon::UpArgs>),
    #[command(flatten)]
    Control(ControlCommand),
    Capture(CaptureArgs),
    /// Shows the stack at work against the kernel, or without root against smoltcp
    Demo(weever_demo::DemoArgs),
    /// Measures the stack beside its peers, in one run
    Bench(weever_bench::BenchArgs),
    /// Writes a manual page for every command into a directory
    Man(papers::Man),
    /// Prints the completions of a shell
    Completions(papers::Completions),
    /// Checks, formats, draws and shows protocol graphs, those in files and the running one, and
    /// changes that
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Plans which queue of a NIC gets which flow, without having the NIC
    Plan(Box<PlanArgs>),
    Steer(Box<SteerArgs>),
    Release(weever_daemon::ReleaseArgs),
    Run(RunArgs),
    /// Checks policies
    #[command(subcommand)]
    Policy(PolicyCommand),
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Up(args) => up(&args),
            Command::Control(command) => ask(&command),
            Command::Capture(args) => {
                args.run(&mut io::stdout().lock())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Man(args) => Ok(args.run(&Cli::command())?),
            Command::Completions(args) => Ok(args.run(Cli::command(), &mut io::stdout().lock())?),
            Command::Demo(args) => Ok(weever_demo::run(&args)),
            Command::Bench(args) => Ok(weever_bench::run(&args)),
            Command::Graph(command) => Ok(weever_commands_graph::run(command)?),
            Command::Plan(args) => Ok(weever_commands_plan::run_plan(&args)?),
            Command::Steer(args) => Ok(weever_commands_steer::run(&args)?),
            Command::Release(args) => {
                args.run(&mut io::stdout().lock())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Run(args) => Err(weever_commands_run::run(&args).into()),
            Command::Policy(command) => Ok(weever_commands_plan::run_policy(&command)?),
        }
    }
}

fn ask(command: &ControlCommand) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match command.run(&mut out) {
        // A reader that has seen enough (`weever counters | head`) is no failure.
        Err(CliError::Write(e)) if e.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(ExitCode::SUCCESS)
}

fn up(args: &UpArgs) -> Result<ExitCode, Failure> {
    let report = args.run(&mut io::stdout().lock())?;
    let mut out = io::stdout().lock();
    // There may be nobody left to read it.
    drop(describe(&mut out, &report, args.counters));
    match report.failure {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::Ended(why)),
    }
}

fn describe(out: &mut dyn Write, report: &StackTotals, with_counters: bool) -> io::Result<()> {
    let (received, sent, dropped) = report.totals();
    writeln!(
        out,
        "weever has stopped: {received} packets received, {sent} sent, {dropped} dropped"
    )?;
    if with_counters {
        weever_commands_control::write_counters(out, &report.counters)?;
    }
    out.flush()
}

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
    Run(#[from] RunError),
    #[error(transparent)]
    Steer(#[from] SteerError),
    #[error(transparent)]
    Release(#[from] ReleaseError),
}

impl Failure {
    /// Reports the failure on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        let mut errors = io::stderr().lock();
        // A reader that has gone away (`2>&1 | head`) is no reason for another status.
        let _ = match self {
            Failure::Up(UpError::Config(ConfigError::Several(problems))) => {
                problems.iter().try_for_each(|problem| writeln!(errors, "error: {problem}"))
            }
            other => writeln!(errors, "error: {other}"),
        };
        match self {
            Failure::Up(UpError::Config(_) | UpError::Log(_)) => ExitCode::from(USAGE),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_says_what_it_does() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no help");
            for arg in command.get_arguments().filter(|a| !a.is_hide_set()) {
                let told = arg.get_help().is_some();
                assert!(told, "{name}: {} has no help", arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
