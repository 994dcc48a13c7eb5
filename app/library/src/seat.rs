//! A worker, and whose turn it is to turn it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use weever_engine::{Lost, Waker, Worker, monotonic};
use weever_packet::Nanos;

/// A thread that wants its worker back looks so many times before it sleeps in between.
const LOOKS: u32 = 200;
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// A worker that one thread of the application turns, and its keeper while that thread does not.
pub(crate) struct Seat {
    worker: Mutex<Worker>,
    waker: Waker,
    /// Tells the keeper to let go.
    wanted: AtomicBool,
    /// The thread will not turn it for now.
    away: AtomicBool,
    stop: AtomicBool,
    /// When its thread turned it last, by the monotonic clock.
    turned: AtomicU64,
    /// Another thread has turned it since [`turned_by_others`](Seat::turned_by_others) was called.
    by_others: AtomicBool,
    patience: Nanos,
    keeper: OnceLock<Thread>,
}

impl Seat {
    pub(crate) fn new(worker: Worker, patience: Duration) -> Seat {
        Seat {
            waker: worker.waker(),
            worker: Mutex::new(worker),
            wanted: AtomicBool::new(false),
            // Nobody has it yet: timers run from the start.
            away: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            turned: AtomicU64::new(monotonic()),
            by_others: AtomicBool::new(false),
            patience: patience.as_nanos() as Nanos,
            keeper: OnceLock::new(),
        }
    }

    /// Takes the worker, from the keeper if need be. Waits for a turn to end, if one is under way.
    pub(crate) fn take(&self) -> MutexGuard<'_, Worker> {
        let mut looks = 0;
        loop {
            match self.worker.try_lock() {
                Ok(worker) => {
                    self.wanted.store(false, Ordering::Relaxed);
                    self.away.store(false, Ordering::Relaxed);
                    return worker;
                }
                Err(TryLockError::Poisoned(worker)) => return worker.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
            // Again each time: another thread that took it for a moment has cleared the flag.
            self.wanted.store(true, Ordering::Relaxed);
            self.waker.wake();
            looks += 1;
            if looks < LOOKS { thread::yield_now() } else { thread::sleep(LOOK_AGAIN) }
        }
    }

    /// Takes the worker if nobody has it now, for a turn on behalf of its thread.
    pub(crate) fn borrow(&self) -> Option<MutexGuard<'_, Worker>> {
        let worker = self.worker.try_lock().ok()?;
        self.by_others.store(true, Ordering::Relaxed);
        Some(worker)
    }

    /// Whether the keeper or another queue's thread has turned the worker since the last call. Packets that were received
    /// then may be in the rings although the thread's own turn finds nothing. For the thread that [has taken](Self::take) it.
    pub(crate) fn turned_by_others(&self) -> bool {
        self.by_others.load(Ordering::Relaxed) && self.by_others.swap(false, Ordering::Relaxed)
    }

    /// Its thread has turned it.
    pub(crate) fn turned(&self, now: Nanos) {
        self.turned.store(now, Ordering::Relaxed);
    }

    /// Its thread will not turn it for now: the keeper takes over at once.
    pub(crate) fn leave(&self) {
        self.away.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    fn idle_for(&self) -> Nanos {
        monotonic().saturating_sub(self.turned.load(Ordering::Relaxed))
    }
}

/// The thread that turns a seat's worker while nobody else does.
pub(crate) struct Keeper {
    seat: Arc<Seat>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it. `lost` is told of queues that fail.
    pub(crate) fn start(
        seat: Arc<Seat>,
        name: String,
        lost: impl Fn(Lost) + Send + 'static,
    ) -> std::io::Result<Keeper> {
        let kept = Arc::clone(&seat);
        let thread = thread::Builder::new().name(name).spawn(move || keep(&kept, lost))?;
        // Only this call sets it.
        let _ = seat.keeper.set(thread.thread().clone());
        Ok(Keeper { seat, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.seat.stop.store(true, Ordering::Relaxed);
        self.seat.wanted.store(true, Ordering::Relaxed);
        self.seat.waker.wake();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A keeper that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn keep(seat: &Seat, lost: impl Fn(Lost)) {
    while !seat.stop.load(Ordering::Relaxed) {
        let idle = seat.idle_for();
        if !seat.away.load(Ordering::Relaxed) && idle < seat.patience {
            thread::park_timeout(Duration::from_nanos(seat.patience - idle));
            continue;
        }
        match seat.borrow() {
            // Until its thread wants it back.
            Some(mut worker) if !seat.wanted.load(Ordering::Relaxed) => {
                worker.run_at_pace(&seat.wanted, &lost);
            }
            // Its thread sleeps in it, turns it, or is about to.
            _ => {}
        }
        if !seat.stop.load(Ordering::Relaxed) {
            thread::park_timeout(Duration::from_nanos(seat.patience));
        }
    }
}
