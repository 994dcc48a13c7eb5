//! A connection to the stack that holds streams for a process without a queue.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use weever_app_ring::SocketId;
use weever_app_ring::control::{Connection, Request, Response};

use crate::error::{Error, accepted};
use crate::queue::AppQueue;
use crate::returning::Credential;
use crate::stream::TcpStream;

/// Holds streams that a queue has, or had, or its listeners: a stream stays open until all its holders are closed. A holder is a
/// descriptor, which a child inherits and which can be sent to another process. Processes that share a holder use it
/// in turn.
#[derive(Debug)]
pub struct Holder {
    connection: Connection,
    number: u32,
    key: u64,
}

impl Holder {
    pub(crate) fn new(
        path: &Path,
        (holder, key): (u32, u64),
        stream: Option<SocketId>,
        shown: Option<&Credential>,
    ) -> Result<Holder, Error> {
        Holder::ask(path, shown, &Request::Hold { holder, key, stream, listeners: false })
    }

    pub(crate) fn of_listeners(
        path: &Path,
        (holder, key): (u32, u64),
        shown: Option<&Credential>,
    ) -> Result<Holder, Error> {
        Holder::ask(path, shown, &Request::Hold { holder, key, stream: None, listeners: true })
    }

    fn ask(path: &Path, shown: Option<&Credential>, request: &Request) -> Result<Holder, Error> {
        let connection = match shown {
            Some(credential) => credential.connect(path)?,
            None => {
                Connection::connect(path).map_err(|source| Error::of_connecting(path, source))?
            }
        };
        match ask(&connection, request)? {
            Response::Held { holder: number, key } => Ok(Holder { connection, number, key }),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// The holder of a connection that another process has made, with its [name](Self::name).
    pub fn over(connection: OwnedFd, (number, key): (u32, u64)) -> Holder {
        Holder { connection: Connection::over(connection), number, key }
    }

    /// Its number and key, which a process that gets its descriptor needs.
    pub fn name(&self) -> (u32, u64) {
        (self.number, self.key)
    }

    /// Another holder of the same streams, or of the one with this number. A process that has changed its user since
    /// it connected shows the [credential](crate::Process::present) that it was given before. Blocks until the stack,
    /// at `path`, has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`], [`Error::Refused`], [`Error::Disconnected`].
    pub fn hold(
        &self,
        path: &Path,
        only: Option<SocketId>,
        shown: Option<&Credential>,
    ) -> Result<Holder, Error> {
        Holder::new(path, self.name(), only, shown)
    }

    /// Another holder of the same [listeners](AppQueue::hold_listeners), otherwise as [`hold`](Self::hold).
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub fn hold_listeners(&self, path: &Path, shown: Option<&Credential>) -> Result<Holder, Error> {
        Holder::of_listeners(path, self.name(), shown)
    }

    /// Takes a stream to a queue, which alone has it from now on: octets that were not read are delivered there. This
    /// holder does not hold the stream any more; the queue that had it may claim it back. Blocks until the stack has
    /// answered.
    ///
    /// # Errors
    /// [`Error::Refused`] when it is over or not held here, [`Error::Disconnected`].
    pub fn claim(&self, stream: SocketId, queue: &AppQueue) -> Result<TcpStream, Error> {
        queue.claimed(ask(&self.connection, &queue.claim_request(stream))?)
    }

    /// Stops holding a stream. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn release(&self, stream: SocketId) -> Result<(), Error> {
        ask(&self.connection, &Request::Release { stream }).map(drop)
    }

    /// Stops holding a listener, by its [number](AppQueue::listener_number) at the queue that opened it. The others stay
    /// held. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`] when it is not held here, [`Error::Disconnected`].
    pub fn close_listener(&self, listener: SocketId) -> Result<(), Error> {
        ask(&self.connection, &Request::Close { socket: listener }).map(drop)
    }
}

fn ask(connection: &Connection, request: &Request) -> Result<Response, Error> {
    connection.send(request, &[])?;
    let (answer, _) = connection.receive()?;
    accepted(answer)
}

impl AsFd for Holder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}
