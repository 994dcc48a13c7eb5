//! Latency against the offered load, and as distributions, drawn: figures 5 and 6 of the COREC paper, for two threads
//! and for more servers on the virtual clock; and tables 2 and 3, drawn too.
//!
//! Load is open, from a fifth of what sharing can do to nine tenths. With skewed flows, a queue each saturates
//! on the way, since 95 % of packets come to one thread.

use std::path::Path;
use std::time::Duration;

use super::calm::RealTime;
use super::drawing::{Points, Side, against_load, against_threads, distributions, draw};
use super::pairs::{Pairs, distribution};
use super::queue::{Spread, queues};
use super::team::Team;
use super::virtual_time::{self, Latencies};
use crate::samples::Plan;
use crate::{BenchError, Report};

/// Loads, as parts of the throughput of sharing.
const LOADS: [f64; 6] = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9];
/// The load at which distributions are drawn, one of these.
const SHOWN: usize = 4;
/// Packets of a run, and pairs of runs in each round.
const PACKETS: u64 = 2_000;
const PAIRS: u64 = 4;
/// The pause after each pair, in which other threads run that wait while these have real-time priority.
const REST: Duration = Duration::from_millis(5);
/// Simulated servers, those of the paper's figures, and the packets that they get.
const SERVERS: [usize; 2] = [4, 8];
const VIRTUAL: u64 = 100_000;

/// A kind of work and of load, and the name of its figures.
struct Sweep {
    name: &'static str,
    titles: [&'static str; 2],
    points: Vec<Pairs>,
}

impl Sweep {
    fn new(name: &'static str, titles: [&'static str; 2], spread: Spread) -> Sweep {
        let point = |load| Pairs::new(format!("{name}, load {load}"), spread, load, PACKETS);
        Sweep { name, titles, points: LOADS.into_iter().map(point).collect() }
    }

    fn round(&mut self, team: &mut Team, seed: u64) -> Result<(), BenchError> {
        let busy = team.busy()?;
        for pairs in &mut self.points {
            pairs.round(team, busy, seed)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn side(&self, side: usize) -> Side {
        let of = |what: fn(Latencies) -> f64| {
            let at = |pairs: &Pairs| (pairs.load, pairs.of(side, what).summary().median);
            self.points.iter().map(at).collect()
        };
        Side { mean: of(|all| all.mean), p99: of(|all| all.p99) }
    }

    fn draw(&self, path: &Path, report: &mut Report) -> Result<(), BenchError> {
        let name = self.name.replace(", ", "-");
        let plot = against_load(self.titles[0], "µs", [0, 1].map(|side| self.side(side)));
        draw(path, &name, &plot, report)?;
        let pairs = &self.points[SHOWN];
        let plot = distributions(self.titles[1], [0, 1].map(|side| pairs.distribution(side)));
        draw(path, &format!("{name}-cdf"), &plot, report)
    }
}

/// Measures and draws figures 5 and 6 for two threads. Blocks for up to a minute.
pub(super) fn measured(
    plan: Plan,
    (light, heavy): (&mut Team, &mut Team),
    path: &Path,
    report: &mut Report,
) -> Result<(), BenchError> {
    let sweep = |name, titles, spread| Sweep::new(name, titles, spread);
    let light_titles = [
        "Two threads that forward, flows spread evenly",
        "Two threads that forward, flows spread evenly, load 0.8",
    ];
    let heavy_titles = [
        "Two threads, a gateway, flows spread evenly",
        "Two threads, a gateway, flows spread evenly, load 0.8",
    ];
    let mut of_light = [
        sweep("light, even", light_titles, Spread::Even),
        sweep(
            "light, skewed",
            [
                "Two threads that forward, 95 % of packets for one queue",
                "Two threads that forward, 95 % of packets for one queue, load 0.8",
            ],
            Spread::Skewed,
        ),
    ];
    let mut of_heavy = [
        sweep("heavy, even", heavy_titles, Spread::Even),
        sweep(
            "heavy, skewed",
            [
                "Two threads, a gateway, 95 % of packets for one queue",
                "Two threads, a gateway, 95 % of packets for one queue, load 0.8",
            ],
            Spread::Skewed,
        ),
    ];
    for round in plan.rounds() {
        let _real_time = RealTime::for_measuring();
        for pair in 0..PAIRS {
            let seed = round as u64 * PAIRS + pair;
            of_light.iter_mut().try_for_each(|sweep| sweep.round(light, seed))?;
            of_heavy.iter_mut().try_for_each(|sweep| sweep.round(heavy, seed))?;
        }
    }
    for sweep in of_light.iter().chain(&of_heavy) {
        sweep.points.iter().for_each(|pairs| pairs.report(report));
        sweep.draw(path, report)?;
    }
    Ok(())
}

/// The same of four and eight servers on the virtual clock.
pub(super) fn simulated(path: &Path, report: &mut Report) -> Result<(), BenchError> {
    for servers in SERVERS {
        let of = |load: f64| {
            let pause = virtual_time::busy() / servers as f64 / load;
            [true, false].map(|shared| {
                let arriving = (VIRTUAL, pause);
                let queues = queues((servers, shared), Spread::Even, arriving, 1);
                virtual_time::serve(&queues, servers)
            })
        };
        let runs: Vec<[Vec<f64>; 2]> = LOADS.into_iter().map(of).collect();
        let side = |side: usize| {
            let all = || LOADS.into_iter().zip(runs.iter().map(|run| Latencies::of(&run[side])));
            Side {
                mean: all().map(|(load, all)| (load, all.mean / 1e3)).collect(),
                p99: all().map(|(load, all)| (load, all.p99 / 1e3)).collect(),
            }
        };
        let titles = match servers {
            4 => {
                ["Four servers, a gateway, virtual clock", "Four servers, virtual clock, load 0.8"]
            }
            _ => [
                "Eight servers, a gateway, virtual clock",
                "Eight servers, virtual clock, load 0.8",
            ],
        };
        let plot = against_load(titles[0], "µs", [0, 1].map(side));
        draw(path, &format!("servers-{servers}"), &plot, report)?;
        let both = [0, 1].map(|side| distribution(&runs[SHOWN][side]));
        draw(path, &format!("servers-{servers}-cdf"), &distributions(titles[1], both), report)?;
    }
    Ok(())
}

/// Tables 2 and 3: throughput by threads on one queue, as a multiple of one thread on a plain ring.
pub(super) fn tables(
    [light, heavy]: [Points; 2],
    path: &Path,
    report: &mut Report,
) -> Result<(), BenchError> {
    draw(path, "threads", &against_threads(light, heavy), report)
}

#[cfg(test)]
mod tests {
    use super::super::gateway::Work;
    use super::*;

    #[test]
    fn every_figure_is_drawn_with_both_sides() {
        let folder = std::env::temp_dir().join(format!("weever-corec-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("all.svg");
        let team = || Team::new(Work::Heavy(1), 2).unwrap();
        let mut report = Report::new("any");
        let plan = Plan { rounds: 1, each: Duration::ZERO };
        measured(plan, (&mut team(), &mut team()), &path, &mut report).unwrap();
        tables([vec![(1.0, 1.0), (2.0, 1.9)], vec![(1.0, 1.0), (2.0, 2.0)]], &path, &mut report)
            .unwrap();
        let spreads = ["even", "even-cdf", "skewed", "skewed-cdf"];
        let names = ["light", "heavy"].map(|work| spreads.map(|of| format!("{work}-{of}")));
        for name in names.as_flattened().iter().map(String::as_str).chain(["threads"]) {
            let svg = std::fs::read_to_string(folder.join(format!("all-{name}.svg"))).unwrap();
            let lines = svg.matches("<polyline").count();
            assert!(lines >= 2 && !svg.contains("NaN") && svg.ends_with("</svg>\n"), "{name}");
            assert!(report.to_string().contains(&format!("all-{name}.svg")), "it is named");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        let rates = report.rows.iter().filter(|row| row.name.ends_with(": rate"));
        assert_eq!(rates.filter(|row| row.median > 0.0).count(), 2 * 4 * LOADS.len());
    }
}
