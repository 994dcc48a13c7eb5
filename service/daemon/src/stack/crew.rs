//! The threads that execute the graph: one worker each.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weever_engine::{self as engine, Limits, Lost, Member, MemberQueue, Pace, Waker, WorkerStats};
use weever_link::LinkQueue;
use weever_packet::Pool;

use super::StartError;
use super::stopper::{StopOnDrop, Stopper};
use crate::config::{Config, Mode};
use crate::preflight::allowed_cores;

/// Zero stands for the calling thread in the affinity calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// What other threads may know of a worker.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) name: String,
    pub(super) core: Option<usize>,
    /// The queues it serves: the link's number and the queue's.
    pub(super) queues: Vec<(u16, u16)>,
    pub(super) counters: Arc<engine::Counters>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) pace: Arc<Pace>,
    pub(super) waker: Waker,
    /// What went wrong, in the order in which it did.
    failures: Arc<Mutex<Vec<String>>>,
}

impl Meter {
    /// What went wrong so far.
    pub(super) fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, why: String) {
        tracing::error!(worker = %self.name, "{why}");
        self.failures().push(why);
    }
}

/// Which worker serves which queues: queue *i* of a link goes to worker *i* modulo their number.
pub(super) struct Roster {
    members: Vec<Member>,
    queues: Vec<Vec<(u16, u16)>>,
}

impl Roster {
    /// The workers of a configuration: one for each of its cores, or one. `links` are the queues of
    /// each link, whose packets start at the node called `source`.
    pub(super) fn new(
        config: &Config,
        pool: &Pool,
        links: Vec<Vec<Box<dyn LinkQueue>>>,
        source: &str,
    ) -> Roster {
        let count = config.cores.len().max(1);
        let limits = Limits { links: links.len() as u16, ..Limits::within(pool.frames() / count) };
        let member = |number| Member {
            name: format!("worker-{number}"),
            pool: pool.cache(),
            limits,
            queues: Vec::new(),
        };
        let mut members: Vec<Member> = (0..count).map(member).collect();
        let mut numbers = vec![Vec::new(); count];
        for (link, queues) in (0..).zip(links) {
            for (number, queue) in (0u16..).zip(queues) {
                let worker = usize::from(number) % count;
                numbers[worker].push((link, number));
                let source = source.to_owned();
                members[worker].queues.push(MemberQueue { link, source, queue });
            }
        }
        Roster { members, queues: numbers }
    }

    /// The members, for the team, and what is needed to start their threads.
    pub(super) fn split(self) -> (Vec<Member>, Vec<Vec<(u16, u16)>>) {
        (self.members, self.queues)
    }
}

/// What is known of each worker of a team that has no threads yet.
pub(super) fn meters(
    workers: &mut [engine::Worker],
    queues: Vec<Vec<(u16, u16)>>,
    config: &Config,
) -> Vec<Meter> {
    let mut meters = Vec::new();
    for (number, (worker, queues)) in workers.iter_mut().zip(queues).enumerate() {
        worker.pace().set(turns(config.mode));
        meters.push(Meter {
            name: format!("worker-{number}"),
            core: config.cores.get(number).copied(),
            queues,
            counters: worker.engine().counters(),
            stats: worker.stats(),
            pace: worker.pace(),
            waker: worker.waker(),
            failures: Arc::default(),
        });
    }
    meters
}

/// Workers on their threads. Dropping it ends and joins them.
pub(super) struct Crew {
    threads: Vec<(JoinHandle<()>, Waker, Meter)>,
    stop: Arc<AtomicBool>,
    /// Queues that work, of all workers.
    queues: Arc<AtomicUsize>,
}

impl Crew {
    /// Starts a thread for each worker, bound to the core in its meter.
    pub(super) fn start(
        workers: Vec<engine::Worker>,
        meters: &[Meter],
        stopper: &Stopper,
    ) -> Result<Crew, StartError> {
        let queues = meters.iter().map(|meter| meter.queues.len()).sum::<usize>();
        let queues = Arc::new(AtomicUsize::new(queues));
        let mut crew = Crew { threads: Vec::new(), stop: Arc::default(), queues };
        for (worker, meter) in workers.into_iter().zip(meters) {
            crew.add(worker, meter.clone(), stopper.clone())?;
        }
        Ok(crew)
    }

    fn add(
        &mut self,
        mut worker: engine::Worker,
        meter: Meter,
        stopper: Stopper,
    ) -> Result<(), StartError> {
        let (waker, own) = (meter.waker.clone(), meter.clone());
        let (stop, queues) = (Arc::clone(&self.stop), Arc::clone(&self.queues));
        let (core, (bound, binding)) = (meter.core, mpsc::channel());
        let work = move || {
            let _guard = StopOnDrop(stopper);
            let result = core.map_or(Ok(()), bind);
            let begins = result.is_ok();
            // Whoever started us waits for this.
            drop(bound.send(result));
            if begins {
                serve(&mut worker, &stop, &queues, &own);
            }
        };
        let thread = thread::Builder::new().name(meter.name.clone()).spawn(work);
        let thread = thread.map_err(|source| StartError::Io { what: "start a worker", source })?;
        let bound = binding.recv().unwrap_or(Ok(()));
        self.threads.push((thread, waker, meter));
        bound.map_err(|source| unusable(core.unwrap_or_default(), &source))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|(_, waker, _)| waker.wake());
        for (thread, _, meter) in self.threads.drain(..) {
            if thread.join().is_err() {
                meter.failed(format!("{} panicked while it was shut down", meter.name));
            }
        }
    }
}

/// Runs the worker until it is told to stop, or no worker has a queue left that works.
fn serve(worker: &mut engine::Worker, stop: &AtomicBool, queues: &AtomicUsize, meter: &Meter) {
    let lost = |lost: Lost| {
        meter.failed(lost.error.to_string());
        if queues.fetch_sub(1, Ordering::Relaxed) == 1 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    // The worker is not used again after a panic, only dropped.
    let ended = catch_unwind(AssertUnwindSafe(|| worker.run_at_pace(stop, lost)));
    if let Err(panic) = ended {
        meter.failed(format!("{} panicked: {}", meter.name, words(panic.as_ref())));
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// A mode in the engine's terms.
pub(super) fn turns(mode: Mode) -> engine::Mode {
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
