//! What a queue asks of a stack in its own thread.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weever_app_ring::control::Request;
use weever_app_server::{Identity, Session};
use weever_app_sockets::{Answer, Backend, Error};
use weever_engine::monotonic;

use crate::shared::{Shared, lock};

/// How long workers may take to carry out a request.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// Has every worker carry out what was asked: those that nobody turns now, by turning them here.
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

    fn work(&mut self) -> Result<bool, Error> {
        let Some(seat) = self.seat else { return self.shared.check().map(|()| false) };
        let seat = &self.shared.seats[seat];
        let now = monotonic();
        let mut worker = seat.take();
        let turn = worker.turn(now);
        let is_busy = !turn.is_idle() || !worker.engine().idle();
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
