//! `weever bench echo-clients`: twenty clients of an echo server, as in §4.2 of the Dragonet queue management
//! paper.
//!
//! Each client keeps 16 requests in flight, of 64 and of 1,024 bytes. All of them are one thread on the
//! generator's core, so a contender that turns frames round in the driver shows the most that they can drive.

use std::path::Path;
use std::time::Duration;

use weever_testbed::pin_to;

use crate::app::{self, Body, Kind};
use crate::boxes::{Panel, Set, to_svg};
use crate::client::Client;
use crate::clients::{Clients, ClosedLoop, Request, Served, port_of_client};
use crate::contender::Contender;
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::traffic::payload_len;
use crate::{BenchError, Report, Samples, peers};

const CLIENTS: usize = 20;
const IN_FLIGHT: usize = 16;
/// Bytes of a frame, check sequence included.
const SIZES: [usize; 2] = [64, 1024];
const WARM_UP: Duration = Duration::from_millis(150);

/// The servers, and their colours. The last one only shows what the clients can do.
const CONTENDERS: [(&str, &str, Body); 4] = [
    ("kernel", "#b03020", peers::mmsg_echo_for_many),
    ("process", "#2060a0", |gate| app::process(gate, Kind::Echo)),
    ("library", "#30804a", |gate| app::library(gate, Kind::Echo)),
    ("reflector", "#808080", peers::reflector),
];

/// The rounds of one contender at one size: for each, a value of every client.
#[derive(Default)]
struct Figures {
    latency: Vec<[f64; CLIENTS]>,
    throughput: Vec<[f64; CLIENTS]>,
    lost: Samples,
}

type BySize = [Figures; SIZES.len()];

/// Measures; with `svg`, draws latency and throughput of the clients into that file.
pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    let rig = Rig::new("echo-clients")?;
    rig.kernel_host()?;
    rig.receive_returns(Receiver::Generator)?;
    let mut figures: [BySize; CONTENDERS.len()] = Default::default();
    for _ in plan.rounds() {
        for ((_, _, body), by_size) in CONTENDERS.iter().zip(&mut figures) {
            for (size, figures) in SIZES.iter().zip(by_size) {
                figures.add(&measure(&rig, *body, *size, plan.each)?, plan.each);
            }
        }
    }
    if let Some(path) = svg {
        std::fs::write(path, picture(&figures)).map_err(BenchError::of("plot"))?;
    }
    Ok(report(&rig, &figures))
}

fn measure(rig: &Rig, body: Body, frame: usize, each: Duration) -> Result<Vec<Served>, BenchError> {
    let host_mac = rig.contender_end()?.mac;
    let contender = Contender::start(rig, body)?;
    let core = rig.generator_core;
    // An echo is right if it has what follows the place.
    let request = Request { payload: vec![0x2a; payload_len(frame)], answer: (2, b"****") };
    let load = ClosedLoop {
        clients: CLIENTS,
        in_flight: IN_FLIGHT,
        requests: vec![request],
        port: port_of_client,
    };
    let served = rig.fixture.left.run(move || {
        pin_to(core).map_err(BenchError::of("clients"))?;
        let mut clients = Clients::new(Client::open(host_mac)?, &load)?;
        clients.run(WARM_UP)?;
        clients.run(each)
    })?;
    contender.finish()?;
    Ok(served)
}

impl Figures {
    /// Mean latency in µs and thousands of transactions per second, by client.
    fn add(&mut self, served: &[Served], each: Duration) {
        let of = |figure: fn(&Served, f64) -> f64| {
            std::array::from_fn(|client| figure(&served[client], each.as_secs_f64()))
        };
        self.latency.push(of(|s, _| s.waited as f64 / s.answers.max(1) as f64 / 1e3));
        self.throughput.push(of(|s, seconds| s.answers as f64 / seconds / 1e3));
        self.lost.push(served.iter().map(|client| client.lost as f64).sum());
    }
}

/// Each client's median over the rounds.
fn by_client(rounds: &[[f64; CLIENTS]]) -> Samples {
    let of = |client: usize| Samples(rounds.iter().map(|round| round[client]).collect());
    Samples((0..CLIENTS).map(|client| of(client).summary().median).collect())
}

/// Each round's median over the clients.
fn by_round(rounds: &[[f64; CLIENTS]]) -> Samples {
    Samples(rounds.iter().map(|clients| Samples(clients.to_vec()).summary().median).collect())
}

fn report(rig: &Rig, figures: &[BySize; CONTENDERS.len()]) -> Report {
    let mut report = Report::new("echo-clients");
    report.setup(rig.describe());
    report.setup(format!(
        "{CLIENTS} clients, one thread over AF_XDP, {IN_FLIGHT} requests in flight each; rows are the \
         clients' median, least and most, each client by its median round"
    ));
    report
        .setup("reflector: frames turned round by the driver, the most that the clients can drive");
    for (at, size) in SIZES.iter().enumerate() {
        for ((name, ..), by_size) in CONTENDERS.iter().zip(figures) {
            let figures = &by_size[at];
            let name = format!("{name}, {size} B");
            report.row(&format!("{name}: latency"), "µs", &by_client(&figures.latency));
            report.row(&format!("{name}: throughput"), "k/s", &by_client(&figures.throughput));
            report.row(&format!("{name}: lost in a round"), "requests", &figures.lost);
        }
    }
    let [kernel, process, library, reflector] = figures;
    for (at, size) in SIZES.iter().enumerate() {
        for (name, own) in [("process", process), ("library", library)] {
            let ratio = |pick: fn(&Figures) -> &Vec<[f64; CLIENTS]>, peer: &BySize| {
                by_round(pick(&own[at])).ratio(&by_round(pick(&peer[at])))
            };
            let key = |what| format!("clients_{what}_{name}_vs_kernel_{size}");
            report.ratio(&key("latency"), "ratio", &ratio(|f| &f.latency, kernel));
            report.ratio(&key("throughput"), "ratio", &ratio(|f| &f.throughput, kernel));
            let limit = ratio(|f| &f.throughput, reflector);
            report.row(&format!("{name}, {size} B : the clients' limit"), "ratio", &limit);
        }
    }
    report
}

fn picture(figures: &[BySize; CONTENDERS.len()]) -> String {
    let mut panels = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        // The reflector is no server.
        let contenders = || CONTENDERS.iter().zip(figures).take(CONTENDERS.len() - 1);
        let sets = |pick: fn(&Figures) -> &Vec<[f64; CLIENTS]>| {
            contenders()
                .map(|((name, colour, _), by_size)| Set {
                    name: (*name).into(),
                    colour,
                    values: by_client(pick(&by_size[at])).0,
                })
                .collect()
        };
        let panel = |what, unit, sets| Panel { title: format!("{what}, {size} B"), unit, sets };
        panels.push(panel("Mean latency of a client", "µs", sets(|f| &f.latency)));
        panels.push(panel("Throughput of a client", "k/s", sets(|f| &f.throughput)));
    }
    to_svg(&panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_served_at_both_sizes() {
        weever_testbed::require_net_admin!();
        let rig = Rig::new("echo-clients").unwrap();
        rig.kernel_host().unwrap();
        let (_, _, library) = CONTENDERS[2];
        for (body, size) in [(library, 64), (peers::reflector as Body, 1024)] {
            let served = measure(&rig, body, size, Duration::from_millis(100)).unwrap();
            assert_eq!(served.len(), CLIENTS);
            let answered = |client: &Served| client.answers > 0 && client.wrong == 0;
            assert!(served.iter().all(answered), "{size}: {served:?}");
        }
    }

    #[test]
    fn the_picture_has_a_box_for_every_server_and_figure() {
        let mut figures: [BySize; CONTENDERS.len()] = Default::default();
        let served = [Served { answers: 10, waited: 50_000, ..Served::default() }; CLIENTS];
        figures.iter_mut().flatten().for_each(|f| f.add(&served, Duration::from_secs(1)));
        assert_eq!(picture(&figures).matches("class=\"box\"").count(), 3 * 2 * SIZES.len());
        assert_eq!(by_client(&figures[0][0].latency).0, [5.0; CLIENTS]);
    }
}
