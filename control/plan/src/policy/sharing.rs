//! Several workers on one receive queue: if a policy wants that, which flows are kept out of it, and when the loads
//! of the queues ask for it.
//!
//! While workers share, all packets that no filter takes come by the default queue; else they are spread by their hash.
//! A filter leads to the socket of one worker (design/0028), and that of the default queue is the shared one.

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::flow::ClassId;
use crate::map::Placement;

/// Whether several workers receive from one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharingMode {
    /// Spread by their hash, with a worker for each queue.
    #[default]
    ScaleOut,
    /// At one queue, with several workers.
    Shared,
    /// At one queue while the loads of several diverge: [`Divergence`].
    Auto,
}

/// How a policy wants packets to be received that no filter takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// When several workers share a queue.
    pub mode: SharingMode,
    /// How many then do; `None`: all that unregistered traffic may reach.
    pub threads: Option<u16>,
    /// Whether they send packets in the order in which these came.
    pub ordered: bool,
}

/// Rejects flows of these classes at the queue that workers share, where they might overtake each other.
#[derive(Clone, Debug)]
pub struct InOrder {
    classes: Vec<(ClassId, String)>,
    /// `None` while there is a single queue, and so a single worker.
    shared: Option<u32>,
    there: u64,
}

impl InOrder {
    /// The classes, with their names.
    pub fn new(classes: Vec<(ClassId, String)>) -> InOrder {
        InOrder { classes, shared: None, there: 0 }
    }

    fn name_of(&self, subject: &Subject) -> Option<&str> {
        let (_, name) = self.classes.iter().find(|(class, _)| Some(*class) == subject.class)?;
        Some(name)
    }

    fn breaks(&self, subject: &Subject, placement: &Placement) -> bool {
        let is_there = self.shared.is_some_and(|queue| placement.reaches(queue));
        is_there && self.name_of(subject).is_some()
    }
}

impl Policy for InOrder {
    fn start(&mut self, queues: &QueueSet, default_queue: u32) {
        self.shared = (queues.iter().nth(1).is_some()).then_some(default_queue);
        self.there = 0;
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        if self.breaks(subject, placement) {
            match change {
                Change::Comes => self.there += 1,
                Change::Goes => self.there -= 1,
            }
        }
    }

    fn cost(&self) -> Cost {
        Cost::reject(self.there, 0.0)
    }

    fn is_at_best(&self) -> bool {
        self.there == 0
    }

    fn objection(&self, subject: &Subject, placement: &Placement) -> Option<String> {
        let name = self.name_of(subject).filter(|_| self.breaks(subject, placement))?;
        let queue = self.shared?;
        Some(format!("class `{name}` is `ordered`, and workers may share queue {queue}"))
    }

    fn complaints(&self) -> Vec<String> {
        let Some(queue) = self.shared.filter(|_| self.there > 0) else { return Vec::new() };
        let n = self.there;
        vec![format!("{n} flows of `ordered` classes reach queue {queue}, which workers may share")]
    }
}

/// Counts are compared after so many nanoseconds.
const PERIOD: u64 = 100_000_000;
/// Fewer packets in a period are no load for one worker.
const FEW: u64 = 1000;
/// Periods for which loads must diverge before workers share.
const BEGIN_AFTER: u64 = 2;
/// Periods after which it is tried without: the shortest, and the longest, if loads diverge each time.
const HOLD: u64 = 10;
const LONGEST_HOLD: u64 = 320;

/// Whether one queue has so much more load than the others that workers should share one.
///
/// A load is the number of packets that come by a queue. Sharing begins when a queue has more than one and a half
/// times the mean load. While one queue has all packets, nothing tells whether they would spread well: so it ends
/// after a second, and if loads diverge again at once, after twice as long the next time, up to 32 seconds. It
/// also ends when there is next to no load.
#[derive(Clone, Debug, Default)]
pub struct Divergence {
    last: Option<(u64, Vec<u64>)>,
    is_shared: bool,
    /// Periods in this state; without sharing also those in a row in which loads diverged.
    periods: u64,
    diverged: u64,
    hold: u64,
}

impl Divergence {
    /// Whether workers should share from now on. `arrived` are the packets so far by queue; `now` is in nanoseconds.
    /// Counts of less than a period ago are not looked at.
    pub fn step(&mut self, now: u64, arrived: &[u64]) -> bool {
        let Some((then, before)) = &self.last else {
            self.last = Some((now, arrived.to_vec()));
            return self.is_shared;
        };
        let periods = now.saturating_sub(*then) / PERIOD;
        if periods == 0 {
            return self.is_shared;
        }
        let fresh = arrived.iter().zip(before).map(|(now, before)| now.saturating_sub(*before));
        let fresh: Vec<u64> = fresh.collect();
        self.last = Some((now, arrived.to_vec()));
        let (total, queues) = (fresh.iter().sum::<u64>(), fresh.len() as u64);
        let most = fresh.iter().copied().max().unwrap_or_default();
        let is_load = total >= FEW * periods;
        self.periods += periods;
        if self.is_shared {
            if !is_load || self.periods >= self.hold {
                (self.is_shared, self.periods, self.diverged) = (false, 0, 0);
            }
            return self.is_shared;
        }
        // Three halves of the mean.
        let diverges = is_load && most.saturating_mul(queues * 2) > total.saturating_mul(3);
        self.diverged = if diverges { self.diverged + periods } else { 0 };
        if self.diverged >= BEGIN_AFTER {
            let is_back = self.hold > 0 && self.periods < HOLD;
            self.hold = if is_back { (2 * self.hold).min(LONGEST_HOLD) } else { HOLD };
            (self.is_shared, self.periods) = (true, 0);
        }
        self.is_shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps with so many more packets in each period; the periods in which workers share.
    fn run(rule: &mut Divergence, at: &mut (u64, Vec<u64>), each: &[u64], periods: u32) -> u32 {
        let mut shared = 0;
        for _ in 0..periods {
            at.0 += PERIOD;
            at.1.resize(each.len(), 0);
            at.1.iter_mut().zip(each).for_each(|(sum, n)| *sum += n);
            shared += u32::from(rule.step(at.0, &at.1));
        }
        shared
    }

    fn new() -> (Divergence, (u64, Vec<u64>)) {
        let mut rule = Divergence::default();
        assert!(!rule.step(0, &[0; 2]));
        (rule, (0, vec![0; 2]))
    }

    #[test]
    fn sharing_begins_when_loads_diverge_and_ends_after_a_second() {
        let (mut rule, mut at) = new();
        assert_eq!(run(&mut rule, &mut at, &[5000, 5000], 20), 0);
        assert_eq!(run(&mut rule, &mut at, &[7400, 2600], 20), 0, "less than one and a half");
        assert_eq!(run(&mut rule, &mut at, &[2000, 8000], 1), 0, "it may pass");
        assert_eq!(run(&mut rule, &mut at, &[5000, 5000], 1), 0);
        assert_eq!(run(&mut rule, &mut at, &[2000, 8000], 2), 1, "in the second period");
        assert_eq!(
            run(&mut rule, &mut at, &[10_000, 0], 9),
            9,
            "one queue has all while it is shared"
        );
        assert_eq!(run(&mut rule, &mut at, &[5000, 5000], 30), 0);
    }

    #[test]
    fn loads_that_go_on_diverging_are_tried_ever_less_often() {
        let (mut rule, mut at) = new();
        let shared = run(&mut rule, &mut at, &[9000, 1000], 2000);
        assert!(shared > 1900, "{shared}");
        assert_eq!(rule.hold, LONGEST_HOLD);
        assert!(run(&mut rule, &mut at, &[5000, 5000], 400) <= 320);
        run(&mut rule, &mut at, &[9000, 1000], 2);
        assert_eq!(rule.hold, HOLD, "after a time without it begins anew");
    }

    #[test]
    fn what_one_worker_does_in_passing_is_not_shared() {
        let (mut rule, mut at) = new();
        assert_eq!(run(&mut rule, &mut at, &[FEW - 1, 0], 20), 0);
        assert_eq!(run(&mut rule, &mut at, &[FEW, 0], 5), 4);
        assert_eq!(run(&mut rule, &mut at, &[10, 0], 20), 0, "the load has gone");
    }

    #[test]
    fn a_late_look_counts_for_the_time_that_passed() {
        let (mut rule, _) = new();
        for second in 1..10 {
            let few = (FEW - 1) * 10 * second;
            assert!(!rule.step(second * 10 * PERIOD, &[few, 0]), "{second}");
        }
    }
}
