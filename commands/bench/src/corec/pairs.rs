//! Two threads at a rate, on one queue and with a queue each, with the same arrivals: the latencies of both sides,
//! and their ratio with its confidence interval.
//!
//! A pair is two short runs, one right after the other, so that a drift of the machine's speed affects both alike.
//! Of all pairs the half counts in which the threads lost the least time; this choice does not depend on latencies,
//! and treats both sides alike. The ratio is the median of the pairs' ratios, with the interval in which 95 of 100
//! medians of pairs drawn from these lie (bootstrap).

use super::queue::Spread;
use super::team::{Outcome, Servers};
use super::virtual_time::Latencies;
use crate::samples::Samples;
use crate::{BenchError, Report};

/// Draws of the bootstrap.
const DRAWS: usize = 2000;

/// One run of each kind.
struct Pair {
    sides: [Side; 2],
    /// Nanoseconds that the threads of both runs lost.
    lost: u64,
}

struct Side {
    latencies: Vec<f64>,
    rate: f64,
}

/// All pairs of one load.
pub(super) struct Pairs {
    pub(super) name: String,
    spread: Spread,
    pub(super) load: f64,
    packets: u64,
    all: Vec<Pair>,
    dropped: [u64; 2],
}

/// The kinds of runs, by their places.
pub(super) const SIDES: [&str; 2] = ["shared", "a queue each"];

impl Pairs {
    /// Runs of so many packets, at this part of the throughput of two threads that share a queue.
    pub(super) fn new(name: impl Into<String>, spread: Spread, load: f64, packets: u64) -> Pairs {
        Pairs { name: name.into(), spread, load, packets, all: Vec::new(), dropped: [0; 2] }
    }

    /// Another pair. `busy` is the mean time between packets at full load, in nanoseconds. Both sides get the arrivals
    /// of one seed.
    pub(super) fn round(
        &mut self,
        servers: &mut impl Servers,
        busy: f64,
        seed: u64,
    ) -> Result<(), BenchError> {
        // Neither side is always the first.
        let order = if seed.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        let (mut sides, mut lost) = ([None, None], 0);
        for side in order {
            let load = (self.packets, busy / self.load);
            let (outcome, dropped) = servers.serve(side == 0, self.spread, load, seed)?;
            let Outcome { latencies, seconds, lost: of_run, .. } = outcome;
            let rate = latencies.len() as f64 / seconds / 1e6;
            sides[side] = Some(Side { latencies, rate });
            lost += of_run;
            self.dropped[side] += dropped;
        }
        if let [Some(shared), Some(apart)] = sides {
            self.all.push(Pair { sides: [shared, apart], lost });
        }
        Ok(())
    }

    /// The half of the pairs that lost the least time.
    fn calm(&self) -> Vec<&Pair> {
        let mut all: Vec<&Pair> = self.all.iter().collect();
        all.sort_by_key(|pair| pair.lost);
        all.truncate(all.len().div_ceil(2));
        all
    }

    /// A value of each calm run of a side.
    pub(super) fn of(&self, side: usize, what: fn(Latencies) -> f64) -> Samples {
        let value = |pair: &Pair| what(Latencies::of(&pair.sides[side].latencies)) / 1e3;
        Samples(self.calm().into_iter().map(value).collect())
    }

    /// Millions of packets a second in each calm run of a side.
    pub(super) fn rates(&self, side: usize) -> Samples {
        Samples(self.calm().into_iter().map(|pair| pair.sides[side].rate).collect())
    }

    /// Shared : a queue each, of the 99th percentile: the median, between the ends of its interval of 95 %.
    pub(super) fn p99_ratio(&self) -> Samples {
        interval(&self.of(0, |all| all.p99).ratio(&self.of(1, |all| all.p99)))
    }

    /// The latencies in µs of all calm runs of a side, each with the share of packets whose latency
    /// was not higher.
    pub(super) fn distribution(&self, side: usize) -> Vec<(f64, f64)> {
        let all = self.calm().into_iter().flat_map(|pair| pair.sides[side].latencies.iter());
        distribution(&all.copied().collect::<Vec<_>>())
    }

    pub(super) fn report(&self, report: &mut Report) {
        for (side, name) in SIDES.into_iter().enumerate() {
            let mut row = |what, of: fn(Latencies) -> f64| {
                report.row(&format!("{}, {name}: {what}", self.name), "µs", &self.of(side, of));
            };
            row("mean", |all| all.mean);
            row("p99", |all| all.p99);
            row("p99.9", |all| all.p999);
            report.row(&format!("{}, {name}: rate", self.name), "Mpps", &self.rates(side));
        }
        let tail = self.of(0, |all| all.p999).ratio(&self.of(1, |all| all.p999));
        for (what, ratios) in [("p99.9", tail), ("rate", self.rates(0).ratio(&self.rates(1)))] {
            let name = format!("{}, shared : a queue each: {what}", self.name);
            report.row(&name, "ratio", &interval(&ratios));
        }
        let [shared, apart] = self.dropped;
        let lost = |pair: Option<&Pair>| pair.map_or(0.0, |pair| pair.lost as f64 / 1e3);
        let calm = self.calm();
        report.setup(format!(
            "{}: {} of {} pairs count, in which threads lost {:.0} to {:.0} µs (all: up to {:.0} µs); no room for \
             {shared} packets when shared, for {apart} with a queue each",
            self.name,
            calm.len(),
            self.all.len(),
            lost(calm.first().copied()),
            lost(calm.last().copied()),
            lost(self.all.iter().max_by_key(|pair| pair.lost)),
        ));
    }
}

/// Of latencies in nanoseconds, a hundred points, denser at the upper end.
pub(super) fn distribution(latencies: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = latencies.to_vec();
    sorted.sort_by(f64::total_cmp);
    let shares =
        (1..90).map(|n| f64::from(n) / 100.0).chain((900..1000).map(|n| f64::from(n) / 1e3));
    let at = |share: f64| {
        let place = (sorted.len() as f64 * share) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).map(|ns| (ns / 1e3, share))
    };
    shares.filter_map(at).collect()
}

/// The median of samples, between the ends of its interval.
pub(super) fn interval(samples: &Samples) -> Samples {
    let Samples(values) = samples;
    if values.is_empty() {
        return Samples::default();
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut draw = || {
        let drawn = values.iter().map(|_| values[random.usize(..values.len())]).collect();
        Samples(drawn).summary().median
    };
    let mut medians: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    medians.sort_by(f64::total_cmp);
    let (low, high) = (medians[DRAWS / 40], medians[DRAWS - 1 - DRAWS / 40]);
    Samples(vec![low, samples.summary().median, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(shared: f64, apart: f64, lost: u64) -> Pair {
        let side = |latency: f64| Side { latencies: vec![latency * 1e3; 200], rate: 1.0 };
        Pair { sides: [side(shared), side(apart)], lost }
    }

    #[test]
    fn the_pairs_that_lost_time_do_not_count() {
        let mut pairs = Pairs::new("any", Spread::Even, 0.8, 200);
        pairs.all.extend((0..20).map(|n| pair(8.0, 10.0, n)));
        pairs.all.extend((0..20).map(|n| pair(9000.0, 10.0, 1_000_000 + n)));
        let ratio = pairs.p99_ratio().summary();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.8, 0.8, 0.8));
        assert_eq!(pairs.of(0, |all| all.mean).summary().max, 8.0);
        assert!(pairs.distribution(0).iter().all(|(us, _)| *us == 8.0));
        let mut report = Report::new("any");
        pairs.report(&mut report);
        assert!(report.to_string().contains("20 of 40 pairs"), "{report}");
        for (what, ratio) in [("p99.9", 0.8), ("rate", 1.0)] {
            let name = format!("any, shared : a queue each: {what}");
            let row = report.rows.iter().find(|row| row.name == name).unwrap();
            assert_eq!((row.min, row.median, row.max), (ratio, ratio, ratio));
        }
    }

    #[test]
    fn an_interval_is_about_the_median_and_narrows() {
        let of = |count: usize| {
            let values = (0..count).map(|n| 0.5 + (n % 100) as f64 / 100.0).collect();
            let summary = interval(&Samples(values)).summary();
            assert!(summary.min <= summary.median && summary.median <= summary.max);
            assert!((summary.median - 1.0).abs() < 0.1, "{summary:?}");
            summary.max - summary.min
        };
        assert!(of(1000) < of(100) && of(100) < 0.5);
        assert_eq!(interval(&Samples::default()), Samples::default());
    }

    #[test]
    fn a_distribution_rises_to_the_largest() {
        let points = distribution(&(0..10_000).rev().map(f64::from).collect::<Vec<_>>());
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        assert_eq!(points[49], (5.0, 0.5));
        assert_eq!(distribution(&[]), []);
    }
}
