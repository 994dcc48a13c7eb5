//! Two threads with the heavy work, shared against a queue each: throughput under skewed load, and latency at rates below
//! it, as [`pairs`](super::pairs) of runs by threads with real-time priority. In memory, and by AF_XDP
//! ([`veth`](super::veth)).

use std::time::Duration;

use super::calm::RealTime;
use super::gateway::Work;
use super::pairs::Pairs;
use super::queue::Spread;
use super::team::{Servers, Team};
use super::veth::Cables;
use crate::samples::{Plan, Samples};
use crate::{BenchError, Report};

/// The time of an encrypted packet where threads are compared at a rate: long compared with a tick of the
/// kernel's clock.
pub(super) const LONG: Duration = Duration::from_micros(50);
/// The pause after each pair, in which other threads run that wait while these have real-time priority.
const REST: Duration = Duration::from_millis(10);

/// How the threads receive, as names in the report say it.
struct Place {
    name: &'static str,
    key: &'static str,
    about: &'static str,
    /// Packets of a run, and pairs of runs in each round.
    packets: u64,
    pairs: u64,
}

const MEMORY: Place = Place {
    name: "",
    key: "",
    about: "queues in memory, which the thread that polls fills",
    packets: if cfg!(test) { 400 } else { 4_000 },
    pairs: if cfg!(test) { 1 } else { 8 },
};
const XDP: Place = Place {
    name: "AF_XDP, ",
    key: "xdp_",
    about: "AF_XDP, a veth pair between two namespaces; the thread that polls also sends due packets at the other end, \
            1 µs each",
    packets: if cfg!(test) { 200 } else { 2_000 },
    pairs: if cfg!(test) { 1 } else { 4 },
};

/// Both sides at full load, and at rates below it.
pub(super) struct Rated<S> {
    servers: S,
    place: Place,
    throughput: Samples,
    skewed: Pairs,
    even: Pairs,
    is_real_time: bool,
}

impl Rated<Team> {
    pub(super) fn in_memory() -> Result<Rated<Team>, BenchError> {
        Ok(Rated::new(Team::new(Work::heavy(LONG)?, 2)?, MEMORY))
    }
}

impl Rated<Cables> {
    /// Needs root.
    pub(super) fn by_xdp() -> Result<Rated<Cables>, BenchError> {
        Ok(Rated::new(Cables::new(Work::heavy(LONG)?)?, XDP))
    }
}

impl<S: Servers> Rated<S> {
    fn new(servers: S, place: Place) -> Rated<S> {
        let pairs = |what, spread, load| {
            Pairs::new(format!("{}{what}", place.name), spread, load, place.packets)
        };
        let skewed = pairs("skewed, load 0.7", Spread::Skewed, 0.7);
        let even = pairs("even, load 0.8", Spread::Even, 0.8);
        let throughput = Samples::default();
        Rated { servers, place, throughput, skewed, even, is_real_time: false }
    }

    pub(super) fn round(&mut self, round: usize) -> Result<(), BenchError> {
        let real_time = RealTime::for_measuring();
        self.is_real_time = real_time.is_some();
        let Rated { servers, place, throughput, skewed, even, .. } = self;
        let mut seconds = |is_shared| -> Result<f64, BenchError> {
            let full = (place.packets, 0.0);
            Ok(servers.serve(is_shared, Spread::Skewed, full, 0)?.0.seconds)
        };
        let (shared, apart) = (seconds(true)?, seconds(false)?);
        throughput.push(apart / shared);
        for pair in 0..place.pairs {
            let seed = round as u64 * place.pairs + pair;
            let busy = servers.busy()?;
            for pairs in [&mut *even, &mut *skewed] {
                pairs.round(servers, busy, seed)?;
                std::thread::sleep(REST);
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, report: &mut Report) {
        let Place { key, about, packets, .. } = &self.place;
        let priority =
            if self.is_real_time { "with real-time priority" } else { "with the usual priority" };
        report.setup(format!(
            "at a rate: {about}; threads {priority}; encrypting takes {LONG:?}; pairs of runs with the same {packets} arrivals"
        ));
        report.setup(
            "ratios at a rate: the median of pairs, with its confidence interval of 95 % as min and max",
        );
        self.even.report(report);
        self.skewed.report(report);
        let mut ratio = |what, samples: &Samples| {
            report.ratio(&format!("{key}{what}_shared_vs_scaleout"), "ratio", samples);
        };
        ratio("skew_tput", &self.throughput);
        ratio("skew_p99", &self.skewed.p99_ratio());
        ratio("balanced_p99", &self.even.p99_ratio());
    }
}

/// Measures by AF_XDP. Needs root. Blocks for up to a minute.
pub(super) fn measure_xdp(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let mut rated = Rated::by_xdp()?;
    plan.rounds().try_for_each(|round| rated.round(round))?;
    rated.report(report);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_over_a_cable_has_every_figure() {
        if !weever_testbed::privileged() {
            return println!("skipped: needs CAP_NET_ADMIN");
        }
        let mut rated = Rated::new(Cables::new(Work::Heavy(1)).unwrap(), XDP);
        rated.round(0).unwrap();
        let mut report = Report::new("any");
        rated.report(&mut report);
        for key in ["skew_tput", "skew_p99", "balanced_p99"] {
            let value = report.ratios[&format!("xdp_{key}_shared_vs_scaleout")];
            assert!(value.is_finite() && value > 0.0, "{key}: {report}");
        }
    }
}
