//! The stacks on which a program is measured, and the command for each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weever_testbed::Fixture;

use crate::BenchError;
use crate::app::{beside, run_program};
use crate::contender::Gate;
use crate::rig::{HOST, Rig};

/// The stack of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    Kernel,
    /// weever's, in a process of its own.
    Weever,
    /// weever's, in the program's process.
    Inside,
}

impl On {
    /// Those that every program is measured on.
    pub(super) const BOTH: [On; 2] = [On::Kernel, On::Weever];
    pub(super) const ALL: [On; 3] = [On::Kernel, On::Weever, On::Inside];

    pub(super) fn name(self) -> &'static str {
        match self {
            On::Kernel => "kernel",
            On::Weever => "weever",
            On::Inside => "weever inside",
        }
    }

    /// Runs `command` on a stack until the gate closes.
    pub(super) fn serve(
        self,
        name: &'static str,
        command: &[String],
        gate: &Gate,
    ) -> Result<(), BenchError> {
        match self {
            On::Kernel => run_program(name, quietly(plainly(command)), gate, &|| true),
            On::Inside => run_program(name, quietly(with_stack(command)?), gate, &|| true),
            On::Weever => beside(|apps, alive| {
                run_program(name, quietly(under_run(apps, command)?), gate, alive)
            }),
        }
    }

    /// Has the kernel handle what it receives for a program on that program's core. Under weever it receives nothing.
    pub(super) fn prepare(self, rig: &Rig) -> Result<(), BenchError> {
        let core = (self == On::Kernel).then_some(rig.contender_core);
        Ok(rig.fixture.right.process_received_on("right0", core)?)
    }
}

/// Keeps a server's log out of the report; its errors are shown.
pub(crate) fn quietly(mut command: Command) -> Command {
    command.stdout(Stdio::null());
    command
}

pub(crate) fn plainly(command: &[String]) -> Command {
    let mut plain = Command::new(&command[0]);
    plain.args(&command[1..]);
    plain
}

/// The command under `weever run`, with the stack that serves applications at `apps`.
pub(crate) fn under_run(apps: &Path, command: &[String]) -> Result<Command, BenchError> {
    let mut run = Command::new(own()?);
    run.args(["run", "--require", "--apps"]).arg(apps).arg("--").args(command);
    Ok(run)
}

/// The command with the stack inside, on the contender's device.
pub(super) fn with_stack(command: &[String]) -> Result<Command, BenchError> {
    let mut run = Command::new(own()?);
    let address = format!("{HOST}/{}", Fixture::PREFIX);
    run.args(["run", "--stack", "inside", "--dev", "right0", "--addr", &address]);
    run.args(["--via", &Fixture::LEFT.to_string(), "--"]).args(command);
    Ok(run)
}

/// This program.
pub(super) fn own() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(BenchError::of("weever"))
}
