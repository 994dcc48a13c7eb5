//! The stack as a queue sees it, in another process or in this one, and the configuration that says which.
//!
//! A queue needs the same things of both: an answer to each request, channels to every worker, and a
//! way to sleep until one of them has something. A stack within the process has its worker turn in
//! the application's thread besides, which is all that [`Backend::work`] and [`Backend::sleep`] are
//! for. This crate links no stack: `weever-app-library` implements the trait over a host.

use std::env;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use weever_app_ring::Geometry;
use weever_app_ring::control::{Connection, Request, Response};

use crate::error::{Error, accepted};
use crate::returning::Credential;

/// An answer of the stack, with the descriptors that came with it.
pub type Answer = (Response, Vec<OwnedFd>);

/// The stack, as a queue sees it. Requests are answered one by one, in their order.
pub trait Backend: Send {
    /// Sends a request. Does not wait for the answer.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the stack is gone.
    fn send(&mut self, request: &Request) -> Result<(), Error>;

    /// The next answer. With `blocking`, waits for it; otherwise `None` means that none has come.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn receive(&mut self, blocking: bool) -> Result<Option<Answer>, Error>;

    /// Whether [`work`](Self::work) turns a worker. What was sent has to be committed before.
    fn has_worker(&self) -> bool {
        false
    }

    /// Turns the stack's worker once, if it is this thread's to turn; true if it did something. Does
    /// not block.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the worker has failed.
    fn work(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// The application will wait for the queue's descriptor by itself: the thread that turns workers
    /// for it takes over now.
    fn hand_over(&mut self) {}

    /// Sleeps until `wake` is readable, the stack has something to do here, or the timeout has
    /// passed; `None` waits as long as it takes. It may return early.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the stack is gone, [`Error::System`].
    fn sleep(&mut self, wake: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Error>;

    /// Whether the stack is still there. Does not block.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when it is not.
    fn check(&mut self) -> Result<(), Error>;

    /// The user of the stack's process.
    ///
    /// # Errors
    /// [`Error::Disconnected`] where there is none; [`Error::System`].
    fn stack_user(&self) -> Result<u32, Error> {
        Err(Error::Disconnected)
    }

    /// A descriptor that becomes readable when the stack ends, if it can end before this program.
    fn end_descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Connects anew, after the stack has ended. Queue and sockets are gone.
    ///
    /// # Errors
    /// [`Error::NoStack`] when there is none to connect to.
    fn restart(&mut self) -> Result<(), Error>;
}

/// A stack in a process of its own, over its Unix socket. The user is known to the stack as it was when the
/// connection was made: a program that changes its user can connect before, and open a queue later
/// ([`AppQueue::over`](crate::AppQueue::over)).
pub struct Process {
    config: QueueConfig,
    control: Connection,
}

impl Process {
    /// Connects to the stack. Blocks until it accepts.
    ///
    /// # Errors
    /// [`Error::NoStack`].
    pub fn connect(config: &QueueConfig) -> Result<Process, Error> {
        let control = Connection::connect(&config.path)
            .map_err(|source| Error::of_connecting(&config.path, source))?;
        Ok(Process::over(control, config))
    }

    /// Connects with the rights that the process had when it [asked](Self::credential) for this credential, at this
    /// stack or at one that ran before at the same path, also after a change of the root. Shows it to no other user than
    /// that stack's. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`], also where another user listens; [`Error::Refused`] or [`Error::Disconnected`] when the credential is not this stack's, or its
    /// user is not admitted any more.
    pub fn present(config: &QueueConfig, credential: &Credential) -> Result<Process, Error> {
        Ok(Process::over(credential.connect(&config.path)?, config))
    }

    fn over(control: Connection, config: &QueueConfig) -> Process {
        let high = config.with_high_number(&control).map(Connection::over);
        Process { config: config.clone(), control: high.unwrap_or(control) }
    }

    /// Asks for a credential, by which this process and its children can [connect](Self::present) with their present
    /// rights after they have changed their user. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`] by a stack that gives none, [`Error::Disconnected`].
    pub fn credential(&mut self) -> Result<Credential, Error> {
        let stack = self.stack_user()?;
        Credential::of(self.ask(&Request::Credential)?, stack)
    }

    /// Whether the stack is still there, as far as is known without asking it.
    pub fn is_there(&self) -> bool {
        self.poll(&mut [PollFd::new(&self.control, PollFlags::RDHUP)], Some(Duration::ZERO)).is_ok()
    }

    fn ask(&mut self, request: &Request) -> Result<Response, Error> {
        self.control.send(request, &[])?;
        accepted(self.control.receive()?.0)
    }

    /// Waits for one of these, of which the first is the connection's.
    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Error> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(Error::System { call: "poll", source }),
        }
        if fds[0].revents().is_empty() { Ok(()) } else { Err(Error::Disconnected) }
    }
}

impl Backend for Process {
    fn send(&mut self, request: &Request) -> Result<(), Error> {
        Ok(self.control.send(request, &[])?)
    }

    fn receive(&mut self, blocking: bool) -> Result<Option<Answer>, Error> {
        if blocking {
            return Ok(Some(self.control.receive()?));
        }
        Ok(self.control.receive_now()?)
    }

    fn sleep(&mut self, wake: BorrowedFd<'_>, timeout: Option<Duration>) -> Result<(), Error> {
        let wake = PollFd::from_borrowed_fd(wake, PollFlags::IN);
        self.poll(&mut [PollFd::new(&self.control, PollFlags::RDHUP), wake], timeout)
    }

    fn check(&mut self) -> Result<(), Error> {
        self.poll(&mut [PollFd::new(&self.control, PollFlags::RDHUP)], Some(Duration::ZERO))
    }

    fn stack_user(&self) -> Result<u32, Error> {
        Ok(self.control.peer_user()?)
    }

    fn end_descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.as_fd())
    }

    fn restart(&mut self) -> Result<(), Error> {
        *self = Process::connect(&self.config)?;
        Ok(())
    }
}

/// The path at which a stack listens for applications by default.
pub const DEFAULT_PATH: &str = "/run/weever/apps.sock";

/// The configuration of a queue.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// The stack's socket; by default the value of the environment's `WEEVER_APPS`, or
    /// [`DEFAULT_PATH`].
    pub path: PathBuf,
    /// The application's name in `weever sockets`.
    pub name: String,
    /// Whether the name is a slot: refused while another queue has it.
    pub slot: bool,
    /// Rings and frames of each channel; there is one for each of the stack's workers.
    pub geometry: Geometry,
    /// How long [`wait`](crate::AppQueue::wait) polls before it sleeps: zero on a core that others
    /// need, more than the tens of microseconds that waking up takes on a core of one's own.
    pub spin: Duration,
    /// The queue's descriptors have numbers from here on as far as they are free, for a program that chooses low ones
    /// itself (`dup2`); zero leaves them as they come.
    pub numbers_from: RawFd,
}

impl QueueConfig {
    /// Another descriptor of the same, with a high number; `None` if it is to stay as it is.
    pub(crate) fn with_high_number(&self, fd: impl AsFd) -> Option<OwnedFd> {
        (self.numbers_from > 0).then(|| fcntl_dupfd_cloexec(fd, self.numbers_from).ok()).flatten()
    }
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        let path = env::var_os("WEEVER_APPS").map_or_else(|| DEFAULT_PATH.into(), PathBuf::from);
        let program = env::args_os().next().map(PathBuf::from);
        let name = program.as_deref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
        let name = name.map_or_else(|| "application".into(), |name| name.into_owned());
        QueueConfig {
            path,
            name,
            slot: false,
            geometry: Geometry::default(),
            spin: Duration::ZERO,
            numbers_from: 0,
        }
    }
}
