//! A queue in tasks of tokio's (the feature `tokio`): one task that awaits its events, or, for TCP, tasks
//! that read and write streams (`tcp`, `stream`).

mod driver;
mod stream;
mod tcp;

use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

use crate::error::Error;
use crate::events::Event;
use crate::queue::AppQueue;

pub use stream::AsyncTcpStream;
pub use tcp::{AsyncTcp, AsyncTcpListener};

/// A queue whose events a task awaits. A queue is one thread's: use it in a task that stays on its
/// thread (`tokio::task::spawn_local`, or a runtime of one thread). Everything that does not wait is the
/// [queue](Self::queue)'s own.
#[derive(Debug)]
pub struct AsyncQueue {
    queue: AppQueue,
    /// The queue's descriptor: readable when the stack has woken it.
    wake: AsyncFd<OwnedFd>,
    /// Readable when the stack has ended; a stack in this process has none.
    end: Option<AsyncFd<OwnedFd>>,
}

impl AsyncQueue {
    /// Puts a queue under the runtime's care. After [`reconnect`](AppQueue::reconnect) it has to be done
    /// again, since the descriptors are others.
    ///
    /// # Errors
    /// [`Error::System`] when descriptors cannot be had, or the runtime has no I/O driver.
    ///
    /// # Panics
    /// Outside a runtime of tokio's.
    pub fn new(queue: AppQueue) -> Result<AsyncQueue, Error> {
        let wake = watched(queue.as_fd().try_clone_to_owned())?;
        let end = queue.end_descriptor().map(watched).transpose()?;
        Ok(AsyncQueue { queue, wake, end })
    }

    /// The queue.
    pub fn queue(&self) -> &AppQueue {
        &self.queue
    }

    /// Gives the queue back.
    pub fn into_queue(self) -> AppQueue {
        self.queue
    }

    /// [Commits](AppQueue::commit), then waits until there is something to receive, or frames have come
    /// back. It may be dropped at any time without loss.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the stack is gone, [`Error::Channel`], [`Error::System`].
    pub async fn ready(&self) -> Result<(), Error> {
        self.queue.commit()?;
        poll_fn(|task| self.poll_ready(task)).await
    }

    /// The next event, as [`AppQueue::next`] has it, waiting for it if there is none.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn next(&self) -> Result<Event<'_>, Error> {
        loop {
            if let Some(event) = self.queue.next()? {
                return Ok(event);
            }
            self.ready().await?;
        }
    }

    fn poll_ready(&self, task: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            if !self.queue.arm()? {
                return Poll::Ready(Ok(()));
            }
            while let Some(end) = &self.end
                && let Poll::Ready(Ok(mut guard)) = end.poll_read_ready(task)
            {
                // Readable is not gone: an answer to a request may have come.
                self.queue.check()?;
                guard.clear_ready();
            }
            match self.wake.poll_read_ready(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(mut guard)) => {
                    // First, so that a write from now on makes it readable again.
                    guard.clear_ready();
                    self.queue.acknowledge();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(failed(&error))),
            }
        }
    }
}

fn watched(fd: std::io::Result<OwnedFd>) -> Result<AsyncFd<OwnedFd>, Error> {
    let fd = fd.map_err(|error| failed(&error))?;
    // The one that replaces it is unsafe, for types that can close their descriptor early.
    #[allow(deprecated, reason = "an owned descriptor stays open until it is dropped")]
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> Error {
    let source = rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO);
    Error::System { call: "epoll", source }
}
