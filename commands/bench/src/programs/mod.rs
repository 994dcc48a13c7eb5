//! `weever bench programs`: programs as Debian ships them under `weever run`, beside the same on the kernel's stack.
//!
//! ```text
//!  core of the generator               the contender's core
//!  clients over AF_XDP, polling ──────► program + the kernel's stack, which handles its packets there
//!                               ──────► program under `weever run` + the stack's worker
//! ```
//!
//! Program and stack share one core, whichever stack it is. Clients are weever's, since those over the kernel's
//! sockets cannot drive twice what the servers do; how much more they could is shown for each.

mod catalogue;
mod shim;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::app::{self, Answered, beside, run_program};
use crate::contender::{Contender, Gate};
use crate::rig::Rig;
use crate::samples::Plan;
use crate::tcp::{self, Reached, loaded};
use crate::{BenchError, Report, Samples, peers};

use catalogue::{PROGRAMS, Program};
pub(crate) use shim::client as shim_client;

/// Connections with one request in flight each.
const CLIENTS: usize = 100;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    /// memcached's datagrams.
    MemcachedUdp,
    /// memcached's connections.
    MemcachedTcp,
    /// nginx.
    Nginx,
    /// redis-server.
    Redis,
    /// One call on a ready socket.
    Shim,
}

/// The stack of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Kernel,
    /// weever's, in a process of its own.
    Weever,
}

impl On {
    const ALL: [On; 2] = [On::Kernel, On::Weever];

    fn name(self) -> &'static str {
        match self {
            On::Kernel => "kernel",
            On::Weever => "weever",
        }
    }
}

pub(crate) fn run(plan: Plan, only: Option<Only>) -> Result<Report, BenchError> {
    let mut report = Report::new("programs");
    let rig = tcp::rig("programs")?;
    report.setup(rig.describe());
    report.setup("program, stack and what the kernel receives for them on the contender's core; load: AF_XDP, polling");
    let wanted = |part| only.is_none_or(|only| only == part);
    if wanted(Only::MemcachedUdp) && is_there("memcached", &mut report) {
        report.setup(app::describe());
        datagrams(&rig, plan, &mut report)?;
    }
    for program in PROGRAMS.iter().filter(|program| wanted(program.part)) {
        if is_there(program.name, &mut report) {
            connections(&rig, program, plan, &mut report)?;
        }
    }
    if wanted(Only::Shim) {
        shim::measure(&rig, plan, &mut report)?;
    }
    Ok(report)
}

/// Whether a program is installed; the report says if not.
fn is_there(name: &str, report: &mut Report) -> bool {
    let there = Command::new(name).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_err() {
        report.setup(format!("{name} is left out: it is not installed"));
    }
    there.is_ok()
}

/// Runs `command` on a stack until the gate closes.
fn serve(on: On, name: &'static str, command: &[String], gate: &Gate) -> Result<(), BenchError> {
    match on {
        On::Kernel => run_program(name, plainly(command), gate, &|| true),
        On::Weever => {
            beside(|apps, alive| run_program(name, under_run(apps, command)?, gate, alive))
        }
    }
}

fn plainly(command: &[String]) -> Command {
    let mut plain = Command::new(&command[0]);
    plain.args(&command[1..]);
    plain
}

/// The command under `weever run`, with the stack that serves applications at `apps`.
fn under_run(apps: &Path, command: &[String]) -> Result<Command, BenchError> {
    let mut run = Command::new(own()?);
    run.args(["run", "--require", "--apps"]).arg(apps).arg("--").args(command);
    Ok(run)
}

/// This program.
fn own() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(BenchError::of("weever"))
}

/// Adds the keys `memcached_udp_vs_kernel` and `memcached_udp_1024_vs_kernel`.
fn datagrams(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    for len in app::VALUES {
        let mut reached: [Answered; 2] = Default::default();
        let mut limit = Answered::default();
        for _ in plan.rounds() {
            for (on, reached) in On::ALL.into_iter().zip(&mut reached) {
                on_one_core(rig, on)?;
                let body = move |gate: &Gate| serve(on, "memcached", &catalogue::datagrams(), gate);
                reached.add(rig, ("memcached", body), len, plan.each)?;
            }
            limit.add(rig, (app::LIMIT, peers::reflector), len, plan.each)?;
        }
        let [kernel, weever] = &reached;
        for (on, reached) in On::ALL.into_iter().zip(&reached) {
            let name = format!("memcached by UDP, {len} B, {}", on.name());
            report.row(&name, "M/s", &reached.rates);
            report.row(&format!("{name}: its core, each"), "ns", &reached.cpu_ns);
            report.row(
                &format!("{name}: {} : rate", app::LIMIT),
                "",
                &limit.rates.ratio(&reached.rates),
            );
        }
        let ratio = weever.rates.ratio(&kernel.rates);
        match len == app::VALUES[0] {
            true => report.ratio("memcached_udp_vs_kernel", "", &ratio),
            false => report.ratio(&format!("memcached_udp_{len}_vs_kernel"), "", &ratio),
        }
    }
    Ok(())
}

/// Adds the key `…_vs_kernel` of a program that serves connections.
fn connections(
    rig: &Rig,
    program: &'static Program,
    plan: Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    let folder = catalogue::Folder::new()?;
    let mut reached: [Reached; 2] = Default::default();
    for _ in plan.rounds() {
        for (on, reached) in On::ALL.into_iter().zip(&mut reached) {
            on_one_core(rig, on)?;
            let command = (program.command)(&folder)?;
            let body = move |gate: &Gate| serve(on, program.name, &command, gate);
            let contender = Contender::start(rig, body)?;
            let exchange = program.learn(rig)?;
            loaded(rig, contender, (CLIENTS, &exchange), plan.each, reached)?;
        }
    }
    for (on, reached) in On::ALL.into_iter().zip(&reached) {
        let what = format!("{}, {CLIENTS} connections, {}", program.what, on.name());
        reached.rows(report, &what);
    }
    let [kernel, weever] = &reached;
    let ratio: Samples = weever.rates.ratio(&kernel.rates);
    report.ratio(&format!("{}_vs_kernel", program.key), "", &ratio);
    Ok(())
}

/// Has the kernel handle what it receives for a program on that program's core. Under weever it receives nothing.
fn on_one_core(rig: &Rig, on: On) -> Result<(), BenchError> {
    let core = (on == On::Kernel).then_some(rig.contender_core);
    Ok(rig.fixture.right.process_received_on("right0", core)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// On the kernel's stack alone: a test's program has no `run`.
    #[test]
    fn every_program_answers_its_exchange() {
        weever_testbed::require_net_admin!();
        let rig = tcp::rig("programs").unwrap();
        let (mut report, folder) = (Report::new("programs"), catalogue::Folder::new().unwrap());
        for program in PROGRAMS {
            if !is_there(program.name, &mut report) {
                println!("skipped: needs {}", program.name);
                continue;
            }
            let command = (program.command)(&folder).unwrap();
            let body = move |gate: &Gate| serve(On::Kernel, program.name, &command, gate);
            let contender = Contender::start(&rig, body).unwrap();
            let exchange = program.learn(&rig).unwrap();
            let mut reached = Reached::default();
            let each = Duration::from_millis(50);
            loaded(&rig, contender, (3, &exchange), each, &mut reached).unwrap();
            assert!(reached.rates.0[0] > 0.0, "{}", program.name);
        }
    }
}
