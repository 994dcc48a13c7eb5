//! Requests and responses: the rate and the times of servers on weever and on the kernel.

use std::sync::Arc;
use std::time::Duration;

use weever_testbed::pin_to;

use super::generator::Generator;
use super::loads::{Clients, Outcome, anew};
use super::server::{self, ReadySets, Wait};
use super::service::{Service, Store, request, response};
use crate::app::busy_ns;
use crate::contender::{Contender, Gate};
use crate::rig::Rig;
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

/// Octets of a response.
const RESPONSE: usize = 64;
const CLIENTS: [usize; 2] = [1, 100];
const WARM_UP: Duration = Duration::from_millis(150);
/// Requests under a flood are this share of the server's capacity.
const MODERATE: f64 = 0.3;
/// SYNs a second.
const FLOOD: f64 = 100_000.0;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// epoll that sleeps, the packets it gets handled where they were sent.
    Kernel,
    /// epoll that is asked again and again.
    KernelPolling,
    /// epoll that sleeps, and the packets it gets handled on its own core.
    KernelOneCore,
    /// weever in the server's thread, which polls.
    Weever,
    /// The same, with the events of a poll taken connection by connection.
    WeeverByReadyList,
}

/// What clients ask and servers answer.
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) response: Vec<u8>,
    pub(crate) service: Service,
}

impl Exchange {
    /// A short request, and a response of so many octets.
    pub(crate) fn http(len: usize) -> Exchange {
        Exchange::web(30, len)
    }

    /// A request and a response of so many octets.
    pub(crate) fn web(asked: usize, answered: usize) -> Exchange {
        Exchange::fixed(request(asked), response(answered))
    }

    /// A request, and the response that every one gets.
    pub(crate) fn fixed(request: Vec<u8>, response: Vec<u8>) -> Exchange {
        let service = Service::Web(response.clone());
        Exchange { request, response, service }
    }

    /// memcached's `get` of a value of so many octets.
    pub(crate) fn store(len: usize) -> Exchange {
        let (request, response) = Store::exchange(len);
        Exchange { request, response, service: Service::Store(Store::of(len)) }
    }
}

impl Server {
    const ALL: [Server; 4] =
        [Server::Kernel, Server::KernelPolling, Server::KernelOneCore, Server::Weever];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Server::Kernel => "kernel",
            Server::KernelPolling => "kernel, polling",
            Server::KernelOneCore => "kernel, all on one core",
            Server::Weever => "weever",
            Server::WeeverByReadyList => "weever by ready list",
        }
    }

    /// Starts it. `sets` counts its ready lists, if it has any.
    pub(crate) fn start(
        self,
        rig: &Rig,
        exchange: &Exchange,
        sets: &Arc<ReadySets>,
    ) -> Result<Contender, BenchError> {
        let core = (self == Server::KernelOneCore).then_some(rig.contender_core);
        rig.fixture.right.process_received_on("right0", core)?;
        let (service, sets) = (exchange.service.clone(), sets.clone());
        let body = move |gate: &Gate| match self {
            Server::Kernel | Server::KernelOneCore => server::kernel(gate, Wait::Block, &service),
            Server::KernelPolling => server::kernel(gate, Wait::Poll, &service),
            Server::Weever => server::weever(gate, &service, None),
            Server::WeeverByReadyList => server::weever(gate, &service, Some(&sets)),
        };
        Contender::start(rig, body)
    }
}

/// The results of one server under one load.
#[derive(Default)]
pub(crate) struct Reached {
    /// Requests a second.
    pub(crate) rates: Samples,
    pub(crate) mean: Samples,
    pub(crate) p50: Samples,
    pub(crate) p99: Samples,
    /// Nanoseconds for which the server's core was busy, for each request.
    pub(crate) cpu_ns: Samples,
    /// The generator's limit by its idle time, as a multiple of the rate.
    pub(crate) headroom: Samples,
}

impl Reached {
    fn add(&mut self, outcome: &Outcome, busy: u64) {
        self.rates.push(outcome.rate());
        self.mean.push(outcome.times.mean() / 1e3);
        self.p50.push(outcome.quantile(0.5));
        self.p99.push(outcome.quantile(0.99));
        self.cpu_ns.push(busy as f64 / outcome.answers as f64);
        self.headroom.push(outcome.generators_limit() / outcome.rate());
    }

    pub(crate) fn rows(&self, report: &mut Report, what: &str) {
        report.row(&format!("{what}: rate"), "1/s", &self.rates);
        report.row(&format!("{what}: p50"), "µs", &self.p50);
        report.row(&format!("{what}: p99"), "µs", &self.p99);
        report.row(&format!("{what}: its core, each"), "ns", &self.cpu_ns);
        report.row(&format!("{what}: generator's limit : rate"), "", &self.headroom);
    }
}

/// Runs a load against a server that is running, on the generator's core.
fn drive(
    rig: &Rig,
    load: impl FnOnce(Generator) -> Result<Outcome, BenchError> + Send,
    exchange: &Exchange,
) -> Result<Outcome, BenchError> {
    let (host_mac, core) = (rig.contender_end()?.mac, rig.generator_core);
    rig.fixture.left.run(move || {
        pin_to(core).map_err(BenchError::of("generator"))?;
        load(Generator::open(host_mac, &exchange.request, &exchange.response)?)
    })
}

/// So many clients with one request in flight each.
pub(crate) fn closed_loop(
    rig: &Rig,
    server: Server,
    (clients, exchange, sets): (usize, &Exchange, &Arc<ReadySets>),
    each: Duration,
    reached: &mut Reached,
) -> Result<(), BenchError> {
    let contender = server.start(rig, exchange, sets)?;
    loaded(rig, contender, (clients, exchange), each, reached)
}

/// The same with a server that is running, which is stopped then.
pub(crate) fn loaded(
    rig: &Rig,
    contender: Contender,
    (clients, exchange): (usize, &Exchange),
    each: Duration,
    reached: &mut Reached,
) -> Result<(), BenchError> {
    let server_core = rig.contender_core;
    let mut busy = 0;
    let load = |generator| {
        let mut clients = Clients::connect(generator, clients)?;
        clients.closed_loop(WARM_UP)?;
        let before = busy_ns(server_core)?;
        let outcome = clients.closed_loop(each)?;
        busy = busy_ns(server_core)? - before;
        Ok(outcome)
    };
    let outcome = drive(rig, load, exchange)?;
    contender.finish()?;
    reached.add(&outcome, busy);
    Ok(())
}

/// Adds the keys `rr1_…` and `rr100_…`.
pub(super) fn measure(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    report.setup(format!(
        "requests: responses of {RESPONSE} octets, one request in flight on each connection"
    ));
    let exchange = Exchange::http(RESPONSE);
    for clients in CLIENTS {
        let mut reached: [Reached; Server::ALL.len()] = Default::default();
        for _ in plan.rounds() {
            for (server, reached) in Server::ALL.into_iter().zip(&mut reached) {
                let load = (clients, &exchange, &Arc::default());
                closed_loop(rig, server, load, plan.each, reached)?;
            }
        }
        for (server, reached) in Server::ALL.into_iter().zip(&reached) {
            reached.rows(report, &format!("{clients} connections, {}", server.name()));
        }
        let [blocking, polling, one_core, weever] = &reached;
        if clients == 1 {
            report.ratio("rr1_vs_kernel", "", &weever.rates.ratio(&blocking.rates));
            report.ratio("rr1_vs_polling_kernel", "", &weever.rates.ratio(&polling.rates));
        } else {
            // One core on each side: the kernel receives on the server's.
            report.ratio("rr100_vs_kernel", "", &weever.rates.ratio(&one_core.rates));
            report.ratio("rr100_p99_vs_kernel", "", &weever.p99.ratio(&one_core.p99));
            let two = weever.rates.ratio(&blocking.rates);
            report.row("rr100_vs_kernel, which receives on the generator's core", "", &two);
            let two = weever.p99.ratio(&blocking.p99);
            report.row("rr100_p99_vs_kernel, which receives on the generator's core", "", &two);
        }
    }
    Ok(())
}

/// Adds the key `connections_vs_kernel`.
pub(super) fn connections(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let servers = [Server::Kernel, Server::KernelOneCore, Server::Weever];
    let exchange = Exchange::http(RESPONSE);
    let mut reached: [Reached; 3] = Default::default();
    for _ in plan.rounds() {
        for (server, reached) in servers.into_iter().zip(&mut reached) {
            let contender = server.start(rig, &exchange, &Arc::default())?;
            let (server_core, mut busy, each) = (rig.contender_core, 0, plan.each);
            let load = |mut generator: Generator| {
                anew(&mut generator, WARM_UP)?;
                let before = busy_ns(server_core)?;
                let outcome = anew(&mut generator, each)?;
                busy = busy_ns(server_core)? - before;
                Ok(outcome)
            };
            let outcome = drive(rig, load, &exchange)?;
            contender.finish()?;
            reached.add(&outcome, busy);
        }
    }
    for (server, reached) in servers.into_iter().zip(&reached) {
        reached.rows(report, &format!("connect, request, close, {}", server.name()));
    }
    let [kernel, one_core, weever] = &reached;
    report.ratio("connections_vs_kernel", "", &weever.rates.ratio(&one_core.rates));
    let two = weever.rates.ratio(&kernel.rates);
    report.row("connections_vs_kernel, which receives on the generator's core", "", &two);
    Ok(())
}

/// Adds the key `syn_flood`.
pub(super) fn syn_flood(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let [mut capacity, mut rate, mut flooded, mut p99, mut p99_flooded]: [Samples; 5] =
        Default::default();
    for _ in plan.rounds() {
        let exchange = Exchange::http(RESPONSE);
        let contender = Server::Weever.start(rig, &exchange, &Arc::default())?;
        let each = plan.each;
        let mut found = (0.0, 0.0, 0.0);
        let load = |generator| {
            let mut clients = Clients::connect(generator, 100)?;
            let most = clients.closed_loop(WARM_UP)?.rate();
            clients.paced(most * MODERATE, 0.0, WARM_UP)?;
            let calm = clients.paced(most * MODERATE, 0.0, each)?;
            found = (most, calm.rate(), calm.quantile(0.99));
            clients.paced(most * MODERATE, FLOOD, each)
        };
        let outcome = drive(rig, load, &exchange)?;
        contender.finish()?;
        capacity.push(found.0);
        rate.push(found.1);
        p99.push(found.2);
        flooded.push(outcome.rate());
        p99_flooded.push(outcome.quantile(0.99));
    }
    report.row("capacity, 100 connections", "1/s", &capacity);
    report.row("at 30 % of it: rate", "1/s", &rate);
    report.row("at 30 % of it: p99", "µs", &p99);
    report.row("under 100,000 SYN/s: rate", "1/s", &flooded);
    report.row("under 100,000 SYN/s: p99", "µs", &p99_flooded);
    report.ratio("syn_flood", "", &flooded.ratio(&rate));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Plan = Plan { rounds: 1, each: Duration::from_millis(50) };

    #[test]
    fn every_server_answers() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("tcp").unwrap();
        for server in Server::ALL {
            let mut reached = Reached::default();
            let load = (3, &Exchange::http(1280), &Arc::default());
            // Long enough for a machine whose cores are busy with other tests.
            closed_loop(&rig, server, load, Duration::from_millis(500), &mut reached).unwrap();
            assert!(reached.rates.0[0] > 0.0, "{server:?}");
        }
    }

    #[test]
    fn a_response_that_is_not_expected_is_no_figure() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("tcp").unwrap();
        let contender = Server::Weever.start(&rig, &Exchange::http(64), &Arc::default()).unwrap();
        let load = |generator| Clients::connect(generator, 1)?.closed_loop(SHORT.each);
        let error = drive(&rig, load, &Exchange::http(80)).err().map(|error| error.to_string());
        contender.finish().unwrap();
        assert!(error.as_deref().is_some_and(|error| error.contains("are wrong")), "{error:?}");
    }

    #[test]
    fn connections_and_floods_are_measured() {
        weever_testbed::require_net_admin!();
        let rig = super::super::rig("tcp").unwrap();
        let mut report = Report::new("tcp");
        connections(&rig, SHORT, &mut report).unwrap();
        syn_flood(&rig, SHORT, &mut report).unwrap();
        assert!(report.ratios["connections_vs_kernel"] > 0.0, "{report}");
        assert!(report.ratios["syn_flood"] > 0.0, "{report}");
    }
}
