//! One contender's results, a sample per round.

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

    /// The rounds' ratios to `peer`. Rounds in which the peer got nothing done are left out.
    #[must_use]
    pub fn ratio(&self, peer: &Samples) -> Samples {
        let pairs = self.0.iter().zip(&peer.0).filter(|(_, p)| **p > 0.0);
        Samples(pairs.map(|(own, peer)| own / peer).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
