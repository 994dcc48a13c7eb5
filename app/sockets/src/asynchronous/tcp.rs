//! TCP for tasks of tokio's: one queue, and any number of tasks of one thread that use its streams.
//!
//! ```text
//!   task: AsyncTcpStream ── poll_read, poll_write ──┐           ┌── task: AsyncTcpListener
//!                 ▲ woken                           ▼           ▼
//!                 └──────────── State: an inbox for each stream and listener
//!                                                   ▲
//!   driver, a task: events of the queue ────────────┘  then, once those tasks have run: one commit
//! ```

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::AsyncQueue;
use super::driver::{Driver, Inbox, Waiting};
use super::stream::AsyncTcpStream;
use crate::error::Error;
use crate::queue::AppQueue;
use crate::stream::{TcpListener, TcpStream};
use crate::table::Bind;

/// TCP of one queue, for the tasks of one thread. Clones are of the same queue, which is closed with the
/// last of them and of its listeners and streams.
#[derive(Clone)]
pub struct AsyncTcp(Rc<Driver>);

impl AsyncTcp {
    /// Puts a queue under the runtime's care, for TCP alone: events of UDP sockets on it would be lost.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a queue that has UDP sockets; those of [`AsyncQueue::new`].
    ///
    /// # Panics
    /// Outside a `LocalSet` or a runtime of one thread that takes local tasks.
    pub fn new(queue: AppQueue) -> Result<AsyncTcp, Error> {
        if queue.sockets() > 0 {
            let text = "the queue has UDP sockets; open another queue for TCP in tasks";
            return Err(Error::Protocol(text.into()));
        }
        Ok(AsyncTcp(Rc::new(Driver::start(AsyncQueue::new(queue)?))))
    }

    /// Listens, as [`AppQueue::listen`]: blocks until the stack has answered.
    ///
    /// # Errors
    /// Those of [`AppQueue::listen`].
    pub fn listen(&self, bind: &Bind, backlog: u32) -> Result<AsyncTcpListener, Error> {
        let shared = &self.0.shared;
        let listener = shared.queue().listen(bind, backlog)?;
        shared.state.borrow_mut().listeners.insert(listener, Waiting::default());
        Ok(AsyncTcpListener { driver: Rc::clone(&self.0), listener })
    }

    /// Connects to `remote`, from an address of the route's choice.
    ///
    /// # Errors
    /// Those of connecting, by the system's numbers; [`io::ErrorKind::ConnectionReset`] when the stack
    /// has ended.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<AsyncTcpStream> {
        let stream = poll_fn(|task| {
            let shared = &self.0.shared;
            shared.state.borrow().check()?;
            match shared.queue().connect_tcp(remote) {
                Ok(stream) => Poll::Ready(Ok(stream)),
                Err(Error::WouldBlock) => {
                    shared.try_again(task);
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(io::Error::from(error))),
            }
        })
        .await?;
        self.0.shared.state.borrow_mut().streams.insert(stream, Inbox::default());
        self.0.shared.kick();
        let stream = AsyncTcpStream { driver: Rc::clone(&self.0), stream };
        stream.connected().await?;
        Ok(stream)
    }
}

impl std::fmt::Debug for AsyncTcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let streams = self.0.shared.state.borrow().streams.len();
        write!(f, "AsyncTcp({:?}, {streams} streams)", self.0.shared.queue())
    }
}

/// A listener, for the tasks of one thread. Dropping it closes it: connections that were not accepted are reset.
pub struct AsyncTcpListener {
    driver: Rc<Driver>,
    listener: TcpListener,
}

impl AsyncTcpListener {
    /// The next connection. It may be dropped at any time without loss.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionReset`] when the stack has ended.
    pub async fn accept(&self) -> io::Result<(AsyncTcpStream, SocketAddr)> {
        let stream = poll_fn(|task| self.poll_accept(task)).await?;
        let stream = AsyncTcpStream { driver: Rc::clone(&self.driver), stream };
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }

    fn poll_accept(&self, task: &Context<'_>) -> Poll<io::Result<TcpStream>> {
        let mut state = self.driver.shared.state.borrow_mut();
        state.check()?;
        let Some(waiting) = state.listeners.get_mut(&self.listener) else { return Poll::Pending };
        match waiting.accepted.pop_front() {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => {
                waiting.wakers.push(task.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Its address and port.
    ///
    /// # Errors
    /// [`Error::NoSocket`] when the stack has closed it.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.driver.shared.queue().listener_addr(self.listener)
    }
}

impl Drop for AsyncTcpListener {
    fn drop(&mut self) {
        let shared = &self.driver.shared;
        let waiting = shared.state.borrow_mut().listeners.remove(&self.listener);
        // It is closed already with a stack that has ended.
        let _ = shared.queue().close_listener(self.listener);
        for stream in waiting.into_iter().flat_map(|waiting| waiting.accepted) {
            // With octets that nobody has read the peer is reset; one that has sent none sees the end.
            shared.close(stream);
        }
    }
}

impl std::fmt::Debug for AsyncTcpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AsyncTcpListener({:?})", self.listener)
    }
}
