//! The thread that executes the graph.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weever_engine::{self as engine, Attached, Engine, Lost, Waker, WorkerStats};
use weever_link::LinkQueue;

use super::StartError;
use super::shared::Shared;
use super::stopper::StopOnDrop;
use crate::config::Mode;
use crate::preflight::allowed_cores;

/// The name of the only worker's thread.
pub(super) const NAME: &str = "worker-0";
/// The only link's number.
const LINK: u16 = 0;
/// Zero stands for the calling thread in the affinity calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// What other threads may know of a worker.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) counters: Arc<engine::Counters>,
    pub(super) stats: Arc<WorkerStats>,
    /// What went wrong, in the order in which it did.
    failures: Arc<Mutex<Vec<String>>>,
}

impl Meter {
    /// What went wrong so far.
    pub(super) fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, why: String) {
        self.failures().push(why);
    }
}

/// A worker that has its queues and no thread yet.
pub(super) struct Ready {
    worker: engine::Worker,
    meter: Meter,
}

impl Ready {
    pub(super) fn meter(&self) -> Meter {
        self.meter.clone()
    }
}

/// Gives `engine` the queues of its only link, whose packets start at the node called `source`.
pub(super) fn attach(
    engine: Engine,
    source: &'static str,
    queues: Vec<Box<dyn LinkQueue>>,
) -> Result<Ready, StartError> {
    let entry = engine.entry(source);
    let entry = entry.ok_or_else(|| StartError::Setting(format!("the graph has no {source}")))?;
    let counters = engine.counters();
    let queues = queues.into_iter().map(|queue| Attached { link: LINK, entry, queue }).collect();
    let worker = engine::Worker::new(engine, queues)
        .map_err(|source| StartError::Io { what: "make a descriptor for the worker", source })?;
    let meter = Meter { counters, stats: worker.stats(), failures: Arc::default() };
    Ok(Ready { worker, meter })
}

/// A worker on its thread.
pub(super) struct Worker {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Worker {
    /// Starts the thread, bound to the first core of the configuration.
    pub(super) fn start(ready: Ready, shared: &Arc<Shared>) -> Result<Worker, StartError> {
        let Ready { mut worker, meter } = ready;
        let (waker, stop) = (worker.waker(), Arc::new(AtomicBool::new(false)));
        let (stopped, mode) = (Arc::clone(&stop), turns(shared.config.mode));
        let guard = StopOnDrop(shared.stopper.clone());
        let (core, (bound, binding)) = (shared.config.cores.first().copied(), mpsc::channel());
        let work = move || {
            let _guard = guard;
            let result = core.map_or(Ok(()), bind);
            let begins = result.is_ok();
            // Whoever started us waits for this.
            drop(bound.send(result));
            if begins {
                serve(&mut worker, &stopped, mode, &meter);
            }
        };
        let thread = thread::Builder::new().name(NAME.into()).spawn(work);
        let thread =
            thread.map_err(|source| StartError::Io { what: "start the worker", source })?;
        match binding.recv().unwrap_or(Ok(())) {
            Ok(()) => Ok(Worker { thread, stop, waker }),
            Err(source) => {
                drop(thread.join());
                Err(unusable(core.unwrap_or_default(), &source))
            }
        }
    }

    /// Ends the thread and waits for it; its queues are closed then.
    pub(super) fn stop(self, meter: &Meter) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if self.thread.join().is_err() {
            meter.failed(format!("{NAME} panicked while it was shut down"));
        }
    }
}

/// Runs the worker until it is told to stop, or has no queue left.
fn serve(worker: &mut engine::Worker, stop: &AtomicBool, mode: engine::Mode, meter: &Meter) {
    let mut left = meter.stats.queues().len();
    let lost = |lost: Lost| {
        meter.failed(lost.error.to_string());
        left -= 1;
        if left == 0 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    // The worker is not used again after a panic, only dropped.
    let ended = catch_unwind(AssertUnwindSafe(|| worker.run(stop, mode, lost)));
    if let Err(panic) = ended {
        meter.failed(format!("{NAME} panicked: {}", words(panic.as_ref())));
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

fn turns(mode: Mode) -> engine::Mode {
    match mode {
        Mode::Busy => engine::Mode::Busy,
        Mode::Adaptive => engine::Mode::default(),
        Mode::Interrupt => engine::Mode::Interrupt,
    }
}

fn bind(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}

fn unusable(core: usize, error: &io::Error) -> StartError {
    let cores = allowed_cores().unwrap_or_default();
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    let cores = cores.join(", ");
    StartError::Setting(format!(
        "cores = [{core}]: the worker cannot be bound to it ({error}); this process may use {cores}"
    ))
}
