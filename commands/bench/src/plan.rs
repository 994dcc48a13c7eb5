//! How often and how long.

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
        (0..self.rounds).take_while(move |_| {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
            now - started + longest <= AT_MOST
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planned_round_is_there_if_there_is_time() {
        let plan = Plan { rounds: 3, each: Duration::ZERO };
        assert_eq!(plan.rounds().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
