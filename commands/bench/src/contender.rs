//! One side of a comparison: a thread on the contender's core that handles the load, and the use that a
//! thread makes of its core.

use std::io;
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

/// Time and context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadUse {
    /// Nanoseconds on a core.
    pub(crate) cpu_ns: u64,
    /// Context switches, voluntary and not.
    pub(crate) switches: u64,
    /// Those that the thread did not ask for: somebody else was given the core.
    pub(crate) preempted: u64,
}

impl ThreadUse {
    /// The calling thread's number, for [`read`](Self::read) by another one.
    pub(crate) fn of_this_thread() -> i32 {
        nix::unistd::gettid().as_raw()
    }

    /// The use by the thread with this number.
    ///
    /// # Errors
    /// When there is no such thread.
    pub(crate) fn read(thread: i32) -> io::Result<ThreadUse> {
        let read = |file| std::fs::read_to_string(format!("/proc/self/task/{thread}/{file}"));
        let (schedstat, status) = (read("schedstat")?, read("status")?);
        let cpu_ns = schedstat.split_ascii_whitespace().next().and_then(|n| n.parse().ok());
        let switches = status.lines().filter(|line| line.contains("ctxt_switches:"));
        let switches = switches.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok());
        let cpu_ns = cpu_ns.ok_or_else(|| io::Error::other("the kernel keeps no schedstat"))?;
        // The voluntary ones come first.
        let [switches, preempted] =
            switches.fold([0; 2], |[sum, _], number| [sum + number, number]);
        Ok(ThreadUse { cpu_ns, switches, preempted })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_works_uses_time_and_one_that_sleeps_switches() {
        let thread = ThreadUse::of_this_thread();
        let before = ThreadUse::read(thread).unwrap();
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {}
        (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let after = ThreadUse::read(thread).unwrap();
        assert!(after.cpu_ns > before.cpu_ns);
        assert!(after.switches >= before.switches + 5);
        assert!(ThreadUse::read(0).is_err());
    }
}
