//! `weever bench tcp`: TCP beside smoltcp's in memory, and beside the kernel's over a cable.
//!
//! ```text
//!  core of the generator                    the contender's core
//!  Generator ── closed loop, paced, anew ──► kernel: epoll, blocking or polling
//!  kernel's sockets ── bulk ───────────────► weever: the stack in the server's thread, on AF_XDP
//! ```
//!
//! The generator is weever's engine over AF_XDP, since clients over the kernel's sockets cannot drive twice
//! what the server does.

mod bulk;
mod conversation;
mod generator;
pub(crate) mod layers;
mod loads;
mod memory;
mod requests;
mod server;
mod service;
pub(crate) mod stackmap;

use weever_testbed::Fixture;

pub(crate) use conversation::Conversation;
pub(crate) use generator::ANY;
pub(crate) use memory::{Smoltcp, Weever};
pub(crate) use requests::{Exchange, Reached, loaded};

use crate::rig::{GENERATOR_MAC, Rig};
use crate::samples::Plan;
use crate::{BenchError, Report};

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    /// The engine in memory.
    Engine,
    /// Requests on one connection and on 100.
    Requests,
    /// A connection for each request.
    Connections,
    /// Requests under a flood of SYNs.
    SynFlood,
    /// Goodput to the kernel and from it.
    Bulk,
}

pub(crate) fn run(plan: Plan, only: Option<Only>) -> Result<Report, BenchError> {
    let mut report = Report::new("tcp");
    let wanted = |part| only.is_none_or(|only| only == part);
    if wanted(Only::Engine) {
        memory::measure(plan, &mut report);
    }
    if only == Some(Only::Engine) {
        return Ok(report);
    }
    let rig = rig("tcp")?;
    report.setup(rig.describe());
    report.setup(
        "load: weever's engine over AF_XDP, which polls; sums of what it receives are not verified",
    );
    if wanted(Only::Requests) {
        requests::measure(&rig, plan, &mut report)?;
    }
    if wanted(Only::Connections) {
        requests::connections(&rig, plan, &mut report)?;
    }
    if wanted(Only::SynFlood) {
        requests::syn_flood(&rig, plan, &mut report)?;
    }
    if wanted(Only::Bulk) {
        bulk::measure(&rig, plan, &mut report)?;
    }
    Ok(report)
}

/// The two hosts: the generator's network lies behind its address.
pub(crate) fn rig(bench: &'static str) -> Result<Rig, BenchError> {
    let rig = Rig::new(bench)?;
    rig.kernel_host()?;
    // So that the kernel can be the other host as well.
    rig.fixture.left.set_mac("left0", GENERATOR_MAC)?;
    let (network, prefix) = crate::rig::REMOTE;
    rig.fixture.right.add_route(network, prefix, Fixture::LEFT)?;
    for (path, value) in [("net/core/somaxconn", "4096"), ("net/ipv4/tcp_max_syn_backlog", "4096")]
    {
        rig.fixture.right.sysctl(path, value)?;
    }
    Ok(rig)
}
