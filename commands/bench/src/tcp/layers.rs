//! The contenders of `weever bench latency` that speak TCP: a request and an answer on one connection, as long as in
//! table 1 of the StackMap paper. The client is always the engine over AF_XDP.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use weever_app_sockets::{AppQueue, QueueConfig};
use weever_engine::Mode;
use weever_models::HostConfig;
use weever_models::counters::{HOST_SOURCE, host_with_counters};

use super::generator::Generator;
use super::requests::{Exchange, Reached, loaded};
use super::server::{self, Server, Wait};
use crate::BenchError;
use crate::app::{self, Body, DEVICE};
use crate::contender::{Contender, Gate};
use crate::peers::worker_of;
use crate::rig::{GENERATOR_MAC, PORT, Rig};

/// Octets of the request and of the answer.
pub(crate) const SHORT: (usize, usize) = (96, 127);

pub(crate) const ENGINE: &str = "TCP: weever's engine over bare AF_XDP";
pub(crate) const GRAPH: &str = "TCP: weever, echo in the graph";
pub(crate) const LIBRARY: &str = "TCP: weever, a library's application";
pub(crate) const PROCESS: &str = "TCP: weever, another process, on the same core, both asleep";
pub(crate) const KERNEL: &str = "TCP: kernel, epoll that polls";
pub(crate) const KERNEL_ASLEEP: &str = "TCP: kernel, epoll that sleeps";

/// A contender: its name, its work, and the messages of its client.
pub(crate) type Rung = (&'static str, Body, fn() -> Exchange);

/// All of them. The echo in the graph answers with the octets of the request.
pub(crate) const RUNGS: [Rung; 6] = [
    (ENGINE, engine, short),
    (GRAPH, graph, echo),
    (LIBRARY, |gate| server::weever(gate, &short().service, None), short),
    (PROCESS, process, short),
    (KERNEL, |gate| server::kernel(gate, Wait::Poll, &short().service), short),
    (KERNEL_ASLEEP, |gate| server::kernel(gate, Wait::Block, &short().service), short),
];

fn short() -> Exchange {
    Exchange::web(SHORT.0, SHORT.1)
}

fn echo() -> Exchange {
    let Exchange { request, .. } = short();
    Exchange::fixed(request.clone(), request)
}

/// The median round trip, in µs.
pub(crate) fn round_trip(
    rig: &Rig,
    (body, exchange): (Body, fn() -> Exchange),
    each: Duration,
) -> Result<f64, BenchError> {
    let contender = Contender::start(rig, body)?;
    let mut reached = Reached::default();
    loaded(rig, contender, (1, &exchange()), each, &mut reached)?;
    let median = reached.p50.0.first().copied();
    median.ok_or_else(|| BenchError::of("latency")("no request was answered"))
}

/// The engine alone: no graph, and an application that is a call.
fn engine(gate: &Gate) -> Result<(), BenchError> {
    let Exchange { request, response, .. } = short();
    let mut server = Generator::serving(DEVICE, GENERATOR_MAC, (&request, &response))?;
    gate.open();
    while gate.running() {
        server.receive()?;
        while let Some(id) = server.next_answered() {
            server.ask(id);
            gate.add(1);
        }
        server.send()?;
    }
    Ok(())
}

/// The echo service of the host's graph.
fn graph(gate: &Gate) -> Result<(), BenchError> {
    let failed = "weever";
    let mut builder = server::routed_builder()?;
    let config = HostConfig { tcp_echo: Some(PORT), ..HostConfig::default() };
    let graph = host_with_counters(&config, 0).map_err(BenchError::of(failed))?;
    builder.graph(graph, HOST_SOURCE);
    let host = builder.build(0).map_err(BenchError::of(failed))?;
    let (mut worker, _) = worker_of(host, HOST_SOURCE)?;
    gate.open();
    let mut lost = None;
    worker.run(&gate.stop, Mode::Busy, |event| lost = Some(event.error));
    lost.map_or(Ok(()), |error| Err(BenchError::of(failed)(error)))
}

/// The stack in this process, the server in another, which takes turns with it on one core.
fn process(gate: &Gate) -> Result<(), BenchError> {
    app::beside(|apps, alive| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "tcp-server"]).arg(apps);
        app::run_program("application", command, gate, alive)
    })
}

/// The program of [`process`]: serves until it is killed.
pub(crate) fn serve(path: &Path) -> Result<(), BenchError> {
    let failed = "application";
    let config = QueueConfig { path: path.into(), ..QueueConfig::default() };
    let queue = AppQueue::connect(&config).map_err(BenchError::of(failed))?;
    server::listening(&queue)?;
    let (gate, service) = (Arc::new(Gate::default()), short().service);
    let mut server = Server::new(&queue, &service);
    while gate.running() {
        server.turn(&gate).map_err(BenchError::of(failed))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_but_the_one_of_another_process_answers() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("latency").unwrap();
        for (name, body, exchange) in RUNGS.iter().filter(|(name, ..)| *name != PROCESS) {
            let time = round_trip(&rig, (*body, *exchange), Duration::from_millis(50));
            assert!(time.as_ref().is_ok_and(|time| *time > 0.0), "{name}: {time:?}");
        }
    }
}
