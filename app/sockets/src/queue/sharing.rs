//! Streams that go from one process' queue to another's, and those that are not accepted.

use std::net::SocketAddr;

use weever_app_ring::control::{Request, Response};
use weever_app_ring::{Kind, SocketId};

use super::AppQueue;
use crate::error::Error;
use crate::holder::Holder;
use crate::returning::Credential;
use crate::stream::{TcpListener, TcpStream};

impl AppQueue {
    /// Sets whether a listener gets connections, as a new one does. While no listener with its address and port does,
    /// connections wait. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::Disconnected`].
    pub fn serve(&self, listener: TcpListener, serves: bool) -> Result<(), Error> {
        let socket = self.streams.borrow().listener(listener)?;
        self.ask(&Request::Serve { socket, serves }).map(drop)
    }

    /// Reports that the program has accepted a connection of a listener that [accepts
    /// each](crate::Bind::accepting_each). The stack sees it after [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the ring is full, [`Error::NoSocket`], [`Error::Channel`].
    pub fn accept(&self, stream: TcpStream) -> Result<(), Error> {
        self.tell(stream, Kind::Accepted, 0)
    }

    /// Releases a connection that was not accepted: it goes to another listener, or is reset if there is none.
    /// Otherwise like [`release_stream`](Self::release_stream).
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn decline(&self, stream: TcpStream) -> Result<(), Error> {
        self.let_go(stream, 0)
    }

    /// Releases a stream: one that other processes [hold](Self::hold) waits for them, any other is closed. Keep the
    /// received buffers until [`Event::Released`](crate::Event::Released) comes: unread octets are copied out of them.
    /// The stack sees it after [`commit`](Self::commit).
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn release_stream(&self, stream: TcpStream) -> Result<(), Error> {
        self.let_go(stream, 1)
    }

    fn let_go(&self, stream: TcpStream, value: u32) -> Result<(), Error> {
        let (channel, read) = {
            let mut streams = self.streams.borrow_mut();
            let there = streams.get(stream)?;
            (usize::from(there.channel), there.read)
        };
        let mut end = self.channels[channel].end.borrow_mut();
        if end.transmit_room(2)? < 2 {
            return Err(Error::WouldBlock);
        }
        if read > 0 {
            end.request(Kind::Consumed, stream.number, read)?;
        }
        end.request(Kind::Released, stream.number, value)?;
        drop(end);
        let mut streams = self.streams.borrow_mut();
        let there = streams.get(stream)?;
        (there.read, there.finished) = (0, true);
        Ok(())
    }

    /// A connection of its own to the stack that holds the streams of this queue, or the one with this number, for a
    /// process that may use them later: its child, or one that gets the connection. The streams stay open at least as
    /// long as this connection. A process that has changed its user since it connected shows the
    /// [credential](crate::Process::present) that it was given before. Commits everything that was read and sent until
    /// now. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`], [`Error::Refused`], [`Error::Disconnected`]; [`Error::WouldBlock`] when the ring has no
    /// room for what was read.
    pub fn hold(
        &self,
        only: Option<SocketId>,
        shown: Option<&Credential>,
    ) -> Result<Holder, Error> {
        self.publish()?;
        if !self.streams.borrow().readers.is_empty() {
            return Err(Error::WouldBlock);
        }
        Holder::new(&self.config.path, self.name.get(), only, shown)
    }

    /// A connection of its own to the stack that holds the listeners of this queue that [accept
    /// each](crate::Bind::accepting_each), for a process that may listen later: its child. As long as it is there,
    /// connections wait, up to the backlog, also when this queue is closed. With a credential as for [`hold`](Self::hold).
    /// Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`], [`Error::Refused`], [`Error::Disconnected`].
    pub fn hold_listeners(&self, shown: Option<&Credential>) -> Result<Holder, Error> {
        Holder::of_listeners(&self.config.path, self.name.get(), shown)
    }

    /// The number by which the stack, and those that [hold](Self::hold_listeners) it, know a listener.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn listener_number(&self, listener: TcpListener) -> Result<SocketId, Error> {
        self.streams.borrow().listener(listener)
    }

    /// Claims a stream back that [another process has](crate::Event::Released). Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`] when it is over, or was never this queue's; [`Error::Disconnected`].
    pub fn claim(&self, number: SocketId) -> Result<TcpStream, Error> {
        let answer = self.ask(&self.claim_request(number))?;
        self.claimed(answer)
    }

    /// Gives up the right to [claim](Self::claim) a stream back: it is closed when no other process holds it. Blocks until
    /// the stack has answered.
    ///
    /// # Errors
    /// [`Error::Disconnected`].
    pub fn renounce(&self, stream: SocketId) -> Result<(), Error> {
        self.ask(&Request::Release { stream }).map(drop)
    }

    pub(crate) fn claim_request(&self, stream: SocketId) -> Request {
        let (queue, key) = self.name.get();
        Request::Claim { stream, queue, key }
    }

    /// Adds a stream that belongs to this queue from now on.
    pub(crate) fn claimed(&self, answer: Response) -> Result<TcpStream, Error> {
        let Response::Claimed { stream, channel, local, remote } = answer else {
            return Err(Error::Protocol(format!("{answer:?}")));
        };
        if usize::from(channel) >= self.channels.len() {
            return Err(Error::Protocol(format!("there is no channel {channel}")));
        }
        let mut streams = self.streams.borrow_mut();
        let handle = streams.add(stream, channel);
        let ends: (SocketAddr, SocketAddr) = (local, remote);
        streams.get(handle)?.ends = Some(ends);
        Ok(handle)
    }

    /// The number by which the stack knows a stream.
    pub fn stream_number(&self, stream: TcpStream) -> SocketId {
        stream.number
    }
}
