//! Latency and throughput against the offered load, and distributions of latency: figures 5 and 6 of the COREC paper, for
//! two threads in memory and by AF_XDP, and for more servers on the virtual clock.
//!
//! Load is open, from a fifth of what sharing can do to nine tenths: at the lower ones neither side is ever busy for
//! long. With skewed flows, a queue each saturates on the way, since 95 % of packets come to one thread.

use std::path::Path;
use std::time::Duration;

use super::calm::RealTime;
use super::drawing::{Side, against_load, distributions, draw, rates};
use super::gateway::Work;
use super::pairs::{Pairs, SIDES, distribution};
use super::queue::Spread;
use super::rated::LONG;
use super::team::{Servers, Team};
use super::veth::Cables;
use super::virtual_time::{self, Latencies};
use crate::samples::{Plan, Samples};
use crate::{BenchError, Report};

/// Loads, as parts of the throughput of sharing.
const LOADS: [f64; 6] = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9];
/// The load at which distributions are drawn, one of these.
const SHOWN: usize = 4;
/// Packets of a run, and pairs of runs in each round. Tests are about the figures that there are.
const PACKETS: u64 = if cfg!(test) { 200 } else { 2_000 };
const PAIRS: u64 = if cfg!(test) { 1 } else { 4 };
/// The pause after each pair, in which other threads run that wait while these have real-time priority.
const REST: Duration = Duration::from_millis(5);
/// Simulated servers, and the packets that they get.
const SERVERS: [usize; 3] = [2, 4, 8];
const VIRTUAL: u64 = 100_000;

/// What is swept: its name, how flows are spread, and the title of its plots.
type Kind = (&'static str, Spread, &'static str);

const LIGHT: [Kind; 2] = [
    ("light, even", Spread::Even, "Two threads that forward, even flows"),
    ("light, skewed", Spread::Skewed, "Two threads that forward, 95 % of packets for one queue"),
];
const HEAVY: [Kind; 2] = [
    ("heavy, even", Spread::Even, "Two threads, a gateway, even flows"),
    ("heavy, skewed", Spread::Skewed, "Two threads, a gateway, 95 % of packets for one queue"),
];
const XDP_LIGHT: [Kind; 2] = [
    ("AF_XDP, light, even", Spread::Even, "Two threads that forward, AF_XDP, even flows"),
    (
        "AF_XDP, light, skewed",
        Spread::Skewed,
        "Two threads that forward, AF_XDP, 95 % for one queue",
    ),
];
const XDP_HEAVY: [Kind; 2] = [
    ("AF_XDP, heavy, even", Spread::Even, "Two threads, a gateway, AF_XDP, even flows"),
    ("AF_XDP, heavy, skewed", Spread::Skewed, "Two threads, a gateway, AF_XDP, 95 % for one queue"),
];

/// A kind at all loads.
struct Sweep {
    name: &'static str,
    title: &'static str,
    points: Vec<Pairs>,
}

impl Sweep {
    fn new((name, spread, title): Kind) -> Sweep {
        let point = |load| Pairs::new(format!("{name}, load {load}"), spread, load, PACKETS);
        Sweep { name, title, points: LOADS.into_iter().map(point).collect() }
    }

    /// The name as a part of files' names.
    fn slug(&self) -> String {
        self.name.replace("AF_XDP", "xdp").replace(", ", "-")
    }

    fn round(&mut self, servers: &mut impl Servers, seed: u64) -> Result<(), BenchError> {
        let busy = servers.busy()?;
        for pairs in &mut self.points {
            pairs.round(servers, busy, seed)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn side(&self, side: usize) -> Side {
        let of = |what: fn(Latencies) -> f64| {
            let at = |pairs: &Pairs| (pairs.load, pairs.of(side, what).summary().median);
            self.points.iter().map(at).collect()
        };
        Side { mean: of(|all| all.mean), p99: of(|all| all.p99), p999: of(|all| all.p999) }
    }

    fn report(&self, svg: Option<&Path>, report: &mut Report) -> Result<(), BenchError> {
        self.points.iter().for_each(|pairs| pairs.report(report));
        let Some(path) = svg else { return Ok(()) };
        let sides = [0, 1].map(|side| self.side(side));
        let rate = |side| {
            let at = |pairs: &Pairs| (pairs.load, pairs.rates(side).summary().median);
            self.points.iter().map(at).collect()
        };
        let title = self.title;
        draw(path, &format!("{}-rate", self.slug()), &rates(title, [0, 1].map(rate)), report)?;
        let shown = [0, 1].map(|side| self.points[SHOWN].distribution(side));
        draw_both((path, &self.slug(), title), sides, shown, report)
    }
}

/// Draws the latencies of both sides against the load, and their distributions.
fn draw_both(
    (path, slug, title): (&Path, &str, &'static str),
    sides: [Side; 2],
    shown: [Vec<(f64, f64)>; 2],
    report: &mut Report,
) -> Result<(), BenchError> {
    draw(path, slug, &against_load(title, "µs", sides), report)?;
    draw(path, &format!("{slug}-cdf"), &distributions(title, shown), report)
}

/// Measures both spreads with these servers. Blocks for up to 45 seconds.
fn measured(
    plan: Plan,
    servers: &mut impl Servers,
    kinds: [Kind; 2],
    (svg, report): (Option<&Path>, &mut Report),
) -> Result<(), BenchError> {
    let mut sweeps = kinds.map(Sweep::new);
    for round in plan.rounds() {
        let _real_time = RealTime::for_measuring();
        for pair in 0..PAIRS {
            let seed = round as u64 * PAIRS + pair;
            sweeps.iter_mut().try_for_each(|sweep| sweep.round(servers, seed))?;
        }
    }
    sweeps.iter().try_for_each(|sweep| sweep.report(svg, report))
}

/// Measures all loads, and draws beside `svg` if that is wanted. Blocks for up to three minutes. By AF_XDP only as root.
pub(super) fn measure(
    plan: Plan,
    svg: Option<&Path>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let heavy = Work::heavy(LONG)?;
    report.setup(format!(
        "loads: parts of what two threads that share can do, measured before each pair; an encrypted packet takes {LONG:?}; with \
         skewed flows, a queue each saturates from a load of 0.53 on, else neither side up to 0.9"
    ));
    measured(plan, &mut Team::new(Work::Light, 2)?, LIGHT, (svg, report))?;
    measured(plan, &mut Team::new(heavy, 2)?, HEAVY, (svg, report))?;
    if weever_testbed::privileged() {
        report.setup("by AF_XDP, light: the threads also send, at 1 µs a packet, most of the work");
        measured(plan, &mut Cables::new(Work::Light)?, XDP_LIGHT, (svg, report))?;
        measured(plan, &mut Cables::new(heavy)?, XDP_HEAVY, (svg, report))?;
    } else {
        report.setup("loads by AF_XDP: skipped, needs CAP_NET_ADMIN");
    }
    simulated(VIRTUAL, svg, report)
}

/// The same of servers on the virtual clock, with flows spread evenly: so many packets at each load.
fn simulated(packets: u64, svg: Option<&Path>, report: &mut Report) -> Result<(), BenchError> {
    for servers in SERVERS {
        let runs = LOADS.map(|load| virtual_time::both(servers, load, packets));
        for (side, name) in SIDES.into_iter().enumerate() {
            for (load, run) in LOADS.into_iter().zip(&runs) {
                let Latencies { mean, p99, p999 } = Latencies::of(&run[side]);
                for (what, ns) in [("mean", mean), ("p99", p99), ("p99.9", p999)] {
                    let row = format!("{servers} virtual servers, load {load}, {name}: {what}");
                    report.row(&row, "µs", &Samples(vec![ns / 1e3]));
                }
            }
        }
        let Some(path) = svg else { continue };
        let slug = format!("servers-{servers}");
        let title = match servers {
            2 => "Two servers, a gateway, virtual clock",
            4 => "Four servers, a gateway, virtual clock",
            _ => "Eight servers, a gateway, virtual clock",
        };
        let side = |side: usize| {
            let all = || LOADS.into_iter().zip(runs.iter().map(|run| Latencies::of(&run[side])));
            Side {
                mean: all().map(|(load, all)| (load, all.mean / 1e3)).collect(),
                p99: all().map(|(load, all)| (load, all.p99 / 1e3)).collect(),
                p999: all().map(|(load, all)| (load, all.p999 / 1e3)).collect(),
            }
        };
        let shown = [0, 1].map(|side| distribution(&runs[SHOWN][side]));
        draw_both((path, &slug, title), [0, 1].map(side), shown, report)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes with the test.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("weever-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        fn assert_drawn(&self, slugs: &[String], report: &Report) {
            for slug in slugs.iter().flat_map(|slug| [slug.clone(), format!("{slug}-cdf")]) {
                let svg = std::fs::read_to_string(self.0.join(format!("all-{slug}.svg"))).unwrap();
                let lines = svg.matches("<polyline").count();
                assert!(lines >= 2 && !svg.contains("NaN") && svg.ends_with("</svg>\n"), "{slug}");
                assert!(report.to_string().contains(&format!("all-{slug}.svg")), "it is named");
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn sweep(servers: &mut impl Servers, kinds: [Kind; 2], folder: &str) {
        let (folder, mut report) = (Folder::new(folder), Report::new("any"));
        let plan = Plan { rounds: 1, each: Duration::ZERO };
        let path = folder.0.join("all.svg");
        measured(plan, servers, kinds, (Some(&path), &mut report)).unwrap();
        let slugs = kinds.map(|kind| Sweep::new(kind).slug());
        folder.assert_drawn(&slugs, &report);
        for slug in slugs {
            let rates = std::fs::read_to_string(folder.0.join(format!("all-{slug}-rate.svg")));
            assert_eq!(rates.unwrap().matches("<polyline").count(), 2, "{slug}");
            assert!(report.to_string().contains(&format!("all-{slug}-rate.svg")), "it is named");
        }
        let rates = report.rows.iter().filter(|row| row.unit == "Mpps");
        assert_eq!(rates.filter(|row| row.median > 0.0).count(), 2 * 2 * LOADS.len());
    }

    #[test]
    fn every_load_has_its_figures_in_memory() {
        sweep(&mut Team::new(Work::Light, 2).unwrap(), LIGHT, "sweep-light");
        sweep(&mut Team::new(Work::Heavy(1), 2).unwrap(), HEAVY, "sweep-heavy");
    }

    #[test]
    fn every_load_has_its_figures_over_a_cable() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        sweep(&mut Cables::new(Work::Light).unwrap(), XDP_LIGHT, "sweep-xdp-light");
        sweep(&mut Cables::new(Work::Heavy(1)).unwrap(), XDP_HEAVY, "sweep-xdp-heavy");
    }

    #[test]
    fn more_servers_are_simulated_at_every_load() {
        let (folder, mut report) = (Folder::new("sweep-virtual"), Report::new("any"));
        simulated(2_000, Some(&folder.0.join("all.svg")), &mut report).unwrap();
        folder.assert_drawn(&SERVERS.map(|servers| format!("servers-{servers}")), &report);
        assert_eq!(report.rows.len(), SERVERS.len() * LOADS.len() * 2 * 3);
    }
}
