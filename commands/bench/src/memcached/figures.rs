//! The clients' latency and throughput by stack, policy and class, and their pictures.

use std::path::Path;

use super::population::{BEST_EFFORT, FIRST, HIGH, IN_FLIGHT, NEW_BEST_EFFORT, NEW_HIGH, is_high};
use super::scene::{Phase, Played, SLICES, Under};
use crate::app::{VALUES, describe_requests};
use crate::boxes::{Panel, Set};
use crate::clients::Served;
use crate::plot::{Line, Plot, Scale};
use crate::rig::Rig;
use crate::{BenchError, Report, Samples, boxes};

/// A group of clients under a policy in a phase, as a box of the paper's figure 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Kernel,
    Balance,
    High,
    BestEffort,
    NewBestEffort,
    NewHigh,
}

impl Group {
    const ALL: [Group; 6] = [
        Group::Kernel,
        Group::Balance,
        Group::High,
        Group::BestEffort,
        Group::NewBestEffort,
        Group::NewHigh,
    ];

    /// Its name in the report, and its name and colour in the pictures.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Group::Kernel => ("kernel", "kernel", "#808080"),
            Group::Balance => ("balance", "balance", "#202020"),
            Group::High => ("isolate, high priority", "HP", "#30804a"),
            Group::BestEffort => ("isolate, best effort", "BE", "#2060a0"),
            Group::NewBestEffort => ("isolate, best effort joins", "+BE", "#6090c0"),
            Group::NewHigh => ("isolate, high priority joins", "+HP", "#60b080"),
        }
    }

    fn under(self) -> Under {
        match self {
            Group::Kernel => Under::Kernel,
            Group::Balance => Under::Balance,
            _ => Under::Isolate,
        }
    }

    /// Its clients, and the phase that counts.
    fn of(self, played: &Played) -> (Vec<usize>, &Phase) {
        let first = |of: fn(usize) -> bool| (0..FIRST).filter(|client| of(*client)).collect();
        match self {
            Group::Kernel | Group::Balance => (first(|_| true), &played.alone),
            Group::High => (first(is_high), &played.alone),
            Group::BestEffort => (first(|client| !is_high(client)), &played.alone),
            Group::NewBestEffort => (vec![NEW_BEST_EFFORT], &played.best_effort),
            Group::NewHigh => (vec![NEW_HIGH], &played.high),
        }
    }
}

/// The reported values of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Latency,
    Throughput,
}

impl Figure {
    /// Without an answer there is no latency.
    fn of(self, served: &Served, seconds: f64) -> Option<f64> {
        match self {
            Figure::Latency if served.answers == 0 => None,
            Figure::Latency => Some(served.waited as f64 / served.answers as f64 / 1e3),
            Figure::Throughput => Some(served.answers as f64 / seconds / 1e3),
        }
    }

    fn name(self) -> (&'static str, &'static str) {
        match self {
            Figure::Latency => ("latency", "µs"),
            Figure::Throughput => ("throughput", "k/s"),
        }
    }
}

/// All rounds, by length of values.
#[derive(Default)]
pub(super) struct Figures {
    rounds: [[Vec<Played>; Under::ALL.len()]; VALUES.len()],
}

impl Figures {
    pub(super) fn add(&mut self, size: usize, under: Under, played: &Played) {
        self.rounds[size][under as usize].push(played.clone());
    }

    /// A value of each client, by rounds.
    fn values(&self, size: usize, group: Group, figure: Figure) -> Vec<Vec<Option<f64>>> {
        let rounds = &self.rounds[size][group.under() as usize];
        let of = |played: &Played| {
            let (clients, phase) = group.of(played);
            let seconds = phase.each.as_secs_f64();
            clients.into_iter().map(|c| figure.of(&phase.clients[c], seconds)).collect()
        };
        rounds.iter().map(of).collect()
    }

    /// Each client's median over the rounds; of a single client, its rounds.
    fn by_client(&self, size: usize, group: Group, figure: Figure) -> Samples {
        let rounds = self.values(size, group, figure);
        let clients = rounds.first().map_or(0, Vec::len);
        if clients == 1 {
            return Samples(rounds.into_iter().flatten().flatten().collect());
        }
        let of = |client: usize| median(rounds.iter().filter_map(|round| round[client]));
        Samples((0..clients).filter_map(of).collect())
    }

    /// Each round's median over the clients.
    fn by_round(&self, size: usize, group: Group, figure: Figure) -> Samples {
        let rounds = self.values(size, group, figure);
        let of = |clients: Vec<Option<f64>>| median(clients.into_iter().flatten());
        Samples(rounds.into_iter().map(|clients| of(clients).unwrap_or(0.0)).collect())
    }

    /// A value of each round under a policy.
    fn rounds(&self, size: usize, under: Under, of: impl Fn(&Played) -> f64) -> Samples {
        Samples(self.rounds[size][under as usize].iter().map(of).collect())
    }

    pub(super) fn report(&self, rig: &Rig) -> Report {
        let mut report = Report::new("memcached");
        report.setup(rig.describe());
        report.setup(
            "memcached with two threads, both workers and the steward on the contender's core; clients: one thread \
             over AF_XDP",
        );
        report.setup(format!(
            "{HIGH} high-priority and {BEST_EFFORT} best-effort clients, {IN_FLIGHT} flows each with a request in \
             flight; {}; rows are the clients' median, least and most, each client by its median round",
            describe_requests()
        ));
        for (size, len) in VALUES.into_iter().enumerate() {
            if self.rounds[size].iter().any(|rounds| !rounds.is_empty()) {
                self.rows(size, len, &mut report);
                self.ratios(size, len, &mut report);
            }
        }
        report
    }

    fn rows(&self, size: usize, len: usize, report: &mut Report) {
        for group in Group::ALL {
            for figure in [Figure::Latency, Figure::Throughput] {
                let (what, unit) = figure.name();
                let name = format!("{len} B, {}: {what}", group.names().0);
                report.row(&name, unit, &self.by_client(size, group, figure));
            }
        }
        for under in Under::ALL {
            let lost = |played: &Played| {
                played.alone.clients.iter().map(|client| client.lost as f64).sum()
            };
            let name = format!("{len} B, {}", under.name());
            let all = self.rounds(size, under, |played| played.alone.rate() / 1e3);
            report.row(&format!("{name}: all clients together"), "k/s", &all);
            report.row(&format!("{name}: lost"), "requests", &self.rounds(size, under, lost));
        }
    }

    fn ratios(&self, size: usize, len: usize, report: &mut Report) {
        let ratio = |figure, own, peer| {
            self.by_round(size, own, figure).ratio(&self.by_round(size, peer, figure))
        };
        let (latency, rate) = (Figure::Latency, Figure::Throughput);
        for (key, figure, own, peer) in [
            ("hp_latency_isolate_vs_balance", latency, Group::High, Group::Balance),
            ("hp_throughput_isolate_vs_balance", rate, Group::High, Group::Balance),
            ("be_throughput_isolate_vs_balance", rate, Group::BestEffort, Group::Balance),
            ("hp_latency_isolate_vs_kernel", latency, Group::High, Group::Kernel),
            ("hp_throughput_isolate_vs_kernel", rate, Group::High, Group::Kernel),
            ("new_hp_throughput_vs_hp", rate, Group::NewHigh, Group::High),
            ("new_be_throughput_vs_be", rate, Group::NewBestEffort, Group::BestEffort),
        ] {
            report.ratio(&format!("{key}_{len}"), "", &ratio(figure, own, peer));
        }
        let all = |under| self.rounds(size, under, |played| played.alone.rate());
        let total = all(Under::Balance).ratio(&all(Under::Kernel));
        report.ratio(&format!("all_balance_vs_kernel_{len}"), "", &total);
        let kept = |played: &Played| high_rate(&played.best_effort) / high_rate(&played.alone);
        let kept = self.rounds(size, Under::Isolate, kept);
        report.ratio(&format!("hp_throughput_after_be_join_{len}"), "", &kept);
        let joined = self.rounds(size, Under::Isolate, joined_ms);
        report.ratio(&format!("hp_join_ms_{len}"), "ms", &joined);
    }

    /// Draws boxes into `path`, as figure 3 of the paper, and the joining client's latency into `…-join`, as figure 4.
    pub(super) fn draw(&self, path: &Path) -> Result<(), BenchError> {
        let mut panels = Vec::new();
        for (size, len) in VALUES.into_iter().enumerate() {
            for figure in [Figure::Latency, Figure::Throughput] {
                let set = |group: Group| {
                    let (_, name, colour) = group.names();
                    let values = self.by_client(size, group, figure).0;
                    Set { name: name.into(), colour, values }
                };
                let (what, unit) = figure.name();
                let title = format!("Mean {what} of a client, {len} B");
                panels.push(Panel { title, unit, sets: Group::ALL.map(set).into() });
            }
        }
        let written = std::fs::write(path, boxes::to_svg(&panels));
        written.map_err(BenchError::of("picture"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let joining = path.with_file_name(format!("{stem}-join.svg"));
        std::fs::write(joining, self.joining().to_svg()).map_err(BenchError::of("picture"))
    }

    /// Latency by time while a high-priority client joins, with the shorter values: medians of the rounds.
    fn joining(&self) -> Plot {
        let rounds = &self.rounds[0][Under::Isolate as usize];
        let line = |name, colour, of: fn(usize) -> bool| {
            let at = |slice: usize| {
                let values = rounds.iter().flat_map(|played| {
                    let slice = &played.high.slices[slice];
                    let clients = slice.iter().enumerate().filter(move |(client, _)| of(*client));
                    clients.filter_map(|(_, served)| Figure::Latency.of(served, 1.0))
                });
                // Values that are not positive cannot be drawn.
                median(values).unwrap_or(0.0)
            };
            let each = rounds.first().map_or(0.0, |played| slice_ms(&played.high));
            let points = (0..SLICES).map(|slice| ((slice as f64 + 0.5) * each, at(slice)));
            Line { name, colour, points: points.collect() }
        };
        Plot {
            title: "Latency while a high-priority client joins, 64 B",
            x: "time, ms",
            y: "mean latency, µs",
            scales: (Scale::Linear, Scale::Log),
            lines: vec![
                line("HP", "#30804a", |client| client < HIGH),
                line("BE", "#2060a0", |client| (HIGH..FIRST).contains(&client)),
                line("new HP", "#b03020", |client| client == NEW_HIGH),
            ],
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values = Samples(values.collect());
    (!values.0.is_empty()).then(|| values.summary().median)
}

fn slice_ms(phase: &Phase) -> f64 {
    phase.each.as_secs_f64() * 1e3 / SLICES as f64
}

/// Answers to the first high-priority clients.
fn high_rate(phase: &Phase) -> f64 {
    phase.clients[..HIGH].iter().map(|client| client.answers as f64).sum()
}

/// Milliseconds until the new high-priority client gets at least half of what the others of its class get; the whole
/// phase, if never.
fn joined_ms(played: &Played) -> f64 {
    let like_others = |slice: &Vec<Served>| {
        let others: u64 = slice[..HIGH].iter().map(|client| client.answers).sum();
        2 * slice[NEW_HIGH].answers >= others / HIGH as u64
    };
    let at = played.high.slices.iter().position(like_others).unwrap_or(SLICES);
    at as f64 * slice_ms(&played.high)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A phase in which every client got this much, and the high-priority ones twice.
    fn phase(answers: u64) -> Phase {
        let one = |client| {
            let answers = if is_high(client) { 2 * answers } else { answers };
            Served { answers, waited: answers * 50_000, ..Served::default() }
        };
        let clients: Vec<Served> = (0..FIRST + 2).map(one).collect();
        let each = Duration::from_secs(1);
        Phase { slices: vec![clients.clone(); SLICES], clients, each }
    }

    #[test]
    fn groups_are_compared_by_their_medians() {
        let played = Played { alone: phase(10), best_effort: phase(8), high: phase(10) };
        assert_eq!(joined_ms(&played), 0.0);
        let mut slow = played.clone();
        slow.high.slices[..3].iter_mut().for_each(|slice| slice[NEW_HIGH].answers = 1);
        assert_eq!(joined_ms(&slow), 150.0);
        let mut figures = Figures::default();
        for under in Under::ALL {
            figures.add(0, under, &played);
        }
        let median = |group| figures.by_round(0, group, Figure::Throughput).summary().median;
        let medians = [Group::Balance, Group::High, Group::BestEffort, Group::NewBestEffort];
        assert_eq!(medians.map(median), [0.01, 0.02, 0.01, 0.008]);
        assert_eq!(figures.by_client(0, Group::High, Figure::Latency).0, [50.0; HIGH]);
        assert_eq!(high_rate(&played.best_effort) / high_rate(&played.alone), 0.8);
        assert_eq!(figures.joining().lines.len(), 3);
        let mut silent = played;
        silent.alone.clients.fill(Served::default());
        figures = Figures::default();
        figures.add(0, Under::Isolate, &silent);
        assert_eq!(figures.by_client(0, Group::High, Figure::Latency), Samples::default());
    }
}
