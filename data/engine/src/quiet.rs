//! A pause in reception, until nothing is under way between the workers of a team.
//!
//! A change of the graph may change the way that packets of a flow take: through another worker, or no longer
//! through it. Packets that are under way on the old way would arrive after later ones that take the new way. So
//! workers receive nothing while the graph changes in this way, and devices keep what arrives.
//!
//! The workers have come to rest when each has reported twice that it has nothing to do, with the same numbers of
//! messages sent and received, as many of one as of the other (Mattern 1987, the four counter method).

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The state of a worker at the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Turns since the pause began.
    pub(crate) turns: u64,
    /// Whether it has no task to run, and no message to take or to send.
    pub(crate) idle: bool,
    /// Messages to other workers so far, and from them.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The pause of a team.
#[derive(Debug)]
pub(crate) struct Quiet {
    wanted: AtomicBool,
    pause: Mutex<Pause>,
}

#[derive(Debug)]
struct Pause {
    reports: Vec<Report>,
    /// The time at which it ends. Workers know it, since the thread that began the pause may not
    /// run in time.
    until: Option<Instant>,
}

impl Quiet {
    pub(crate) fn new(workers: usize) -> Quiet {
        let reports = vec![Report::default(); workers];
        let pause = Mutex::new(Pause { reports, until: None });
        Quiet { wanted: AtomicBool::new(false), pause }
    }

    fn lock(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker is to receive nothing, and to report.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire) && self.lasts()
    }

    #[cold]
    fn lasts(&self) -> bool {
        self.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// Called by a worker at the end of each turn of the pause.
    #[cold]
    pub(crate) fn report(&self, worker: usize, report: Report) {
        if let Some(last) = self.lock().reports.get_mut(worker) {
            *last = Report { turns: last.turns + 1, ..report };
        }
    }

    /// Begins a pause that ends at this time, unless [`Quiet::end`] ends it before.
    pub(crate) fn begin(&self, until: Instant) {
        let mut pause = self.lock();
        pause.reports.fill(Report::default());
        pause.until = Some(until);
        drop(pause);
        self.wanted.store(true, Release);
    }

    pub(crate) fn end(&self) {
        self.wanted.store(false, Release);
    }

    pub(crate) fn watch(&self) -> QuietWatch<'_> {
        QuietWatch { quiet: self, before: None }
    }
}

/// Notices when the workers have come to rest.
#[derive(Debug)]
pub(crate) struct QuietWatch<'a> {
    quiet: &'a Quiet,
    /// The first reports of workers that seemed to be at rest.
    before: Option<Vec<Report>>,
}

impl QuietWatch<'_> {
    /// Whether nothing is under way. Called again and again, after the workers have been woken.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = self.quiet.lock().reports.clone();
        let all_idle = now.iter().all(|report| report.turns > 0 && report.idle);
        let sum = |of: fn(&Report) -> u64| now.iter().map(of).sum::<u64>();
        if !all_idle || sum(|report| report.sent) != sum(|report| report.received) {
            self.before = None;
            return false;
        }
        let Some(before) = &self.before else {
            self.before = Some(now);
            return false;
        };
        let mut pairs = before.iter().zip(&now);
        if !pairs.clone().all(|(before, now)| now.turns > before.turns) {
            return false;
        }
        let counts = |report: &Report| (report.sent, report.received);
        let same = pairs.all(|(before, now)| counts(before) == counts(now));
        self.before = Some(now);
        same
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn a_pause_ends_by_itself() {
        let quiet = Quiet::new(1);
        quiet.begin(far());
        assert!(quiet.is_wanted());
        quiet.begin(Instant::now());
        assert!(!quiet.is_wanted(), "nobody has ended it, but its time is over");
        quiet.begin(far());
        quiet.end();
        assert!(!quiet.is_wanted());
    }

    #[test]
    fn a_message_under_way_is_noticed_although_all_reported_that_they_are_idle() {
        let quiet = Quiet::new(2);
        quiet.begin(far());
        let mut watch = quiet.watch();
        let report = |worker, idle, sent, received| {
            quiet.report(worker, Report { turns: 0, idle, sent, received });
        };
        assert!(!watch.is_over(), "nobody has reported");
        report(0, true, 7, 3);
        report(1, true, 3, 6);
        assert!(!watch.is_over(), "a message is in a ring");
        report(1, false, 3, 7);
        assert!(!watch.is_over(), "it has a task");
        report(1, true, 3, 7);
        assert!(!watch.is_over(), "it may have sent one since");
        report(1, true, 3, 7);
        assert!(!watch.is_over(), "the other one, too");
        report(0, true, 7, 3);
        assert!(watch.is_over());
        quiet.end();
    }

    #[test]
    fn a_worker_that_was_woken_by_an_old_message_is_noticed_in_the_second_round() {
        let quiet = Quiet::new(2);
        quiet.begin(far());
        let mut watch = quiet.watch();
        let report = |worker, sent, received| {
            quiet.report(worker, Report { turns: 0, idle: true, sent, received });
        };
        report(0, 1, 1);
        report(1, 1, 1);
        assert!(!watch.is_over());
        report(0, 2, 1);
        report(1, 1, 2);
        assert!(!watch.is_over(), "one more went to and fro");
        report(0, 2, 1);
        assert!(!watch.is_over());
        report(1, 1, 2);
        assert!(watch.is_over());
    }
}
