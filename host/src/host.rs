//! A host that was assembled: stepped by its owner, or running with a thread for each worker.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weever_blocks_std::dhcp::Dhcp;
use weever_blocks_std::host::Clerk;
use weever_engine::{Lost, Worker};
use weever_link::Link;
use weever_packet::{Census, Nanos};

use crate::handle::StopOnDrop;
use crate::{HostError, HostHandle, WorkerHandle};

/// A host that is ready to run. [`start`](Self::start) gives each worker a thread; or call
/// [`step`](Self::step) with a clock of your own. Dropping it closes its links.
pub struct Host {
    // Before the links, whose queues they hold.
    pub(crate) workers: Vec<Worker>,
    pub(crate) links: Vec<Box<dyn Link>>,
    pub(crate) handle: HostHandle,
}

impl Host {
    /// The handle by which other threads ask and command it.
    pub fn handle(&self) -> &HostHandle {
        &self.handle
    }

    /// Starts a thread for each worker, bound to its core if cores were given. The clock is the
    /// system's from then on: the host must have been built with
    /// [`monotonic`](weever_engine::monotonic) as the time.
    ///
    /// # Errors
    /// [`HostError::Thread`], [`HostError::Core`]; no thread is left behind.
    pub fn start(self) -> Result<RunningHost, HostError> {
        RunningHost::start(self.workers, self.links, self.handle)
    }

    /// Has every worker take one turn: receive, run the graph, send. `now` must not go back. True if
    /// there may be more to do at this instant. A queue that fails is let go of, and the failure is
    /// in the [handle](HostHandle::failure).
    pub fn step(&mut self, now: Nanos) -> bool {
        (0..self.workers.len())
            .fold(false, |is_busy, number| self.step_worker(number, now) | is_busy)
    }

    /// The same for one worker, whose number must exist.
    pub fn step_worker(&mut self, number: usize, now: Nanos) -> bool {
        let worker = &mut self.workers[number];
        let turn = worker.turn(now);
        turn.lost.iter().for_each(|lost| self.handle.workers[number].lost(lost));
        !turn.is_idle() || !worker.engine().idle()
    }

    /// When [`step`](Self::step) has to be called at the latest for the sake of timers and of links
    /// that delay; `None`: when a packet arrives.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.workers.iter().filter_map(Worker::next_deadline).min()
    }

    /// A worker, by its number, to put packets into its engine by hand.
    ///
    /// Panics when there is no worker of this number.
    pub fn worker(&mut self, number: usize) -> &mut Worker {
        &mut self.workers[number]
    }

    /// Takes the workers out, to run each on a thread of your own. The links stay open for as long as
    /// the host is kept.
    pub fn take_workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.workers)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.handle.links.iter().map(|link| link.name.as_str()).collect();
        write!(f, "Host({} workers on {})", self.workers.len(), names.join(", "))
    }
}

/// How long to wait for DHCP clients to release their leases. A client acts within 50 ms; a server
/// does not answer.
const RELEASE_PATIENCE: Duration = Duration::from_millis(200);
/// How often to look meanwhile.
const RELEASE_POLL: Duration = Duration::from_millis(2);

/// A host whose workers run, each on a thread. Dropping it stops it as [`stop`](Self::stop) does.
pub struct RunningHost {
    handle: HostHandle,
    threads: Vec<(JoinHandle<()>, WorkerHandle)>,
    /// Makes the changes of the network that workers ask for.
    clerk: Option<JoinHandle<()>>,
    flags: Arc<Flags>,
    links: Vec<Box<dyn Link>>,
}

/// The remains of a host that has stopped.
#[non_exhaustive]
pub struct StoppedHost {
    /// Why a worker ended before it was told to, if one did.
    pub failure: Option<String>,
    /// The links, still open. Dropping them gives the devices back.
    pub links: Vec<Box<dyn Link>>,
    /// The census of the frames. All of them are home, unless a device has kept some, as it may in
    /// zero-copy mode.
    pub frames: Census,
}

#[derive(Default)]
struct Flags {
    stop: AtomicBool,
    /// Queues of all workers that have not failed.
    queues: AtomicUsize,
}

impl RunningHost {
    pub(crate) fn start(
        workers: Vec<Worker>,
        links: Vec<Box<dyn Link>>,
        handle: HostHandle,
    ) -> Result<RunningHost, HostError> {
        let queues = handle.workers.iter().map(|worker| worker.queues.len()).sum();
        let flags = Arc::new(Flags { queues: AtomicUsize::new(queues), ..Flags::default() });
        let clerk = start_clerk(&handle)?;
        let mut running = RunningHost { handle, threads: Vec::new(), clerk, flags, links };
        for (number, worker) in workers.into_iter().enumerate() {
            let own = running.handle.workers[number].clone();
            running.start_thread(worker, own)?;
        }
        Ok(running)
    }

    /// Starts a thread and waits until it is bound to its core.
    fn start_thread(&mut self, mut worker: Worker, own: WorkerHandle) -> Result<(), HostError> {
        let (flags, handle) = (Arc::clone(&self.flags), own.clone());
        let (stopper, core) = (self.handle.stopper.clone(), own.core);
        let (bound, binding) = mpsc::channel();
        let work = move || {
            // A worker that ends for any reason ends `wait`.
            let _guard = StopOnDrop(stopper);
            let result = core.map_or(Ok(()), bind);
            let is_bound = result.is_ok();
            drop(bound.send(result));
            if is_bound {
                run(&mut worker, &flags, &handle);
            }
        };
        let thread = thread::Builder::new().name(own.name.clone()).spawn(work);
        let failed = |source| HostError::Thread { worker: own.name.clone(), source };
        self.threads.push((thread.map_err(failed)?, own.clone()));
        let bound = binding.recv().unwrap_or(Ok(()));
        bound.map_err(|source| {
            let allowed = allowed_cores().unwrap_or_default();
            let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
            let (core, allowed) = (core.unwrap_or_default(), allowed.join(", "));
            HostError::Core { worker: own.name, core, source, allowed }
        })
    }

    /// The handle by which other threads ask and command it.
    pub fn handle(&self) -> &HostHandle {
        &self.handle
    }

    /// Blocks until the [stopper](HostHandle::stopper) is told or a worker has failed. The host runs
    /// on until [`stop`](Self::stop).
    pub fn wait(&self) {
        self.handle.stopper.wait();
    }

    /// Stops it: DHCP leases are released, then the threads end. Blocks for milliseconds, with leases
    /// up to a fifth of a second.
    pub fn stop(mut self) -> StoppedHost {
        self.end();
        let frames = self.handle.pool.census();
        if !frames.is_complete() {
            tracing::warn!("after the workers have ended: {frames}");
        }
        let links = std::mem::take(&mut self.links);
        StoppedHost { failure: self.handle.failure(), links, frames }
    }

    fn end(&mut self) {
        if !self.threads.is_empty() {
            self.end_workers();
        }
        self.end_clerk();
    }

    fn end_workers(&mut self) {
        release_leases(&self.handle.env.get_or_default::<Dhcp>());
        self.flags.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|(_, worker)| worker.waker.wake());
        for (thread, worker) in self.threads.drain(..) {
            if thread.join().is_err() {
                worker.failed(format!("{} panicked while it was shut down", worker.name));
            }
        }
    }

    /// After the workers, whose last changes it makes.
    fn end_clerk(&mut self) {
        if let Some(clerk) = self.clerk.take() {
            Clerk::dismiss(&self.handle.network);
            if clerk.join().is_err() {
                tracing::error!("the thread that changes the network panicked");
            }
        }
    }
}

impl Drop for RunningHost {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for RunningHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningHost({} workers)", self.threads.len())
    }
}

/// Starts the thread that makes the changes of the network which workers ask for. Unlike theirs it is bound to no core.
fn start_clerk(handle: &HostHandle) -> Result<Option<JoinHandle<()>>, HostError> {
    let (name, clerk) = ("network", Clerk::of(handle.network.clone()));
    let thread = thread::Builder::new().name(name.into()).spawn(|| clerk.work());
    let failed = |source| HostError::Thread { worker: name.into(), source };
    thread.map(Some).map_err(failed)
}

/// Runs a worker until it is told to stop, or until every queue of every worker has failed.
fn run(worker: &mut Worker, flags: &Flags, handle: &WorkerHandle) {
    let lost = |lost: Lost| {
        handle.lost(&lost);
        if flags.queues.fetch_sub(1, Ordering::Relaxed) == 1 {
            flags.stop.store(true, Ordering::Relaxed);
        }
    };
    // The worker is not used again after a panic, only dropped.
    let ended = catch_unwind(AssertUnwindSafe(|| worker.run_at_pace(&flags.stop, lost)));
    if let Err(panic) = ended {
        handle.failed(format!("{} panicked: {}", handle.name, panic_message(panic.as_ref())));
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

/// Has every DHCP client release its lease (RFC 2131 §4.4.6) while the workers still run. A lease
/// whose release is not sent in time runs out at the server.
fn release_leases(clients: &Dhcp) {
    let all = clients.status();
    if all.is_empty() {
        return;
    }
    all.iter().for_each(|client| clients.stop(client.iface));
    let deadline = Instant::now() + RELEASE_PATIENCE;
    while !clients.status().is_empty() && Instant::now() < deadline {
        thread::sleep(RELEASE_POLL);
    }
}

/// Zero stands for the calling thread in the affinity calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The cores that the calling thread may run on, in ascending order.
///
/// # Errors
/// When the system does not say.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect())
}

/// Binds the calling thread to one core.
pub(crate) fn bind(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}
