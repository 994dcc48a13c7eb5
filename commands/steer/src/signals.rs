//! Signals that end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::SteerError;

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Says when a signal has come.
#[derive(Clone, Debug)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Takes the signals over from now on. A second one ends the process at once.
    pub(crate) fn watch() -> Result<StopFlag, SteerError> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().map_err(|e| SteerError::Signals(e.into()))?;
        let ending = StopFlag(Arc::default());
        let (told, waiter) = (ending.clone(), thread::current());
        let watch = move || told.wait_for(&signals, &waiter);
        let started = thread::Builder::new().name("signals".into()).spawn(watch);
        started.map(|_| ending).map_err(SteerError::Signals)
    }

    fn wait_for(&self, signals: &SigSet, waiter: &Thread) {
        if signals.wait().is_ok() {
            self.0.store(true, Ordering::Release);
            waiter.unpark();
        }
        if signals.wait().is_ok() {
            std::process::exit(INTERRUPTED);
        }
    }

    /// Sleeps for so long, or until a signal comes; says whether one came.
    pub(crate) fn within(&self, time: Duration) -> bool {
        if !self.0.load(Ordering::Acquire) {
            thread::park_timeout(time);
        }
        self.0.load(Ordering::Acquire)
    }
}
