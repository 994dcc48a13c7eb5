//! One side of a comparison: a thread on the contender's core that handles the load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weever_testbed::{Namespace, pin_to};

use crate::BenchError;
use crate::rig::Rig;

/// How long a contender may take to get ready: a queue that was just closed is in use for a while.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before a measurement: long enough for caches, branch predictors and rings to fill.
const WARM_UP: Duration = Duration::from_millis(150);

/// The state shared by the contender's thread and the measuring one.
#[derive(Default)]
pub(crate) struct Gate {
    /// The contender's loop ends when this is set.
    pub(crate) stop: AtomicBool,
    ready: AtomicBool,
    handled: AtomicU64,
    source: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
}

impl Gate {
    /// The contender is set up, and will count its packets by [`add`](Self::add).
    pub(crate) fn open(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// The contender is set up, and `source` counts the packets it has handled.
    pub(crate) fn open_with(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        let first = self.source.set(Box::new(source));
        debug_assert!(first.is_ok(), "a contender opens its gate once");
        self.open();
    }

    pub(crate) fn running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Counts packets. Only the contender's thread calls it, so a store will do.
    pub(crate) fn add(&self, packets: usize) {
        let before = self.handled.load(Ordering::Relaxed);
        self.handled.store(before + packets as u64, Ordering::Relaxed);
    }

    fn handled(&self) -> u64 {
        match self.source.get() {
            Some(source) => source(),
            None => self.handled.load(Ordering::Relaxed),
        }
    }
}

/// A running contender. Dropping it stops it, without asking how it went.
pub(crate) struct Contender {
    gate: Arc<Gate>,
    thread: Option<JoinHandle<Result<(), BenchError>>>,
}

impl Contender {
    /// Starts `body` on the contender's core and in its namespace, and waits until it is ready.
    pub(crate) fn start(
        rig: &Rig,
        body: impl FnOnce(&Gate) -> Result<(), BenchError> + Send + 'static,
    ) -> Result<Contender, BenchError> {
        Contender::start_in(rig.host(), rig.contender_core, body)
    }

    /// The same in any namespace, on any core.
    pub(crate) fn start_in(
        namespace: &Namespace,
        core: usize,
        body: impl FnOnce(&Gate) -> Result<(), BenchError> + Send + 'static,
    ) -> Result<Contender, BenchError> {
        let gate = Arc::new(Gate::default());
        let shared = gate.clone();
        let thread = namespace.spawn("contender", move || {
            pin_to(core).map_err(BenchError::of("contender"))?;
            body(&shared)
        });
        let thread = thread.map_err(BenchError::of("contender"))?;
        let mut contender = Contender { gate, thread: Some(thread) };
        contender.wait_until_ready()?;
        Ok(contender)
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        while !self.gate.ready.load(Ordering::Acquire) {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                self.join()?;
                return Err(BenchError::of("contender")("it ended before it began"));
            }
            if Instant::now() > deadline {
                return Err(BenchError::of("contender")("it did not get ready"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Millions of packets per second that the contender itself counts, over `during`.
    pub(crate) fn rate(&self, during: Duration) -> f64 {
        rate(during, || Ok(self.gate.handled())).unwrap_or(0.0)
    }

    /// Stops the contender and says how it went.
    pub(crate) fn finish(mut self) -> Result<(), BenchError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), BenchError> {
        self.gate.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(BenchError::of("contender")("its thread panicked")))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        drop(self.join());
    }
}

/// Millions per second by which `count` grows over `during`, after warming up.
pub(crate) fn rate(
    during: Duration,
    count: impl Fn() -> Result<u64, BenchError>,
) -> Result<f64, BenchError> {
    std::thread::sleep(WARM_UP);
    let (started, before) = (Instant::now(), count()?);
    std::thread::sleep(during);
    let (packets, elapsed) = (count()? - before, started.elapsed());
    Ok(packets as f64 / elapsed.as_secs_f64() / 1e6)
}
