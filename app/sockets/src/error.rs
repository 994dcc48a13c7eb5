//! Failures of an application's calls.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use weever_app_ring::ChannelError;
use weever_app_ring::control::{ControlError, NO_DESCRIPTORS, Refusal, Response};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No stack listens at the path.
    #[error(
        "no weever stack serves applications at {}: {source}; start one with `weever up --apps`, \
         or set WEEVER_APPS to its path", path.display()
    )]
    NoStack {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: ControlError,
    },
    /// No file descriptor is free: of this process, or of the whole system.
    #[error("{NO_DESCRIPTORS}")]
    NoDescriptors,
    /// The stack has ended, or has closed this queue. [Reconnect](crate::AppQueue::reconnect) opens its sockets
    /// anew, once a stack serves applications there again.
    #[error("the stack has ended or closed the queue; reconnect once it is there again")]
    Disconnected,
    /// The stack refused a request; nothing has changed.
    #[error("{message}")]
    Refused {
        /// The kind, for programs.
        kind: Refusal,
        /// The reason.
        message: String,
    },
    /// The shared memory cannot be used.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The stack's answer makes no sense.
    #[error("the stack's answer makes no sense: {0}")]
    Protocol(String),
    /// No frame is free, or the ring is full: [`commit`](crate::AppQueue::commit), then
    /// [`wait`](crate::AppQueue::wait) or receive, and try again.
    #[error("no room to send now; commit, and try again once the stack has taken something")]
    WouldBlock,
    /// The payload is longer than a datagram can be, or than all frames together.
    #[error("a datagram of {len} bytes is too long; the most here is {most}")]
    TooLong {
        /// The length.
        len: usize,
        /// The longest possible.
        most: usize,
    },
    /// The socket is not open on this queue: it was closed, or is another queue's.
    #[error("the socket is not open on this queue")]
    NoSocket,
    /// A socket without a peer was to send without a destination.
    #[error("the socket has no peer; say where to send to, or connect it")]
    NoDestination,
    /// The application has asked for too many plans lately.
    #[error("no plan is made before {} ms have passed: the policy's `[searches]` limits them", wait.as_millis())]
    TooSoon {
        /// The time after which it may ask again.
        wait: Duration,
    },
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The system's error.
        source: Errno,
    },
}

impl Error {
    /// Why no connection could be made to a stack at `path`.
    pub(crate) fn of_connecting(path: &Path, source: ControlError) -> Error {
        match Error::from(source) {
            Error::System { call, source } => {
                let source = ControlError::System { call, source };
                Error::NoStack { path: path.to_owned(), source }
            }
            other => other,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::NoStack { .. } => io::ErrorKind::NotFound,
            Error::Disconnected => io::ErrorKind::ConnectionReset,
            Error::Refused { kind, .. } => match kind {
                Refusal::InUse => io::ErrorKind::AddrInUse,
                Refusal::NotAvailable => io::ErrorKind::AddrNotAvailable,
                Refusal::Permission => io::ErrorKind::PermissionDenied,
                Refusal::Unsupported => io::ErrorKind::Unsupported,
                _ => io::ErrorKind::InvalidInput,
            },
            Error::WouldBlock | Error::TooSoon { .. } => io::ErrorKind::WouldBlock,
            Error::TooLong { .. } | Error::NoSocket | Error::NoDestination => {
                io::ErrorKind::InvalidInput
            }
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<ControlError> for Error {
    fn from(error: ControlError) -> Error {
        match error {
            ControlError::Closed => Error::Disconnected,
            ControlError::NoDescriptors
            | ControlError::System { source: Errno::MFILE | Errno::NFILE, .. } => {
                Error::NoDescriptors
            }
            ControlError::System { call, source } => Error::System { call, source },
            other => Error::Protocol(other.to_string()),
        }
    }
}

/// The answer, or the error that it tells.
pub(crate) fn accepted(answer: Response) -> Result<Response, Error> {
    match answer {
        Response::Refused { kind, message } => Err(Error::Refused { kind, message }),
        answer => Ok(answer),
    }
}
