//! Rounds, their samples and the summary of them.
//!
//! In each round every contender runs once and leaves one sample; a ratio is taken round by round, so that
//! a machine whose speed drifts does not bend it.

use std::time::{Duration, Instant};

/// A benchmark ends after this long, even if that makes it fewer rounds than planned: on a machine
/// that has other work a round may take several times as long as on an idle one.
const AT_MOST: Duration = Duration::from_secs(45);

/// How many rounds, and how long each contender is measured in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) each: Duration,
}

impl Plan {
    /// The rounds, by number. There is at least one, and none begins that would end too late if it
    /// took as long as the longest so far.
    pub(crate) fn rounds(self) -> impl Iterator<Item = usize> {
        let started = Instant::now();
        let (mut last, mut longest) = (started, Duration::ZERO);
        (0..self.rounds).take_while(move |round| {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
            *round == 0 || now - started + longest <= AT_MOST
        })
    }
}

/// The results of one contender. Sample `i` was taken in round `i`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(pub Vec<f64>);

/// Median and spread of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample; of an even number, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Samples {
    /// Adds the sample of the next round.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Median and spread; zeros when there are no samples.
    pub fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return Summary { median: 0.0, min: 0.0, max: 0.0 };
        }
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Summary { median, min: sorted[0], max: sorted[n - 1] }
    }

    /// By how much more than `peer` in each round.
    #[must_use]
    pub fn above(&self, peer: &Samples) -> Samples {
        Samples(self.0.iter().zip(&peer.0).map(|(own, peer)| own - peer).collect())
    }

    /// The rounds' ratios to `peer`. Rounds in which the peer got nothing done are left out.
    #[must_use]
    pub fn ratio(&self, peer: &Samples) -> Samples {
        let pairs = self.0.iter().zip(&peer.0).filter(|(_, p)| **p > 0.0);
        Samples(pairs.map(|(own, peer)| own / peer).collect())
    }
}

/// The value that a share of all values does not exceed; nothing if there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::{quantile, *};

    #[test]
    fn every_planned_round_is_there_if_there_is_time() {
        let plan = Plan { rounds: 3, each: Duration::ZERO };
        assert_eq!(plan.rounds().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn median_of_odd_and_even() {
        assert_eq!(Samples(vec![3.0, 1.0, 2.0]).summary().median, 2.0);
        assert_eq!(Samples(vec![4.0, 1.0, 2.0, 3.0]).summary().median, 2.5);
        assert_eq!(Samples::default().summary().median, 0.0);
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // A machine that slows to half in round two: the quotient of medians would say 1.5.
        let own = Samples(vec![4.0, 2.0, 2.0]);
        let peer = Samples(vec![2.0, 1.0, 1.0]);
        let ratio = own.ratio(&peer).summary();
        assert_eq!((ratio.median, ratio.min, ratio.max), (2.0, 2.0, 2.0));
    }

    #[test]
    fn a_silent_peer_is_left_out() {
        assert_eq!(Samples(vec![1.0, 2.0]).ratio(&Samples(vec![0.0, 1.0])).0, vec![2.0]);
    }

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(
            [0.5, 0.99, 1.0].map(|share| quantile(&values, share)),
            [50.0, 99.0, 99.0].map(Some)
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
