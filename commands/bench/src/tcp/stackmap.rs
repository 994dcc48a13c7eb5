//! `weever bench stackmap`: the experiments of the StackMap paper (§3, §5) with weever's own TCP.
//!
//! HTTP responses of three sizes on 1 to 100 connections, values of two sizes by memcached's protocol on 100, and the
//! exchange of the paper's latency table. weever serves twice: by the ready list of a poll (a chain of events for each connection), as StackMap's programs do, and by taking
//! one event after the other, as from a socket.

use std::path::Path;
use std::sync::Arc;

use super::layers::SHORT;
use super::requests::{Exchange, Reached, Server, closed_loop};
use super::server::ReadySets;
use crate::plot::{Line, Plot, Scale};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

/// Octets of a response, head included.
const SIZES: [usize; 3] = [64, 512, 1280];
const CONNECTIONS: [usize; 6] = [1, 5, 10, 25, 50, 100];
const SERVERS: [(Server, &str); 3] = [
    (Server::Kernel, "#b03020"),
    (Server::Weever, "#30804a"),
    (Server::WeeverByReadyList, "#2060a0"),
];

/// Octets of the values of the store.
const VALUES: [usize; 2] = [64, 1024];
const STORE_CONNECTIONS: usize = 100;
const STORES: [Server; 4] =
    [Server::Kernel, Server::KernelOneCore, Server::Weever, Server::WeeverByReadyList];

/// The results at one size, by server and number of connections.
type BySize = [[Reached; CONNECTIONS.len()]; SERVERS.len()];

pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    let rig = super::rig("stackmap")?;
    let mut report = Report::new("stackmap");
    report.setup(rig.describe());
    report.setup(
        "load: weever's engine over AF_XDP, which polls; one request in flight on each connection",
    );
    report.setup("kernel: epoll that sleeps, received on the generator's core; weever polls, in the server's thread");
    report.setup(
        "left out: Seastar, which has no package here, needs DPDK's drivers for its own TCP and hours to \
         build; weever's servers on two cores, of which the machine has one beside the generator's",
    );
    latency(&rig, plan, &mut report)?;
    store(&rig, plan, &mut report)?;
    let sets: [Arc<ReadySets>; CONNECTIONS.len()] = Default::default();
    let mut all: [BySize; SIZES.len()] = Default::default();
    for _ in plan.rounds() {
        for (size, by_server) in SIZES.iter().zip(&mut all) {
            let exchange = Exchange::http(*size);
            for ((server, _), by_count) in SERVERS.iter().zip(by_server) {
                for ((count, reached), sets) in CONNECTIONS.iter().zip(by_count).zip(&sets) {
                    let load = (*count, &exchange, sets);
                    closed_loop(&rig, *server, load, plan.each, reached)?;
                }
            }
        }
    }
    rows(&mut report, &all, &sets);
    if let Some(path) = svg {
        for (size, by_server) in SIZES.iter().zip(&all) {
            for (what, plot) in pictures(by_server) {
                let file = path.with_file_name(file_name(path, *size, what));
                std::fs::write(file, plot.to_svg()).map_err(BenchError::of("plot"))?;
            }
        }
    }
    Ok(report)
}

/// `stackmap.svg` becomes `stackmap-rate-64.svg`.
fn file_name(path: &Path, size: usize, what: &str) -> String {
    let stem = path.file_stem().map_or_else(|| "stackmap".into(), |stem| stem.to_string_lossy());
    format!("{stem}-{what}-{size}.svg")
}

/// The exchange of the paper's table 1, on one connection.
fn latency(rig: &crate::rig::Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let (request, answer) = SHORT;
    let exchange = Exchange::web(request, answer);
    let servers = [Server::Kernel, Server::KernelPolling, Server::Weever];
    let mut reached: [Reached; 3] = Default::default();
    for _ in plan.rounds() {
        for (server, reached) in servers.into_iter().zip(&mut reached) {
            closed_loop(rig, server, (1, &exchange, &Arc::default()), plan.each, reached)?;
        }
    }
    for (server, reached) in servers.into_iter().zip(&reached) {
        let name = format!("{request} B asked, {answer} B answered, {}", server.name());
        report.row(&format!("{name}: mean"), "µs", &reached.mean);
        report.row(&format!("{name}: p99"), "µs", &reached.p99);
    }
    let [kernel, polling, weever] = &reached;
    report.ratio("latency_vs_kernel", "", &weever.mean.ratio(&kernel.mean));
    report.ratio("latency_vs_polling_kernel", "", &weever.mean.ratio(&polling.mean));
    Ok(())
}

/// A store that speaks memcached's text protocol, which looks up a key for each request.
fn store(rig: &crate::rig::Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let mut all: [[Reached; STORES.len()]; VALUES.len()] = Default::default();
    for _ in plan.rounds() {
        for (len, by_server) in VALUES.iter().zip(&mut all) {
            let exchange = Exchange::store(*len);
            for (server, reached) in STORES.into_iter().zip(by_server) {
                let load = (STORE_CONNECTIONS, &exchange, &Arc::default());
                closed_loop(rig, server, load, plan.each, reached)?;
            }
        }
    }
    for (len, by_server) in VALUES.iter().zip(&all) {
        for (server, reached) in STORES.into_iter().zip(by_server) {
            let name = format!("store, values of {len} B, {STORE_CONNECTIONS} connections");
            reached.rows(report, &format!("{name}, {}", server.name()));
        }
        let [kernel, one_core, weever, listed] = by_server;
        // One core on each side: the kernel receives on the server's.
        report.ratio(&format!("store_{len}_vs_kernel"), "", &weever.rates.ratio(&one_core.rates));
        let ratio = listed.rates.ratio(&one_core.rates);
        report.ratio(&format!("store_{len}_ready_list_vs_kernel"), "", &ratio);
        report.ratio(&format!("store_{len}_p99_vs_kernel"), "", &weever.p99.ratio(&one_core.p99));
        let two = weever.rates.ratio(&kernel.rates);
        report.row(&format!("store_{len}_vs_kernel, which has two cores"), "", &two);
    }
    Ok(())
}

fn rows(report: &mut Report, all: &[BySize], sets: &[Arc<ReadySets>]) {
    for (size, by_server) in SIZES.iter().zip(all) {
        for ((server, _), by_count) in SERVERS.iter().zip(by_server) {
            for (count, reached) in CONNECTIONS.iter().zip(by_count) {
                let name = format!("{size} B, {count} connections, {}", server.name());
                report.row(&format!("{name}: rate"), "1/s", &reached.rates);
                report.row(&format!("{name}: mean"), "µs", &reached.mean);
                report.row(&format!("{name}: p99"), "µs", &reached.p99);
                report.row(&format!("{name}: its core, each"), "ns", &reached.cpu_ns);
            }
        }
        let [kernel, plain, listed] = by_server;
        let last = CONNECTIONS.len() - 1;
        let ratio = |own: &[Reached]| own[last].rates.ratio(&kernel[last].rates);
        report.ratio(&format!("http_{size}_vs_kernel"), "", &ratio(plain));
        report.ratio(&format!("http_{size}_ready_list_vs_kernel"), "", &ratio(listed));
    }
    for (count, sets) in CONNECTIONS.iter().zip(sets) {
        let name = format!("{count} connections: in a ready list that is not empty");
        report.row(&name, "connections", &Samples(sets.mean().into_iter().collect()));
    }
}

/// The rate and the 99th percentile against the number of connections.
fn pictures(by_server: &BySize) -> [(&'static str, Plot); 2] {
    let plot = |title, y, of: fn(&Reached) -> f64| {
        let line = |((server, colour), by_count): (&(Server, &'static str), &[Reached; 6])| Line {
            name: server.name(),
            colour,
            points: CONNECTIONS
                .iter()
                .map(|count| *count as f64)
                .zip(by_count.iter().map(of))
                .collect(),
        };
        let lines = SERVERS.iter().zip(by_server).map(line).collect();
        Plot { title, x: "connections", y, scales: (Scale::Linear, Scale::Linear), lines }
    };
    [
        (
            "rate",
            plot("HTTP responses, one core, veth", "thousands a second", |reached| {
                reached.rates.summary().median / 1e3
            }),
        ),
        (
            "p99",
            plot("HTTP responses, one core, veth", "99th percentile in µs", |reached| {
                reached.p99.summary().median
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_pictures() {
        let mut by_server: BySize = Default::default();
        for reached in by_server.iter_mut().flatten() {
            reached.rates.push(1e5);
            reached.p99.push(20.0);
        }
        for (what, plot) in pictures(&by_server) {
            let svg = plot.to_svg();
            assert_eq!(svg.matches("<polyline").count(), SERVERS.len(), "{what}");
        }
        let path = Path::new("docs/stackmap.svg");
        assert_eq!(file_name(path, 512, "p99"), "stackmap-p99-512.svg");
    }

    #[test]
    fn a_store_answers_over_every_stack() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("stackmap").unwrap();
        for server in STORES {
            let mut reached = Reached::default();
            let load = (3, &Exchange::store(1024), &Arc::default());
            // Long enough for a machine whose cores are busy with other tests.
            let each = std::time::Duration::from_millis(400);
            closed_loop(&rig, server, load, each, &mut reached).unwrap();
            assert!(reached.rates.0[0] > 0.0, "{server:?}");
        }
    }

    #[test]
    fn the_ready_list_serves_all_connections() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("stackmap").unwrap();
        let (sets, mut reached) = (Arc::new(ReadySets::default()), Reached::default());
        let exchange = Exchange::http(512);
        let load = (20, &exchange, &sets);
        let each = std::time::Duration::from_millis(500);
        closed_loop(&rig, Server::WeeverByReadyList, load, each, &mut reached).unwrap();
        assert!(reached.rates.0[0] > 0.0);
        assert!(sets.mean().is_some_and(|mean| (1.0..=20.0).contains(&mean)), "{:?}", sets.mean());
    }
}
