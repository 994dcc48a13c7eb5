//! The command line of `weever bench`, and the machine's clock that every report ends with.

use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::samples::Plan;
use crate::{
    BenchError, Report, Samples, app, corec, counts, echo_clients, forward, in_memory,
    instructions, isolation, latency, live, memcached, modes, outage, overload, programs, search,
    sizes, steer_xdp, tap, tcp, udp,
};

/// Arguments of `weever bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    part: Part,
    /// Print one line of JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Rounds: every contender runs once in each, and ratios are taken round by round
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// How long each contender runs in each round, in milliseconds
    #[arg(long, global = true, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    each: Option<u64>,
    /// One short round: shows that it runs, and roughly the figures
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// The graph's cost per packet, on a memory link
    Engine {
        /// Run only the contenders with this in their names (for a profiler)
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Receiving into a UDP socket, beside bare AF_XDP, TPACKET_V3 and recvmmsg (needs root)
    Rx,
    /// UDP echo, beside bare AF_XDP and the kernel's recvmmsg and sendmmsg (needs root)
    UdpEcho,
    /// Applications: echo, a key-value store and round trips beside the kernel's, the shared rings,
    /// opening sockets (needs root)
    App {
        /// Open 100,000 and 1,000,000 sockets as well
        #[arg(long)]
        all_sockets: bool,
    },
    /// The application of `app` that is a process of its own
    #[command(hide = true)]
    AppServer {
        /// The service
        kind: app::Kind,
        /// The stack's socket
        path: std::path::PathBuf,
    },
    /// Twenty clients with 16 requests in flight each: latency and throughput of each, beside the kernel
    /// (needs root)
    EchoClients {
        /// Draw both as box plots, as SVG
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// Where the time of one request goes, layer by layer, beside the kernel (needs root)
    Latency,
    /// TCP: the engine beside smoltcp in memory; requests, connections, a SYN flood and bulk beside the
    /// kernel (needs root)
    Tcp {
        /// Only this part; `engine` needs no root
        #[arg(long, value_name = "PART")]
        only: Option<tcp::Only>,
    },
    /// The server of `latency` over TCP that is a process of its own
    #[command(hide = true)]
    TcpServer {
        /// The stack's socket
        path: std::path::PathBuf,
    },
    /// nginx, redis-server and memcached under `weever run`, beside the same on the kernel's stack, stack and
    /// program on one core (needs root)
    Programs {
        /// Only this part
        #[arg(long, value_name = "PART")]
        only: Option<programs::Only>,
    },
    /// The program of `programs` that receives
    #[command(hide = true)]
    ShimClient {
        /// Its peer
        peer: std::net::SocketAddr,
    },
    /// HTTP responses of three sizes on 1 to 100 connections, and the time of one exchange, as in the StackMap
    /// paper (needs root)
    Stackmap {
        /// Draw rate and 99th percentile against the connections, as SVG: two files for each size, beside
        /// this one
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// Forwarding IPv4 between two devices, beside the kernel's, and in memory (needs root)
    Forward,
    /// Changes of the running graph: lost packets, and gaps in the service
    Live,
    /// The stack when much happens at once: flows that move under load, changes of a large graph
    Overload,
    /// How long a service is away when its addresses come back with another link address (needs root)
    Outage,
    /// Waiting for packets in each mode: rate, round-trip times, CPU time, context switches (needs
    /// root)
    Modes,
    /// The program that sorts frames by filters: cost per packet and per change (needs root)
    SteerXdp,
    /// A policy that protects high-priority clients when others ask too much (needs root)
    Isolation {
        /// Draw the latency while clients join, as SVG
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// An unmodified memcached under such a policy, and on the kernel's stack (needs root)
    Memcached {
        /// Draw the clients' latency and throughput, as SVG, and the latency while one joins into `…-join`
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// The search for flows' queues: table 1 of the Dragonet paper, and far beyond
    Search {
        /// Draw how the times grow with the number of flows, as SVG
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// One receive queue for several threads against a queue each (COREC §4): in memory, and as root also by
    /// AF_XDP, and the kernel's TCP through such a router
    Corec {
        /// Only this part
        #[arg(long, value_name = "PART")]
        only: Option<corec::Only>,
        /// How long the huge TCP flow is, in megabytes
        #[arg(long, value_name = "MB", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        huge: u32,
        /// The rate of the link that the huge TCP flow has for itself, in Mbit/s
        #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=34_000))]
        link_rate: u32,
        /// Measure reordering by the packets of this capture file too, at its times
        #[arg(long, value_name = "FILE")]
        pcap: Option<std::path::PathBuf>,
        /// Draw tables 2 and 3 and figures 3 to 6 of the COREC paper, as SVG: files beside this one. Without
        /// --only, this includes the parts sweep and queueing
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// One queue for all servers against a queue for each, simulated, beside the theory (COREC §3.2)
    CorecSim {
        /// Draw mean and 99th percentile against the load, as SVG: a file for each service and number
        /// of servers, beside this one
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
    /// Work for callgrind to count, which `cargo xtask instructions` does: without a name, their list
    #[command(hide = true)]
    Instructions {
        /// The scenario; without it, their names
        #[arg(value_name = "SCENARIO")]
        scenario: Option<String>,
    },
    /// A segment to a TAP whose kernel cuts large packets, beside one that is a packet by itself (needs root)
    Tap,
    /// Receive, echo and forward with frames of RFC 2544's sizes, beside the kernel (needs root)
    Sizes {
        /// Draw the rates into this file, as SVG
        #[arg(long, value_name = "FILE")]
        svg: Option<std::path::PathBuf>,
    },
}

/// Runs a benchmark and prints the results. Blocks for its whole length, under a minute with the
/// defaults.
pub fn run(args: &BenchArgs) -> ExitCode {
    match measure(args) {
        Ok(text) => {
            // A reader that has seen enough (`weever bench … | head`) is no failure.
            drop(std::io::stdout().write_all(text.as_bytes()));
        }
        Err(error) => {
            eprintln!("weever bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The output of the benchmark.
fn measure(args: &BenchArgs) -> Result<String, BenchError> {
    let plan = |rounds: usize, each: u64| {
        let (rounds, each) = if args.quick { (1, each / 3) } else { (rounds, each) };
        Plan {
            rounds: args.rounds.map_or(rounds, usize::from),
            each: Duration::from_millis(args.each.unwrap_or(each)),
        }
    };
    let before = effective_ghz();
    let mut report = match &args.part {
        Part::Instructions { scenario } => return instructions::run(scenario.as_deref()),
        Part::Engine { only } => engine(plan(15, 50), only.as_deref()),
        Part::Rx => udp::receive(plan(5, 800)),
        Part::UdpEcho => udp::echo(plan(5, 300)),
        Part::App { all_sockets } => app::run(plan(5, 300), *all_sockets),
        Part::AppServer { kind, path } => return app::serve(*kind, path).map(|()| String::new()),
        Part::EchoClients { svg } => echo_clients::run(plan(5, 400), svg.as_deref()),
        Part::Latency => latency::run(plan(7, 200)),
        Part::Tcp { only } => tcp::run(plan(7, 200), *only),
        Part::TcpServer { path } => return tcp::layers::serve(path).map(|()| String::new()),
        Part::Programs { only } => programs::run(plan(5, 300), *only),
        Part::ShimClient { peer } => return programs::shim_client(*peer),
        Part::Stackmap { svg } => tcp::stackmap::run(plan(3, 150), svg.as_deref()),
        Part::Forward => forward::run(plan(5, 800)),
        Part::Live => live::run(plan(5, 0)),
        Part::Overload => overload::run(plan(5, 400)),
        Part::Outage => outage::run(plan(5, 0)),
        Part::Modes => modes::run(plan(3, 700)),
        Part::SteerXdp => steer_xdp::run(plan(11, 0)),
        Part::Isolation { svg } => isolation::run(plan(3, 800), svg.as_deref()),
        Part::Memcached { svg } => memcached::run(plan(3, 400), svg.as_deref()),
        Part::Search { svg } => search::run(plan(5, 0), svg.as_deref()),
        Part::Corec { only, huge, link_rate, pcap, svg } => {
            let plans = [plan(7, 200), plan(5, 0)];
            let flow = corec::Huge { octets: u64::from(*huge) * 1_000_000, megabits: *link_rate };
            corec::measure(plans, *only, flow, (pcap.as_deref(), svg.as_deref()))
        }
        Part::CorecSim { svg } => corec::run(svg.as_deref()),
        Part::Tap => tap::run(plan(7, 200)),
        Part::Sizes { svg } => sizes::run(plan(2, 200), svg.as_deref()),
    }?;
    let clock = Samples(vec![before, effective_ghz()]);
    report.row("effective clock, before and after", "GHz", &clock);
    Ok(if args.json { report.to_json() + "\n" } else { report.to_string() })
}

/// Times, and, of all contenders, instructions too.
fn engine(plan: Plan, only: Option<&str>) -> Result<Report, BenchError> {
    let mut report = in_memory::run(plan, only)?;
    if only.is_none() {
        counts::add_to(&mut report)?;
    }
    Ok(report)
}

/// Steps whose time is taken at once, some tens of microseconds: most are not interrupted.
const STEPS: u32 = 50_000;
/// Operations in a step, each of one cycle on any recent core, and each waiting for the one before.
const OPERATIONS: f64 = 2.0;

/// The effective clock in GHz, from a tenth of a second of dependent additions.
///
/// A guest's clock depends on the host's power management and neighbours, and no register shows it.
/// Figures of two runs can only be compared if this is the same. For a build without optimisation
/// it means nothing.
pub(crate) fn effective_ghz() -> f64 {
    let started = Instant::now();
    let mut rates = Vec::new();
    let mut value = black_box(1);
    while started.elapsed() < Duration::from_millis(100) {
        let start = Instant::now();
        value = chain(value);
        let ns = start.elapsed().as_nanos().max(1) as f64;
        rates.push(f64::from(STEPS) * OPERATIONS / ns);
    }
    black_box(value);
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Additions, with an exclusive or between them: a row of additions alone the compiler would turn
/// into one multiplication.
#[inline(never)]
fn chain(mut value: u64) -> u64 {
    let (addend, mask) = (black_box(0x9e37_79b9_7f4a_7c15), black_box(0x5555_5555_5555_5555));
    for _ in 0..STEPS {
        value = value.wrapping_add(addend) ^ mask;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_does_what_it_says() {
        let step = |value: u64| value.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ 0x5555_5555_5555_5555;
        assert_eq!(chain(7), (0..STEPS).fold(7, |value, _| step(value)));
        assert!(effective_ghz() > 0.0);
    }
}
