//! The process' queue: opened when its first socket is used, and given up when the stack ends.

use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use weever_app_ring::ChannelError;
use weever_app_sockets::control::Refusal;
use weever_app_sockets::{AppQueue, Backend, Credential, Error, Process, QueueConfig};

use crate::collect::LOOK;
use crate::failure::{Answer, Failure};
use crate::file::File;
use crate::inside::{self, Unavailable};
use crate::numbers::{self, Meaning};
use crate::state::State;
use crate::wait::Moment;
use crate::{log, rings};

/// The queue's configuration, as the environment says when the program starts: some clear it later.
pub(crate) fn config() -> &'static QueueConfig {
    static CONFIG: OnceLock<QueueConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        // Room for the windows of some hundred connections that are not read.
        let geometry =
            weever_app_sockets::Geometry { ring_len: 4096, frames: 8192, ..Default::default() };
        QueueConfig { geometry, numbers_from: numbers::high(), ..QueueConfig::default() }
    })
}

/// The rights of the user that a program was before it changed it, if it did.
#[derive(Clone, Copy)]
pub(crate) struct Rights(Option<Credential>);

impl Rights {
    /// Whether a credential is needed to have them.
    pub(crate) fn are_shown(self) -> bool {
        self.0.is_some()
    }

    /// Connects to the stack with them.
    pub(crate) fn connect<T>(
        self,
        connect: impl Fn(Option<&Credential>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(credential) = self.0 else { return connect(None) };
        match connect(Some(&credential)) {
            Err(error) if means_nothing(&error) => {}
            connected => return connected,
        }
        // The stack may admit the user that the program is now.
        let as_it_is = connect(None)?;
        // One that came between both attempts had the place for credentials first.
        match connect(Some(&credential)) {
            Err(error) if means_nothing(&error) => Ok(as_it_is),
            connected => connected,
        }
    }
}

/// Whether a credential means nothing to the stack; it may be a new one that gives none.
fn means_nothing(error: &Error) -> bool {
    matches!(error, Error::NoStack { .. } | Error::Refused { kind: Refusal::Permission, .. })
}

/// Why there is no queue.
struct Unopened {
    why: String,
    /// It may be there at another attempt.
    may_pass: bool,
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Unopened {
        let may_pass = matches!(
            error,
            Error::NoDescriptors
                | Error::Disconnected
                | Error::System { .. }
                | Error::Channel(ChannelError::System { .. })
                | Error::Refused { kind: Refusal::Limit | Refusal::Internal, .. }
        );
        Unopened { why: error.to_string(), may_pass }
    }
}

impl State {
    /// The process' queue, opened if it is not there yet.
    pub(crate) fn need_queue(&mut self) -> Answer<&'static AppQueue> {
        if let Some(queue) = self.queue {
            return Ok(queue);
        }
        if self.refused {
            if std::mem::take(&mut self.orphaned) {
                log::always(format_args!(
                    "the stack is inside this process' parent, and sockets here are the kernel's: a program of \
                     several processes needs `weever run --stack daemon`"
                ));
            }
            return Err(Failure::Kernel);
        }
        if rings::pass_by() {
            self.refused = true;
            return Err(Failure::Kernel);
        }
        if self.failed.is_some_and(|since| since.elapsed() < LOOK) {
            return Err(Failure::Kernel);
        }
        let config = config();
        let start = inside::is_chosen().then(inside::Start::begin);
        let opened = self
            .backend(config)
            .and_then(|backend| AppQueue::over(backend, config).map_err(Unopened::from));
        drop(start);
        match opened {
            Ok(queue) => {
                let queue: &'static AppQueue = Box::leak(Box::new(queue));
                for fd in queue.descriptors() {
                    numbers::set(fd, Some(Meaning::Internal));
                }
                (self.queue, self.inside) = (Some(queue), inside::is_chosen());
                (self.lost, self.failed) = (false, None);
                if self.inside {
                    // The stack resets what comes for a port without a listener: all of them are open before.
                    self.open_waiting();
                    inside::admit();
                }
                self.watch_for_owners();
                self.queue.ok_or(Failure::Kernel)
            }
            // The stack that was there may come back.
            Err(_) if self.lost && !inside::is_chosen() => Err(Failure::Kernel),
            Err(Unopened { why, may_pass: true }) => {
                if self.failed.replace(Moment::now()).is_none() {
                    log::note(format_args!("sockets are the kernel's until it can be had: {why}"));
                }
                Err(Failure::Kernel)
            }
            Err(Unopened { why, may_pass: false }) => {
                log::note(format_args!("sockets are the kernel's: {why}"));
                // Nobody waits for another attempt.
                (self.refused, self.failed) = (true, None);
                Err(Failure::Kernel)
            }
        }
    }

    /// The stack as a queue sees it.
    fn backend(&mut self, config: &QueueConfig) -> Result<Box<dyn Backend>, Unopened> {
        if inside::is_chosen() {
            return inside::start(config).map_err(|Unavailable { why, in_use }| {
                if !in_use {
                    self.give_back();
                }
                Unopened { why, may_pass: false }
            });
        }
        // The stack may have ended since.
        let reserved = self.take_reserved().filter(Process::is_there);
        let process = reserved.map_or_else(|| self.connect(), Ok);
        Ok(Box::new(process?))
    }

    /// The rights with which this process connects to the stack.
    pub(crate) fn rights(&self) -> Rights {
        // SAFETY: it has no pointers, and cannot fail.
        let user = unsafe { libc::geteuid() };
        Rights(self.credential.filter(|credential| credential.user() != user))
    }

    /// Connects to the stack.
    fn connect(&self) -> Result<Process, Error> {
        self.rights().connect(|shown| match shown {
            Some(credential) => Process::present(config(), credential),
            None => Process::connect(config()),
        })
    }

    /// Before the program changes its user: asks the stack for what will show the next one who it was.
    pub(crate) fn ask_for_credential(&mut self) {
        if self.credential.is_some() {
            return;
        }
        let asked = match (self.queue, &mut self.reserved) {
            _ if self.inside => return,
            (Some(queue), _) => queue.credential(),
            (None, Some(process)) => process.credential(),
            (None, None) => return,
        };
        match asked {
            Ok(credential) => self.credential = Some(credential),
            Err(why) => log::note(format_args!(
                "after a restart of the stack, sockets are those of the next user: {why}"
            )),
        }
    }

    /// Connects to the stack before the program needs it, as it may not be able to later.
    pub(crate) fn reserve(&mut self) {
        if !inside::is_chosen() && self.queue.is_none() && self.reserved.is_none() && !self.refused
        {
            self.reserved = self.connect().ok();
            self.mark_reserved(Some(Meaning::Internal));
        }
    }

    fn mark_reserved(&self, meaning: Option<Meaning>) {
        if let Some(fd) = self.reserved.as_ref().and_then(Backend::end_descriptor) {
            numbers::set(fd.as_raw_fd(), meaning);
        }
    }

    /// The connection that was made before it was needed, for who uses or closes it.
    pub(crate) fn take_reserved(&mut self) -> Option<Process> {
        self.mark_reserved(None);
        self.reserved.take()
    }

    /// Opens the sockets that have waited for the stack inside.
    pub(crate) fn open_waiting(&mut self) {
        let waits = |file: &File| file.is_unopened();
        let waiting = self.files.iter_mut().filter(|(_, file)| waits(file)).map(|(place, _)| place);
        for place in waiting.collect::<Vec<u32>>() {
            if let Err(why) = self.ensure(place) {
                log::note(format_args!("a socket is not on the stack inside: {why:?}"));
            }
        }
    }

    /// Whether the stack has ended and there is no other yet, which may come.
    pub(crate) fn awaits_stack(&self) -> bool {
        self.lost && !self.inside
    }

    /// Whether there is no queue, and threads that wait try to open one from time to time.
    pub(crate) fn looks_for_stack(&self) -> bool {
        self.awaits_stack() || self.failed.is_some()
    }
}
