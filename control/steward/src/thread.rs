//! When stewards work.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest time that a new flow waits to be looked at while there is little to do.
const PERIOD: Duration = Duration::from_millis(20);
/// Work uses at most one part in this many of the thread's time.
const MAX_DUTY: u32 = 10;

/// How long a steward pauses after a step that worked for so long and then waited for its receivers:
/// at most a tenth of the thread's time is work.
pub fn pause_after(worked: Duration, waited: Duration) -> Duration {
    PERIOD.max(MAX_DUTY * worked + waited)
}

/// A thread that steps stewards. Dropping it ends the thread.
pub struct StewardThread {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl StewardThread {
    /// Starts a thread that calls `step` again and again. It returns how long it waited for receivers
    /// ([`Steward::take_receivers_time`](crate::Steward::take_receivers_time)).
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub fn start(mut step: impl FnMut() -> Duration + Send + 'static) -> io::Result<StewardThread> {
        let stop = Arc::<(Mutex<bool>, Condvar)>::default();
        let stopped = Arc::clone(&stop);
        let run = move || loop {
            let began = Instant::now();
            let waited = step();
            let pause = pause_after(began.elapsed().saturating_sub(waited), waited);
            let (stopped, changed) = &*stopped;
            let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
            let result = changed.wait_timeout_while(stopped, pause, |stopped| !*stopped);
            if *result.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        };
        let thread = thread::Builder::new().name("steward".into()).spawn(run)?;
        Ok(StewardThread { stop, thread: Some(thread) })
    }
}

impl Drop for StewardThread {
    fn drop(&mut self) {
        let (stopped, changed) = &*self.stop;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the thread; changes to devices stay until their targets are
            // dropped.
            drop(thread.join());
        }
    }
}
