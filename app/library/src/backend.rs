//! The state that the threads of a stack share, and the stack as one thread's queue sees it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weever_app_ring::control::Request;
use weever_app_server::{AppServer, Identity, Session};
use weever_app_sockets::{Answer, Backend, Error};
use weever_engine::{Lost, monotonic};
use weever_host::{Host, HostHandle};

use crate::seat::{Keeper, Seat};

/// How long workers may take to carry out a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stack's workers, server and host. Dropped in this order: no thread turns a worker whose link is gone.
pub(crate) struct Shared {
    pub(crate) keepers: Vec<Keeper>,
    /// Seats that no queue has.
    pub(crate) free: Mutex<Vec<usize>>,
    pub(crate) seats: Vec<Arc<Seat>>,
    pub(crate) server: Mutex<AppServer>,
    /// Whether a device's queue has failed.
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) handle: HostHandle,
    /// Only to keep the links open.
    pub(crate) _host: Mutex<Host>,
}

impl Shared {
    pub(crate) fn note(&self, lost: Vec<Lost>) {
        lost.iter().for_each(|lost| fail(&self.failed, lost));
    }

    /// An error once a device has failed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Relaxed) { Err(Error::Disconnected) } else { Ok(()) }
    }
}

/// Notes that a device's queue is gone.
pub(crate) fn fail(failed: &AtomicBool, lost: &Lost) {
    tracing::error!("a queue of the stack in this process has failed: {}", lost.error);
    failed.store(true, Ordering::Relaxed);
}

/// The value behind a lock, whether a thread has panicked with it or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One queue's view of the stack.
pub(crate) struct Inside {
    shared: Arc<Shared>,
    /// The worker that this queue's thread turns; `None` when all have a thread already.
    seat: Option<usize>,
    session: Session,
    answers: VecDeque<Answer>,
    /// Whether the answers are in effect at all workers.
    settled: bool,
}

impl Inside {
    pub(crate) fn new(shared: Arc<Shared>) -> Inside {
        let seat = lock(&shared.free).pop();
        let session = Session::new(identity());
        Inside { shared, seat, session, answers: VecDeque::new(), settled: true }
    }

    /// Has every worker carry out its commands: workers that no thread turns now are turned here.
    fn settle(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let server = lock(&self.shared.server);
        server.wake();
        while !server.settled() {
            for seat in &self.shared.seats {
                if let Some(mut worker) = seat.borrow() {
                    let turn = worker.turn(monotonic());
                    self.shared.note(turn.lost);
                }
            }
            if start.elapsed() > PATIENCE {
                return Err(Error::Protocol("a worker carries out nothing".into()));
            }
            std::thread::yield_now();
        }
        self.settled = true;
        Ok(())
    }

    fn poll(&self, wake: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(source) => Err(Error::System { call: "poll", source }),
        }
    }
}

impl Backend for Inside {
    fn send(&mut self, request: &Request) -> Result<(), Error> {
        let answer = self.session.answer(&mut lock(&self.shared.server), request.clone());
        self.answers.push_back(answer);
        self.settled = false;
        Ok(())
    }

    fn receive(&mut self, _blocking: bool) -> Result<Option<Answer>, Error> {
        if !self.settled {
            self.settle()?;
        }
        Ok(self.answers.pop_front())
    }

    fn has_worker(&self) -> bool {
        self.seat.is_some()
    }

    fn work(&mut self) -> Result<bool, Error> {
        let Some(seat) = self.seat else { return self.shared.check().map(|()| false) };
        let seat = &self.shared.seats[seat];
        let now = monotonic();
        let mut worker = seat.take();
        let by_others = seat.turned_by_others();
        let turn = worker.turn(now);
        let is_busy = by_others || !turn.is_idle() || !worker.engine().idle();
        drop(worker);
        seat.turned(now);
        if !turn.lost.is_empty() {
            self.shared.note(turn.lost);
        }
        self.shared.check()?;
        Ok(is_busy)
    }

    fn hand_over(&mut self) {
        if let Some(seat) = self.seat {
            self.shared.seats[seat].leave();
        }
    }

    fn sleep(&mut self, wake: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Error> {
        self.shared.check()?;
        let Some(seat) = self.seat else { return self.poll(wake, timeout) };
        let seat = &self.shared.seats[seat];
        let timeout = timeout.map_or(u64::MAX, |timeout| timeout.as_nanos() as u64);
        seat.take().rest(monotonic(), timeout, wake);
        seat.turned(monotonic());
        Ok(())
    }

    fn check(&mut self) -> Result<(), Error> {
        self.shared.check()
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.shared.check()?;
        self.hand_over();
        self.session.close(&mut lock(&self.shared.server));
        self.session = Session::new(identity());
        self.answers.clear();
        Ok(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The keeper carries out what closing asks of the worker.
        self.hand_over();
        self.session.close(&mut lock(&self.shared.server));
        lock(&self.shared.free).extend(self.seat);
    }
}

fn identity() -> Identity {
    let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
    Identity { name: String::new(), pid, uid }
}
