//! `weever bench programs`: programs as Debian ships them under `weever run`, beside the same on the kernel's stack.
//!
//! ```text
//!  core of the generator               the contender's core
//!  clients over AF_XDP, polling ──────► program + the kernel's stack, which handles its packets there
//!                               ──────► program under `weever run` + the stack's worker
//!                               ──────► program under `weever run --stack inside`
//! ```
//!
//! Program and stack share one core, whichever stack it is. Clients are weever's, since those over the kernel's
//! sockets cannot drive twice what the servers do; how much more they could is shown for each.

mod catalogue;
mod on;
mod shim;

use std::process::{Command, Stdio};

use crate::app::{self, Answered};
use crate::contender::{Contender, Gate};
use crate::rig::Rig;
use crate::samples::Plan;
use crate::tcp::{self, Reached, loaded};
use crate::{BenchError, Report, peers};

pub(crate) use catalogue::Only;
use catalogue::{PROGRAMS, Program};
use on::On;
pub(crate) use on::{plainly, quietly, under_run};
pub(crate) use shim::client as shim_client;

/// Connections with one request in flight each.
const CLIENTS: usize = 100;

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

/// Adds the keys `memcached_udp_vs_kernel` and `memcached_udp_1024_vs_kernel`.
fn datagrams(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    for len in app::VALUES {
        let mut reached: [Answered; 2] = Default::default();
        let mut limit = Answered::default();
        for _ in plan.rounds() {
            for (on, reached) in On::BOTH.into_iter().zip(&mut reached) {
                on.prepare(rig)?;
                let body = move |gate: &Gate| on.serve("memcached", &catalogue::datagrams(), gate);
                reached.add(rig, ("memcached", body), len, plan.each)?;
            }
            limit.add(rig, (app::LIMIT, peers::reflector), len, plan.each)?;
        }
        let [kernel, weever] = &reached;
        for (on, reached) in On::BOTH.into_iter().zip(&reached) {
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

/// Adds the keys `…_vs_kernel` and `…_inside_vs_kernel` of a program that serves connections.
fn connections(
    rig: &Rig,
    program: &'static Program,
    plan: Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    let folder = catalogue::Folder::new()?;
    let mut reached: [Reached; 3] = Default::default();
    for _ in plan.rounds() {
        for (on, reached) in On::ALL.into_iter().zip(&mut reached) {
            on.prepare(rig)?;
            let command = (program.command)(&folder)?;
            let body = move |gate: &Gate| on.serve(program.name, &command, gate);
            let contender = Contender::start(rig, body)?;
            let exchange = program.learn(rig)?;
            loaded(rig, contender, (CLIENTS, &exchange), plan.each, reached)?;
        }
    }
    for (on, reached) in On::ALL.into_iter().zip(&reached) {
        let what = format!("{}, {CLIENTS} connections, {}", program.what, on.name());
        reached.rows(report, &what);
    }
    let [kernel, weever, inside] = &reached;
    for (key, own) in [("vs_kernel", weever), ("inside_vs_kernel", inside)] {
        report.ratio(&format!("{}_{key}", program.key), "", &own.rates.ratio(&kernel.rates));
    }
    Ok(())
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
            let body = move |gate: &Gate| On::Kernel.serve(program.name, &command, gate);
            let contender = Contender::start(&rig, body).unwrap();
            let exchange = program.learn(&rig).unwrap();
            let mut reached = Reached::default();
            let each = Duration::from_millis(500);
            loaded(&rig, contender, (3, &exchange), each, &mut reached).unwrap();
            assert!(reached.rates.0[0] > 0.0, "{}", program.name);
        }
    }
}
