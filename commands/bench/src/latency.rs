//! `weever bench latency`: where the time of one request goes, layer by layer, after table 1 of the StackMap
//! paper.
//!
//! One request is in flight. The contenders form ladders: each does what the one before does and one thing
//! more, so the difference of their round trips is that thing's time. All are measured in each round, and
//! differences are taken round by round. What the graph costs without a device is measured beside.

use std::time::Duration;

use weever_engine::Mode;
use weever_models::Service;
use weever_testbed::pin_to;

use crate::app::{self, Body, Kind};
use crate::client::Client;
use crate::contender::Contender;
use crate::in_memory;
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::tcp::layers::{self, RUNGS};
use crate::{BenchError, Report, Samples, peers, tcp};

/// The contenders. The third column says whether the client sends ICMP echo requests.
const CONTENDERS: [(&str, Body, bool); 9] = [
    (REFLECTOR, peers::reflector, false),
    (BARE, peers::bare_echo, false),
    (GRAPH, |gate| peers::weever(gate, Service::Echo, 0), false),
    (LIBRARY, |gate| app::library(gate, Kind::Echo), false),
    (PROCESS, |gate| app::process(gate, Kind::Echo), false),
    (GRAPH_ASLEEP, |gate| peers::weever_in(gate, Service::Echo, 0, Mode::Interrupt), false),
    (ICMP, peers::kernel_icmp, true),
    (KERNEL, peers::mmsg_echo, false),
    (KERNEL_ASLEEP, peers::mmsg_echo_asleep, false),
];
const REFLECTOR: &str = "reflector: XDP_TX in the driver";
const BARE: &str = "bare AF_XDP";
const GRAPH: &str = "weever, echo in the graph";
const LIBRARY: &str = "weever, echo by the library's application";
const PROCESS: &str = "weever, echo by another process, on the same core, both asleep";
const GRAPH_ASLEEP: &str = "weever, echo in the graph, asleep";
const ICMP: &str = "kernel, ICMP echo";
const KERNEL: &str = "kernel, UDP echo by recvmmsg and sendmmsg";
const KERNEL_ASLEEP: &str = "kernel, UDP echo, asleep";

/// A layer: the key of its figure, its name, and the two contenders whose difference it is.
const LAYERS: [(&str, &str, &str, &str); 13] = [
    ("weever_user_space_ns", "weever: into user space and back, by AF_XDP", BARE, REFLECTOR),
    ("weever_graph_ns", "weever: worker, graph both ways", GRAPH, BARE),
    ("weever_application_ns", "weever: socket and application", LIBRARY, GRAPH),
    ("weever_process_ns", "weever: another process instead, which is woken", PROCESS, LIBRARY),
    ("kernel_ip_ns", "kernel: socket buffer, IP both ways, ICMP", ICMP, REFLECTOR),
    ("kernel_socket_ns", "kernel: UDP, socket and system calls, less ICMP", KERNEL, ICMP),
    ("kernel_wake_ns", "kernel: sleeping and waking", KERNEL_ASLEEP, KERNEL),
    ("tcp_engine_ns", "TCP: weever's engine at both ends", layers::ENGINE, BARE),
    ("weever_tcp_graph_ns", "TCP: worker, graph both ways", layers::GRAPH, layers::ENGINE),
    (
        "weever_tcp_application_ns",
        "TCP: weever, socket and application",
        layers::LIBRARY,
        layers::GRAPH,
    ),
    (
        "weever_tcp_process_ns",
        "TCP: weever, another process instead, which is woken",
        layers::PROCESS,
        layers::LIBRARY,
    ),
    (
        "kernel_tcp_ns",
        "TCP: kernel, with epoll, and weever's engine at the client, less UDP",
        layers::KERNEL,
        KERNEL,
    ),
    (
        "kernel_tcp_wake_ns",
        "TCP: kernel, sleeping and waking",
        layers::KERNEL_ASLEEP,
        layers::KERNEL,
    ),
];

/// The same for weever's worker.
const WEEVER_WAKE: (&str, &str) = ("weever_wake_ns", "weever: sleeping and waking");

/// Parts of the graph's share, one packet at a time on a link in memory.
#[derive(Default)]
struct Memory {
    receive: Samples,
    answer: Samples,
}

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    let rig = tcp::rig("latency")?;
    rig.receive_returns(Receiver::Generator)?;
    let mut times = Times::default();
    let mut memory = Memory::default();
    for _ in plan.rounds() {
        for ((_, body, icmp), times) in CONTENDERS.iter().zip(&mut times.datagrams) {
            times.push(round_trip(&rig, *body, *icmp, plan.each)?);
        }
        for ((_, body, exchange), times) in RUNGS.iter().zip(&mut times.streams) {
            times.push(layers::round_trip(&rig, (*body, *exchange), plan.each)?);
        }
        memory.measure(plan.each / 4)?;
    }
    Ok(report(&rig, &times, &memory))
}

/// The median round trip, in µs.
fn round_trip(rig: &Rig, body: Body, icmp: bool, each: Duration) -> Result<f64, BenchError> {
    let host_mac = rig.contender_end()?.mac;
    let contender = Contender::start(rig, body)?;
    let core = rig.generator_core;
    let (histogram, _) = rig.fixture.left.run(move || {
        pin_to(core).map_err(BenchError::of("client"))?;
        let client = Client::open(host_mac)?;
        let client = if icmp { client.pinging()? } else { client };
        client.ping_pong(each)
    })?;
    contender.finish()?;
    Ok(histogram.value_at_quantile(0.5) as f64 / 1e3)
}

impl Memory {
    fn measure(&mut self, each: Duration) -> Result<(), BenchError> {
        let ns = |mut contender: in_memory::Contender| {
            contender.measure(each / 4)?;
            contender.measure(each)
        };
        let serving = |service| in_memory::Contender::serving(String::new(), service, 1);
        let link = ns(in_memory::Contender::link(1)?)?;
        let (receive, echo) = (ns(serving(Service::Discard)?)?, ns(serving(Service::Echo)?)?);
        self.receive.push(receive - link);
        self.answer.push(echo - receive);
        Ok(())
    }
}

/// The round trips of all contenders, in µs.
#[derive(Default)]
struct Times {
    datagrams: [Samples; CONTENDERS.len()],
    streams: [Samples; RUNGS.len()],
}

impl Times {
    /// With their names.
    fn iter(&self) -> impl Iterator<Item = (&'static str, &Samples)> {
        let names = CONTENDERS.iter().map(|(name, ..)| *name);
        let names = names.chain(RUNGS.iter().map(|(name, ..)| *name));
        names.zip(self.datagrams.iter().chain(&self.streams))
    }

    fn of(&self, wanted: &str) -> Samples {
        let there = self.iter().find(|(name, _)| *name == wanted);
        there.map_or_else(Samples::default, |(_, samples)| samples.clone())
    }
}

fn report(rig: &Rig, times: &Times, memory: &Memory) -> Report {
    let mut report = Report::new("latency");
    report.setup(rig.describe());
    report
        .setup("one 64-byte frame in flight; the client spins over AF_XDP on the generator's core");
    report.setup("a layer is the difference of two contenders' median round trips, round by round");
    let (asked, answered) = layers::SHORT;
    report.setup(format!("TCP: one connection, {asked} octets asked, {answered} answered"));
    for (name, samples) in times.iter() {
        report.row(&format!("round trip p50, {name}"), "µs", samples);
    }
    let ns = |samples: &Samples| Samples(samples.0.iter().map(|us| us * 1e3).collect());
    let mut layer = |key: &str, name: &str, samples: &Samples| {
        report.setup(format!("{key}: {name}"));
        report.ratio(key, "ns", samples);
    };
    layer("client_and_cable_ns", "client, cable and drivers, both ways", &ns(&times.of(REFLECTOR)));
    for (key, name, upper, lower) in LAYERS {
        layer(key, name, &ns(&times.of(upper).above(&times.of(lower))));
    }
    let (key, name) = WEEVER_WAKE;
    layer(key, name, &ns(&times.of(GRAPH_ASLEEP).above(&times.of(GRAPH))));
    layer(
        "graph_receive_ns",
        "of weever's graph, in memory: a frame to the socket",
        &memory.receive,
    );
    layer("graph_answer_ns", "of weever's graph, in memory: answer to a frame", &memory.answer);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contenders_of_every_layer_are_measured() {
        let times = Times::default();
        let known = |wanted: &str| times.iter().any(|(name, _)| name == wanted);
        for (key, _, upper, lower) in LAYERS {
            assert!(known(upper) && known(lower), "{key}");
        }
    }

    #[test]
    fn the_rungs_without_a_stack_answer() {
        weever_testbed::require_net_admin!();
        let rig = Rig::new("latency").unwrap();
        rig.kernel_host().unwrap();
        for (name, body, icmp) in
            CONTENDERS.iter().filter(|(name, ..)| [REFLECTOR, ICMP].contains(name))
        {
            let time = round_trip(&rig, *body, *icmp, Duration::from_millis(50));
            assert!(time.is_ok_and(|time| time > 0.0), "{name}");
        }
    }
}
