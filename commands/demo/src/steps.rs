//! The steps of the demo: each is named before it runs, has a bound, and is recorded whatever
//! becomes of it.
//!
//! A step is given a [`Deadline`] and keeps to it by itself. If it hangs all the same, in a call
//! that does not return, the watchdog ends the process, with the results until then and the exit
//! status of a failure. Ctrl-C does likewise.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::outcome::{Check, DemoError, LayerCount, Outcome, Verdict};

/// How long a step may take, if nothing else is said.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// How long after its bound a step is taken to hang: its last wait for an answer may be under way.
const GRACE: Duration = Duration::from_secs(15);
/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(200);
/// Columns for the names of steps.
const WIDTH: usize = 62;
/// Exit status of a process that a signal ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// When a step has to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(bound: Duration) -> Deadline {
        Deadline(Instant::now() + bound)
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// `wait`, cut to the time that is left.
    pub(crate) fn at_most(self, wait: Duration) -> Duration {
        wait.min(self.0.saturating_duration_since(Instant::now()))
    }
}

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Finding {
    expected: String,
    found: String,
    ok: bool,
}

impl Finding {
    /// `found` has to equal `expected`.
    pub(crate) fn compare<T: PartialEq + Display>(expected: T, found: T) -> Finding {
        Finding::judged(expected == found, expected.to_string(), found.to_string())
    }

    /// The step knows by itself whether this is well.
    pub(crate) fn judged(ok: bool, expected: String, found: String) -> Finding {
        Finding { expected, found, ok }
    }

    /// No other result was possible but an error.
    pub(crate) fn ok(found: impl Into<String>) -> Finding {
        Finding { expected: String::new(), found: found.into(), ok: true }
    }
}

/// Runs steps, shows them, and keeps their results.
pub(crate) struct Steps {
    shared: Arc<Shared>,
}

struct Shared {
    /// Steps are shown on standard error, and standard output gets JSON.
    json: bool,
    /// Removed when the process ends before the stack was stopped.
    control: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    running: Option<Running>,
    reported: bool,
}

struct Running {
    name: String,
    since: Instant,
    bound: Duration,
}

impl Steps {
    /// Begins without any step, and starts the watchdog. `control` is the control socket of the
    /// stacks that will run. To be called before other threads are started, since signals are taken
    /// over for all of them.
    pub(crate) fn begin(json: bool, control: PathBuf) -> Steps {
        let shared = Arc::new(Shared { json, control, state: Mutex::default() });
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        // Without it, a signal ends the process as usual.
        if signals.thread_block().is_ok() {
            let interrupted = Arc::clone(&shared);
            std::thread::spawn(move || {
                if signals.wait().is_ok() {
                    interrupted.end_early("interrupted", INTERRUPTED);
                }
            });
        }
        let watched = Arc::clone(&shared);
        std::thread::spawn(move || watched.watch());
        Steps { shared }
    }

    /// Shows a line on how the next steps are set up.
    pub(crate) fn say(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.shared.show(&format!("{line}\n"));
        self.shared.state().outcome.setup.push(line);
    }

    /// Runs a step within the usual bound. An error is a finding: the step failed.
    pub(crate) fn run(
        &mut self,
        name: &str,
        step: impl FnOnce(Deadline) -> Result<Finding, DemoError>,
    ) {
        self.run_within(BOUND, name, step);
    }

    /// Runs a step that may take as long as `bound`.
    pub(crate) fn run_within(
        &mut self,
        bound: Duration,
        name: &str,
        step: impl FnOnce(Deadline) -> Result<Finding, DemoError>,
    ) {
        self.attempt(bound, name, |deadline| step(deadline).map(|finding| ((), finding)));
    }

    /// Runs a step that makes something; `None` if it failed.
    pub(crate) fn attempt<T>(
        &mut self,
        bound: Duration,
        name: &str,
        step: impl FnOnce(Deadline) -> Result<(T, Finding), DemoError>,
    ) -> Option<T> {
        self.shared.start(name, bound);
        let (made, finding) = match step(Deadline::after(bound)) {
            Ok((made, finding)) => (Some(made), finding),
            Err(error) => (None, Finding::judged(false, String::new(), error.to_string())),
        };
        let ok = finding.ok;
        self.shared.end(&mut self.shared.state(), finding);
        made.filter(|_| ok)
    }

    /// Records that a step was left out because this machine cannot do it.
    pub(crate) fn skip(&mut self, name: &str, reason: impl Into<String>) {
        let (name, found) = (name.to_owned(), reason.into());
        let verdict = Verdict::Skipped;
        let check = Check { name, verdict, expected: String::new(), found, seconds: 0.0 };
        self.shared.show(&format!("  {:WIDTH$}  {}\n", check.name, check.verdict_line()));
        self.shared.state().outcome.checks.push(check);
    }

    /// Keeps the table of layers.
    pub(crate) fn keep_layers(&mut self, layers: Vec<LayerCount>) {
        self.shared.state().outcome.layers = layers;
    }

    /// Keeps the path of the picture.
    pub(crate) fn keep_picture(&mut self, path: String) {
        self.shared.state().outcome.picture = Some(path);
    }

    /// Prints the text after the steps. Fails when any step did.
    pub(crate) fn report(self) -> ExitCode {
        let mut state = self.shared.state();
        self.shared.report(&mut state);
        if state.outcome.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, name: &str, bound: Duration) {
        self.show(&format!("  {name:WIDTH$}  "));
        let running = Running { name: name.to_owned(), since: Instant::now(), bound };
        self.state().running = Some(running);
    }

    fn end(&self, state: &mut State, finding: Finding) {
        let Some(Running { name, since, .. }) = state.running.take() else { return };
        let verdict = if finding.ok { Verdict::Ok } else { Verdict::Failed };
        let Finding { expected, found, .. } = finding;
        let seconds = since.elapsed().as_secs_f64();
        let check = Check { name, verdict, expected, found, seconds };
        self.show(&format!("{}\n", check.verdict_line()));
        state.outcome.checks.push(check);
    }

    /// Shows progress. Nobody may read it any more (`weever demo | head`): the exit status still
    /// tells how the demo went.
    fn show(&self, text: &str) {
        fn put(mut to: impl Write, text: &str) -> std::io::Result<()> {
            to.write_all(text.as_bytes())?;
            to.flush()
        }
        drop(match self.json {
            true => put(std::io::stderr(), text),
            false => put(std::io::stdout(), text),
        });
    }

    fn report(&self, state: &mut State) {
        state.reported = true;
        let outcome = &mut state.outcome;
        outcome.ok = outcome.ended_early.is_none() && outcome.count(Verdict::Failed) == 0;
        self.show(&outcome.to_string());
        if self.json {
            let line = outcome.to_json() + "\n";
            drop(std::io::stdout().write_all(line.as_bytes()));
        }
    }

    /// Ends the demo when a step hangs.
    fn watch(&self) {
        loop {
            std::thread::sleep(LOOK);
            let overdue = |running: &Running| running.since.elapsed() > running.bound + GRACE;
            if self.state().running.as_ref().is_some_and(overdue) {
                self.end_early("the last step did not end", 1);
            }
        }
    }

    fn end_early(&self, why: &str, status: i32) {
        let mut state = self.state();
        if state.reported {
            return;
        }
        let found = why.to_owned();
        self.end(&mut state, Finding { expected: String::new(), found, ok: false });
        state.outcome.ended_early = Some(why.to_owned());
        self.report(&mut state);
        // The stack would have done that; its namespaces and devices end with the process.
        drop(std::fs::remove_file(&self.control));
        std::process::exit(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        Steps {
            shared: Arc::new(Shared { json: true, control: "".into(), state: Mutex::default() }),
        }
    }

    fn verdicts(steps: &Steps) -> Vec<Verdict> {
        steps.shared.state().outcome.checks.iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn an_error_or_another_finding_fails_a_step_and_the_next_ones_run() {
        let mut steps = steps();
        steps.run("equal", |_| Ok(Finding::compare(1, 1)));
        steps.run("unequal", |_| Ok(Finding::compare(1, 2)));
        steps.run("error", |_| Err(DemoError::start("no device")));
        steps.skip("skipped", "no namespaces");
        let made = steps.attempt(BOUND, "made", |_| Ok((7, Finding::ok("seven"))));
        assert_eq!(made, Some(7));
        use Verdict::{Failed, Ok as Well, Skipped};
        assert_eq!(verdicts(&steps), [Well, Failed, Failed, Skipped, Well]);
        let outcome = steps.shared.state().outcome.clone();
        assert!(outcome.checks[1].verdict_line().starts_with("FAILED   2, expected 1  ("));
        assert!(outcome.checks[2].verdict_line().starts_with("FAILED   no device  ("));
        assert_eq!(outcome.checks[3].verdict_line(), "skipped  no namespaces");
        let summary = outcome.to_string();
        assert!(summary.ends_with("steps: 2 ok, 2 FAILED, 1 skipped\n"), "{summary}");
        assert_eq!(steps.report(), ExitCode::FAILURE);
    }

    #[test]
    fn what_is_skipped_is_no_failure() {
        let mut steps = steps();
        steps.run("equal", |_| Ok(Finding::compare(1, 1)));
        steps.skip("skipped", "no namespaces");
        assert_eq!(steps.report(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_deadline_cuts_waits() {
        let over = Deadline::after(Duration::ZERO);
        assert!(over.is_over());
        assert_eq!(over.at_most(Duration::from_secs(5)), Duration::ZERO);
        let far = Deadline::after(Duration::from_secs(3600));
        assert!(!far.is_over());
        assert_eq!(far.at_most(Duration::from_secs(5)), Duration::from_secs(5));
    }
}
