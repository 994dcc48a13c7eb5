//! A connection in a task of tokio's.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weever_app_ring::StreamOption;

use super::driver::{Driver, Inbox, Shared};
use crate::error::Error;
use crate::octets::StreamBuf;
use crate::stream::TcpStream;

/// A TCP connection, for the tasks of one thread: [`AsyncRead`] and [`AsyncWrite`]. What was written leaves
/// by itself once the tasks that are ready have run; flushing adds nothing. Dropping it closes the
/// connection: what was written still goes.
pub struct AsyncTcpStream {
    pub(super) driver: Rc<Driver>,
    pub(super) stream: TcpStream,
}

impl AsyncTcpStream {
    fn shared(&self) -> &Shared {
        &self.driver.shared
    }

    /// Waits until it is connected.
    pub(super) async fn connected(&self) -> io::Result<()> {
        poll_fn(|task| {
            self.with(|inbox| {
                if inbox.connected {
                    return Poll::Ready(Ok(()));
                }
                failed(inbox)?;
                inbox.writer = Some(task.waker().clone());
                Poll::Pending
            })
        })
        .await
    }

    /// Our end and the peer's.
    fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok(self.shared().queue().stream_ends(self.stream)?)
    }

    /// Our end.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] once the connection is over.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.ends()?.0)
    }

    /// The peer's end.
    ///
    /// # Errors
    /// As [`local_addr`](Self::local_addr).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.ends()?.1)
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the ring is full; [`io::ErrorKind::InvalidInput`] once the
    /// connection is over.
    pub fn set_option(&self, option: StreamOption) -> io::Result<()> {
        self.shared().queue().set_option(self.stream, option)?;
        self.shared().kick();
        Ok(())
    }

    fn with<T>(&self, what: impl FnOnce(&mut Inbox) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut state = self.shared().state.borrow_mut();
        state.check()?;
        match state.streams.get_mut(&self.stream) {
            Some(inbox) => what(inbox),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

fn failed(inbox: &Inbox) -> io::Result<()> {
    let failed = inbox.failed.map(|errno| io::Error::from_raw_os_error(errno.into()));
    failed.map_or(Ok(()), Err)
}

impl AsyncRead for AsyncTcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.with(|inbox| {
            while buf.remaining() > 0
                && let Some(octets) = inbox.octets.pop_front()
            {
                let mut octets = StreamBuf::attach(self.shared().queue(), self.stream, octets);
                let now = octets.octets().len().min(buf.remaining());
                buf.put_slice(&octets.octets()[..now]);
                octets.advance(now);
                if !octets.octets().is_empty() {
                    inbox.octets.push_front(octets.detach());
                }
            }
            if buf.filled().len() > before || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            failed(inbox)?;
            if inbox.finished {
                return Poll::Ready(Ok(()));
            }
            inbox.reader = Some(task.waker().clone());
            Poll::Pending
        });
        if buf.filled().len() > before {
            // The peer may send more.
            self.shared().kick();
        }
        read
    }
}

impl AsyncWrite for AsyncTcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.with(|inbox| {
            failed(inbox)?;
            match self.shared().queue().write(self.stream, octets) {
                Ok(count) => Poll::Ready(Ok(count)),
                Err(Error::WouldBlock) => {
                    inbox.writer = Some(task.waker().clone());
                    Poll::Pending
                }
                Err(Error::NoSocket) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                Err(error) => Poll::Ready(Err(error.into())),
            }
        });
        self.shared().kick();
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|inbox| Poll::Ready(failed(inbox)))
    }

    /// Sends no more than was written; the peer may go on.
    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.shared().queue().finish(self.stream) {
            // One that is finished or over sends no more.
            Ok(()) | Err(Error::NoSocket) => {
                self.shared().kick();
                Poll::Ready(Ok(()))
            }
            Err(Error::WouldBlock) => {
                self.shared().try_again(task);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl Drop for AsyncTcpStream {
    fn drop(&mut self) {
        self.shared().close(self.stream);
    }
}

impl std::fmt::Debug for AsyncTcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AsyncTcpStream({:?})", self.stream)
    }
}
