//! The plots of shared queues beside queues of their own.

use std::path::{Path, PathBuf};

use crate::plot::{Line, Plot, Scale};
use crate::{BenchError, Report};

/// The colour of a line.
pub(super) type Points = Vec<(f64, f64)>;

/// Latency of a shared queue, or of a queue each: against the load.
#[derive(Default)]
pub(super) struct Side {
    pub(super) mean: Points,
    pub(super) p99: Points,
    /// Not drawn if there are none.
    pub(super) p999: Points,
}

/// Colours of both sides, and their paler and darker ones.
const COLOURS: [[&str; 3]; 2] =
    [["#1f6f8b", "#8fb8c8", "#0c2f3b"], ["#c1440e", "#e0a080", "#5e2006"]];

/// Mean and high percentiles of latency, shared and with a queue each.
pub(super) fn against_load(
    title: &'static str,
    unit: &'static str,
    [shared, apart]: [Side; 2],
) -> Plot {
    let [[own, own_pale, own_dark], [other, other_pale, other_dark]] = COLOURS;
    let lines = [
        ("shared, mean", own_pale, shared.mean),
        ("shared, p99", own, shared.p99),
        ("shared, p99.9", own_dark, shared.p999),
        ("each, mean", other_pale, apart.mean),
        ("each, p99", other, apart.p99),
        ("each, p99.9", other_dark, apart.p999),
    ];
    plot((title, "load", unit), (Scale::Linear, Scale::Log), lines)
}

/// Throughput, shared and with a queue each.
pub(super) fn rates(title: &'static str, [shared, apart]: [Points; 2]) -> Plot {
    let [[own, ..], [other, ..]] = COLOURS;
    let lines = [("shared", own, shared), ("each", other, apart)];
    plot((title, "load", "throughput in Mpps"), (Scale::Linear, Scale::Linear), lines)
}

/// The share of packets by their latency in µs at a load of 0.8, shared and with a queue each.
pub(super) fn distributions(title: &'static str, [shared, apart]: [Points; 2]) -> Plot {
    let [[own, ..], [other, ..]] = COLOURS;
    let lines = [("shared", own, shared), ("each", other, apart)];
    plot((title, "latency in µs, load 0.8", "share of packets"), (Scale::Log, Scale::Linear), lines)
}

/// Throughput by threads on one queue.
pub(super) fn against_threads(light: Points, heavy: Points) -> Plot {
    let [[own, ..], [other, ..]] = COLOURS;
    let words = ("Throughput of threads on one queue", "threads", "one thread, plain ring = 1");
    let lines = [("light", own, light), ("heavy", other, heavy)];
    plot(words, (Scale::Linear, Scale::Linear), lines)
}

fn plot<const N: usize>(
    (title, x, y): (&'static str, &'static str, &'static str),
    scales: (Scale, Scale),
    lines: [(&'static str, &'static str, Points); N],
) -> Plot {
    let lines = lines.into_iter().filter(|(_, _, points)| !points.is_empty());
    let lines = lines.map(|(name, colour, points)| Line { name, colour, points }).collect();
    Plot { title, x, y, scales, lines }
}

/// Writes a plot beside `path`, as `path`'s name with `-what`, and says so.
pub(super) fn draw(
    path: &Path,
    what: &str,
    plot: &Plot,
    report: &mut Report,
) -> Result<(), BenchError> {
    let path = beside(path, what);
    std::fs::write(&path, plot.to_svg()).map_err(|error| {
        BenchError::of("plot")(format!("{} cannot be written: {error}", path.display()))
    })?;
    report.setup(format!("plot: {}", path.display()));
    Ok(())
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{what}.svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_have_points_are_drawn() {
        let points = || vec![(0.5, 1.0), (0.9, 2.0)];
        let side = || Side { mean: points(), p99: points(), ..Side::default() };
        let names = |sides| -> Vec<_> {
            against_load("any", "µs", sides).lines.iter().map(|line| line.name).collect()
        };
        let four = ["shared, mean", "shared, p99", "each, mean", "each, p99"];
        assert_eq!(names([side(), side()]), four);
        assert_eq!(names([Side { p999: points(), ..side() }, side()]).len(), 5);
        assert_eq!(rates("any", [points(), points()]).lines.len(), 2);
    }

    #[test]
    fn plots_lie_beside_the_file_that_was_named() {
        assert_eq!(beside(Path::new("docs/corec.svg"), "light"), Path::new("docs/corec-light.svg"));
        let mut report = Report::new("any");
        let plot = against_threads(vec![(1.0, 1.0)], vec![(1.0, 1.0)]);
        let error = draw(Path::new("/nowhere/x.svg"), "y", &plot, &mut report).unwrap_err();
        assert!(error.to_string().contains("/nowhere/x-y.svg cannot be written"), "{error}");
    }
}
