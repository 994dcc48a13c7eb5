//! `weever bench isolation`: the effect of a policy on the clients that it favours, as in §4.3 of the Dragonet
//! queue management paper.
//!
//! A server with two workers takes 20 µs for each request. High-priority clients ask little,
//! best-effort clients ask for more than the server has. Under *balance* every flow gets a worker by
//! turns, under *isolate* the high-priority class has one to itself. Flows are detected by traffic.
//!
//! The cores: clients, steward and the kernel's part of receiving on the first, both workers on the
//! second. A request's 20 µs pass without work being done, so that two workers fit one thread, and
//! the generator costs the same under both policies.

mod clients;
mod server;

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use weever_engine::monotonic;
use weever_link::Link;
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Pool, PoolConfig};
use weever_steward::StewardThread;
use weever_testbed::{Fixture, allowed_cores, pin_to};
use weever_wire::MacAddr;

use crate::plot::{Line, Plot, Scale};
use crate::samples::Plan;
use crate::samples::quantile;
use crate::steward::{self, Placed};
use crate::{BenchError, Report, Samples};
use clients::{Clients, Load, Outcome};
use server::{SERVICE, Server};

const WORKERS: u16 = 2;
/// Ports of high-priority clients begin here.
const HIGH: u16 = 4000;
/// Of the clients that come while others are there.
const JOINING: u16 = HIGH + 50;
const BEST_EFFORT: u16 = 5000;
const BALANCE: &str = "objective = \"balance\"\n";
const ISOLATE: &str = "objective = \"balance\"\n[[class]]\nname = \"high\"\n\
    match = \"udp src portrange 4000-4099\"\nqueues = { exclusive = 1 }\npriority = 1\n";
/// An answer that took no longer than this surely did not wait for best-effort requests.
const GOOD: Duration = Duration::from_millis(1);
/// Slices of the picture.
const SLICE: Duration = Duration::from_millis(10);

/// Device, server, steward and clients.
struct Scene {
    clients: Clients,
    placed: Placed,
    _steward: StewardThread,
    _server: Server,
    _links: [AfXdp; 2],
    _net: Fixture,
}

#[derive(Default)]
struct Totals {
    balance_p50: Samples,
    balance_p99: Samples,
    balance: Samples,
    isolate_p50: Samples,
    isolate_p99: Samples,
    isolate: Samples,
    alone: Samples,
    alone_p50: Samples,
    alone_p99: Samples,
    with_newcomer: Samples,
    transient: Samples,
    /// From the newcomers' first request to when their filters were set.
    placed: Samples,
    /// Of the last round: when sent (ms), how long (µs), for both policies and for newcomers.
    pictures: [Vec<(f64, f64)>; 3],
}

pub(crate) fn run(plan: Plan, svg: Option<&Path>) -> Result<Report, BenchError> {
    let cores = allowed_cores().map_err(BenchError::of("cores"))?;
    let [first, second, ..] = cores[..] else {
        return Err(BenchError::Cores { bench: "isolation", cores: cores.len() });
    };
    pin_to(first).map_err(BenchError::of("cores"))?;
    let mut totals = Totals::default();
    for _ in plan.rounds() {
        totals.round(plan.each, (first, second))?;
    }
    if let Some(path) = svg {
        let written = std::fs::write(path, picture(&totals.pictures).to_svg());
        written.map_err(BenchError::of("picture"))?;
    }
    Ok(report(&totals, (first, second)))
}

/// `n` flows from `port` on, each with this rate of requests per second.
fn flows(port: u16, n: u16, rate: u64, from: Duration) -> Vec<Load> {
    (port..port + n).map(|port| Load { port, rate, from }).collect()
}

impl Totals {
    fn round(&mut self, each: Duration, cores: (usize, usize)) -> Result<(), BenchError> {
        // A third for flows to be found and queues to fill.
        let (length, join) = (each * 3 / 2, each / 2);
        let high = || flows(HIGH, 4, 2500, Duration::ZERO);
        let flood = |from| flows(BEST_EFFORT, 8, 15_000, from);
        let overloaded = |from| [high(), flood(from)].concat();
        let [balanced, isolated, _] = &mut self.pictures;
        let latencies = [
            (&mut self.balance_p50, &mut self.balance_p99),
            (&mut self.isolate_p50, &mut self.isolate_p99),
        ];
        let policies =
            [(BALANCE, &mut self.balance, balanced), (ISOLATE, &mut self.isolate, isolated)];
        for ((text, answers, picture), (p50, p99)) in policies.into_iter().zip(latencies) {
            let outcomes = Scene::new(text, cores)?.play(&overloaded(join / 2), length)?;
            let took = Outcome::latencies(&outcomes[..4], join);
            p50.push(percentile(&took, 0.5));
            p99.push(percentile(&took, 0.99));
            answers.push(took.len() as f64 / each.as_secs_f64());
            *picture = slices(&outcomes[..4]);
        }
        for (newcomer, answers) in [(false, &mut self.alone), (true, &mut self.with_newcomer)] {
            let mut loads = [high(), flows(BEST_EFFORT, 4, 5000, Duration::ZERO)].concat();
            if newcomer {
                loads.extend(flows(BEST_EFFORT + 100, 8, 15_000, join));
            }
            let outcomes = Scene::new(ISOLATE, cores)?.play(&loads, length)?;
            let took = Outcome::latencies(&outcomes[..4], join);
            answers.push(took.len() as f64 / each.as_secs_f64());
            if !newcomer {
                self.alone_p50.push(percentile(&took, 0.5));
                self.alone_p99.push(percentile(&took, 0.99));
            }
        }
        self.join(
            [overloaded(Duration::ZERO), flows(JOINING, 2, 2500, join)].concat(),
            length,
            cores,
        )
    }

    /// High-priority clients join while best-effort clients overload the server.
    fn join(
        &mut self,
        loads: Vec<Load>,
        length: Duration,
        cores: (usize, usize),
    ) -> Result<(), BenchError> {
        let join = loads.last().map_or(Duration::ZERO, |load| load.from);
        let scene = Scene::new(ISOLATE, cores)?;
        let placed = Arc::clone(&scene.placed);
        let began = monotonic();
        let outcomes = scene.play(&loads, length)?;
        let newcomers = &outcomes[outcomes.len() - 2..];
        self.pictures[2] = slices(newcomers);
        // The earlier clients share the newcomer's worker: their latency is the best it can reach,
        // whatever else the machine does.
        let others = percentile(&Outcome::latencies(&outcomes[..4], join), 0.999);
        let good = GOOD.max(Duration::from_nanos((others * 1e3) as u64));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        // A client that is never served well counts as served well at the end.
        let transient = Outcome::transient(newcomers, (join, SLICE), good);
        self.transient.push(transient.unwrap_or(ms(length - join)));
        let placed = placed.lock().unwrap_or_else(PoisonError::into_inner);
        let newcomer = placed
            .iter()
            .find(|(flow, _)| flow.src.port() >= JOINING && flow.src.port() < BEST_EFFORT);
        let at = newcomer.map_or(length, |(_, at)| Duration::from_nanos(at.saturating_sub(began)));
        self.placed.push(ms(at.saturating_sub(join)));
        Ok(())
    }
}

impl Scene {
    fn new(text: &str, (first, second): (usize, usize)) -> Result<Scene, BenchError> {
        let net = Fixture::pair(2)?;
        let pool = || Pool::new(PoolConfig { frames: 16_384, ..PoolConfig::default() });
        let (ours, theirs) =
            (pool().map_err(BenchError::of("pool"))?, pool().map_err(BenchError::of("pool"))?);
        let config =
            AfXdpConfig { sockets_per_queue: WORKERS, ..AfXdpConfig::new("left0", ours.clone()) };
        let mut left = net.left.run(|| AfXdp::open(&config)).map_err(BenchError::of("server"))?;
        let config = AfXdpConfig::new("right0", theirs.clone());
        let mut right =
            net.right.run(|| AfXdp::open(&config)).map_err(BenchError::of("clients"))?;
        let (steward, placed) = steward::start(left.steering(), text, WORKERS.into(), first)?;
        let server = Server::start(left.take_queues(), WORKERS.into(), &ours, second)?;
        let mac = |link: &AfXdp| MacAddr(link.info().mac);
        let ends = (mac(&right), Fixture::RIGHT, mac(&left), Fixture::LEFT);
        let queue = right.take_queues().remove(0);
        let clients = Clients { queue, cache: theirs.cache(), ends, turn: 0 };
        let (links, net) = ([left, right], net);
        Ok(Scene { clients, placed, _steward: steward, _server: server, _links: links, _net: net })
    }

    fn play(mut self, loads: &[Load], length: Duration) -> Result<Vec<Outcome>, BenchError> {
        self.clients.play(loads, length)
    }
}

/// Of nothing it is no number.
fn percentile(values: &[f64], share: f64) -> f64 {
    quantile(values, share).unwrap_or(f64::NAN)
}

/// The 99th percentile of each slice: its time in ms, the latency in µs.
fn slices(outcomes: &[Outcome]) -> Vec<(f64, f64)> {
    let slice = SLICE.as_nanos() as u64;
    let requests = || outcomes.iter().flat_map(|outcome| &outcome.requests);
    let last = requests().map(|(sent, _)| sent / slice).max().unwrap_or_default();
    let of = |number: u64| {
        let mut took: Vec<f64> = requests()
            .filter(|(sent, _)| sent / slice == number)
            .filter_map(|(_, took)| Some((*took)? as f64 / 1e3))
            .collect();
        took.sort_by(f64::total_cmp);
        let middle = (number * slice + slice / 2) as f64 / 1e6;
        (!took.is_empty()).then(|| (middle, percentile(&took, 0.99)))
    };
    (0..=last).filter_map(of).collect()
}

fn picture([balance, isolate, newcomers]: &[Vec<(f64, f64)>; 3]) -> Plot {
    let line = |name, colour, points: &[(f64, f64)]| Line { name, colour, points: points.to_vec() };
    Plot {
        title: "High-priority latency while clients join, p99 of 10 ms",
        x: "time, ms",
        y: "latency, µs",
        scales: (Scale::Linear, Scale::Log),
        lines: vec![
            line("balance", "#b03020", balance),
            line("isolate", "#2060a0", isolate),
            line("newcomers", "#30804a", newcomers),
        ],
    }
}

fn report(totals: &Totals, (first, second): (usize, usize)) -> Report {
    let mut report = Report::new("isolation");
    report.setup(format!(
        "two-queue veth; clients, steward and softirq on core {first}, both workers on core {second}"
    ));
    report.setup(format!(
        "{} µs a request, time that passes without work; open-loop load",
        SERVICE / 1000
    ));
    report.setup(
        "high priority: 4 flows of 2,500/s; best effort: 8 of 15,000/s; the server does 100,000/s",
    );
    report.row("balance, high p50", "µs", &totals.balance_p50);
    report.row("balance, high p99", "µs", &totals.balance_p99);
    report.row("balance, high", "answers/s", &totals.balance);
    report.row("isolate, high p50", "µs", &totals.isolate_p50);
    report.row("isolate, high p99", "µs", &totals.isolate_p99);
    report.row("isolate, high", "answers/s", &totals.isolate);
    report.row("isolate, no overload, high p50", "µs", &totals.alone_p50);
    report.row("isolate, no overload, high p99", "µs", &totals.alone_p99);
    report.row("isolate, no overload", "answers/s", &totals.alone);
    report.row("isolate, best effort joins", "answers/s", &totals.with_newcomer);
    report.row("isolate, high joins: filters set", "ms", &totals.placed);
    report.row("isolate, high joins: half of the answers good", "ms", &totals.transient);
    let tail = totals.isolate_p99.ratio(&totals.balance_p99);
    report.ratio("hp_p99_isolate_vs_balance", "ratio", &tail);
    report.ratio("hp_tput_after_be_join", "ratio", &totals.with_newcomer.ratio(&totals.alone));
    report.ratio("join_transient_ms", "ms", &totals.transient);
    report
}
