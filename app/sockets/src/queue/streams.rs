//! TCP on a queue: listening, connecting and writing.

use std::net::SocketAddr;

use weever_app_ring::control::{Request, Response, Share};
use weever_app_ring::{Frame, INFO_SIZE, Kind, PacketInfo, SubmitError};

use super::AppQueue;
use crate::error::Error;
use crate::octets::StreamTxBuf;
use crate::stream::{Listener, Stream, Streams, TcpListener, TcpStream};
use crate::table::{Bind, next_generation};

/// The most frames with octets that are not acknowledged, of one stream.
const MOST_UNACKNOWLEDGED: u32 = 256;

impl AppQueue {
    /// Listens for TCP connections, of which `backlog` may wait to be accepted. An unspecified
    /// address is any of the stack's, port 0 an ephemeral one. With `shared`, listeners of other
    /// queues may have the same address and port, and take turns. Connections come as
    /// [`Event::Accepted`](crate::Event::Accepted). Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Disconnected`].
    pub fn listen_tcp(
        &self,
        local: SocketAddr,
        backlog: u32,
        shared: bool,
    ) -> Result<TcpListener, Error> {
        let sharing = if shared { Share::ByFlow } else { Share::Exclusive };
        self.listen(&Bind::at(local).shared(sharing), backlog)
    }

    /// As [`listen_tcp`](Self::listen_tcp), by the address, port, family and sharing of a binding.
    ///
    /// # Errors
    /// As [`listen_tcp`](Self::listen_tcp); [`Error::Refused`] for a binding with a peer or an interface,
    /// which listeners do not have.
    pub fn listen(&self, bind: &Bind, backlog: u32) -> Result<TcpListener, Error> {
        let handle = TcpListener { generation: next_generation() };
        let (options, ready) = (Vec::new(), std::cell::Cell::new(0));
        let listener = Listener { handle, bind: bind.clone(), backlog, options, ready };
        self.open_listener(listener)?;
        Ok(handle)
    }

    pub(super) fn open_listener(&self, mut listener: Listener) -> Result<(), Error> {
        let answer = self.ask(&listener.bind.listen_request(listener.backlog)?)?;
        let Response::Socket { socket, local_port } = answer else {
            return Err(Error::Protocol(format!("{answer:?}")));
        };
        listener.bind = listener.bind.with_port(local_port);
        for option in &listener.options {
            self.tell_all(socket, *option)?;
        }
        self.streams.borrow_mut().listeners.insert(socket, listener);
        Ok(())
    }

    /// Stops listening; streams that were accepted stay open. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::Disconnected`].
    pub fn close_listener(&self, listener: TcpListener) -> Result<(), Error> {
        let socket = self.streams.borrow().listener(listener)?;
        self.ask(&Request::Close { socket })?;
        self.streams.borrow_mut().listeners.remove(&socket);
        Ok(())
    }

    /// The address and port of a listener.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn listener_addr(&self, listener: TcpListener) -> Result<SocketAddr, Error> {
        let streams = self.streams.borrow();
        Ok(streams.listeners[&streams.listener(listener)?].bind.local())
    }

    /// Asks for a TCP connection to `remote`, from an address of the route's choice and an ephemeral
    /// port. The stack sees it after [`commit`](Self::commit); [`Event::Connected`](crate::Event::Connected) or
    /// [`Event::StreamFailed`](crate::Event::StreamFailed) tells the outcome. Does not block.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when no frame is free or the ring is full, [`Error::Channel`].
    pub fn connect_tcp(&self, remote: SocketAddr) -> Result<TcpStream, Error> {
        let unspecified = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        self.connect_tcp_from(unspecified.parse().expect("it is an address"), remote)
    }

    /// As [`connect_tcp`](Self::connect_tcp), from this address, unless it is unspecified, and this
    /// port, unless it is 0. With a port, it blocks if the stack has the kernel's addresses, until the port is
    /// [taken](Self::take_port).
    ///
    /// # Errors
    /// As [`connect_tcp`](Self::connect_tcp) and [`take_port`](Self::take_port).
    pub fn connect_tcp_from(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<TcpStream, Error> {
        self.take_port(local.port(), false)?;
        let mut streams = self.streams.borrow_mut();
        let number = streams.new_number();
        // Each worker gets its share of them.
        let channel = number as usize % self.channels.len();
        let mut end = self.channels[channel].end.borrow_mut();
        let frame = end.alloc()?.ok_or(Error::WouldBlock)?;
        let ends = PacketInfo { local, remote, ..PacketInfo::default() };
        match end.submit_connect(frame, number, &ends) {
            Ok(()) => {
                // The next one from there is another, for which it is taken anew.
                self.taken_ports
                    .borrow_mut()
                    .iter_mut()
                    .for_each(|taken| _ = taken.remove(&local.port()));
                Ok(streams.add(number, channel as u16))
            }
            Err(SubmitError::Full(frame) | SubmitError::Range { frame, .. }) => {
                end.release(frame);
                Err(Error::WouldBlock)
            }
            Err(SubmitError::Channel(error)) => Err(error.into()),
            Err(other) => Err(Error::Protocol(other.to_string())),
        }
    }

    /// Writes octets to a stream, as many as there is room for now, and returns how many. The stack
    /// sees them after [`commit`](Self::commit). Does not block.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is room for none: [`Event::Writable`](crate::Event::Writable) follows.
    /// [`Error::NoSocket`] when the stream is closed or finished, [`Error::Channel`].
    pub fn write(&self, stream: TcpStream, octets: &[u8]) -> Result<usize, Error> {
        let mut streams = self.streams.borrow_mut();
        let (room, channel) = self.room(&mut streams, stream)?;
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        let size = usize::from(end.geometry().payload_size());
        let (mut done, mut frames) = (0, 0);
        for part in octets.chunks(size).take(room as usize) {
            let Some(mut frame) = end.alloc()? else { break };
            end.frames().space(&mut frame, INFO_SIZE)[..part.len()].copy_from_slice(part);
            match end.submit_stream(frame, stream.number, (INFO_SIZE, part.len() as u16)) {
                Ok(()) => {}
                Err(SubmitError::Full(frame) | SubmitError::Range { frame, .. }) => {
                    end.release(frame);
                    break;
                }
                Err(SubmitError::Channel(error)) => return Err(error.into()),
                Err(other) => return Err(Error::Protocol(other.to_string())),
            }
            frames += 1;
            done += part.len();
        }
        streams.wrote(stream, (frames, done), done < octets.len());
        if done == 0 && !octets.is_empty() { Err(Error::WouldBlock) } else { Ok(done) }
    }

    /// A frame to write octets of this stream into, which are not copied on this side. Does not block.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn alloc_octets(&self, stream: TcpStream) -> Result<StreamTxBuf<'_>, Error> {
        let mut streams = self.streams.borrow_mut();
        let (room, channel) = self.room(&mut streams, stream)?;
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        let frame = if room > 0 { end.alloc()? } else { None };
        if frame.is_none() {
            streams.wrote(stream, (0, 0), true);
            return Err(Error::WouldBlock);
        }
        Ok(StreamTxBuf { queue: self, stream, channel, frame, start: INFO_SIZE })
    }

    /// Hands a frame with octets to the stack. It comes back with a reason that leaves it whole.
    pub(crate) fn submit_octets(
        &self,
        stream: TcpStream,
        frame: Frame,
        range: (u16, u16),
    ) -> Result<(), (Option<Frame>, Error)> {
        let mut streams = self.streams.borrow_mut();
        let (room, channel) = match self.room(&mut streams, stream) {
            Ok(found) => found,
            Err(error) => return Err((Some(frame), error)),
        };
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        let submitted = match room {
            0 => Err(SubmitError::Full(frame)),
            _ => end.submit_stream(frame, stream.number, range),
        };
        match submitted {
            Ok(()) => {
                streams.wrote(stream, (1, range.1.into()), false);
                Ok(())
            }
            Err(SubmitError::Full(frame) | SubmitError::Range { frame, .. }) => {
                streams.wrote(stream, (0, 0), true);
                Err((Some(frame), Error::WouldBlock))
            }
            Err(SubmitError::Channel(error)) => Err((None, error.into())),
            Err(other) => Err((None, Error::Protocol(other.to_string()))),
        }
    }

    /// How many more frames of a stream may be under way, and its channel.
    fn room(&self, streams: &mut Streams, stream: TcpStream) -> Result<(u32, u16), Error> {
        let there = streams.get(stream)?;
        if there.finished {
            return Err(Error::NoSocket);
        }
        let most = there.most.unwrap_or_else(|| self.most_unacknowledged());
        let room = most.saturating_sub(there.unacknowledged);
        Ok((room, there.channel))
    }

    pub(super) fn most_unacknowledged(&self) -> u32 {
        (self.config.geometry.frames / 8).clamp(2, MOST_UNACKNOWLEDGED)
    }

    /// Sends no more than was written (half-close); the peer may go on sending.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the ring is full, [`Error::NoSocket`], [`Error::Channel`].
    pub fn finish(&self, stream: TcpStream) -> Result<(), Error> {
        self.tell(stream, Kind::Finished, 0)?;
        self.streams.borrow_mut().get(stream)?.finished = true;
        Ok(())
    }

    /// Closes a stream: octets that were written still go, and no more events of it come. As on Linux,
    /// the peer is reset if octets have come that were not taken off the queue, or
    /// [`StreamOption::ResetOnClose`](crate::StreamOption::ResetOnClose) says so.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn close_stream(&self, stream: TcpStream) -> Result<(), Error> {
        let Stream { channel, read, held, .. } = *self.streams.borrow_mut().get(stream)?;
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        if end.transmit_room(2)? < 2 {
            return Err(Error::WouldBlock);
        }
        // What the application has in its hands counts as read: only what it never saw resets the peer.
        if read + held > 0 {
            end.request(Kind::Consumed, stream.number, read + held)?;
        }
        end.request(Kind::Closed, stream.number, 0)?;
        drop(end);
        self.streams.borrow_mut().open.remove(&stream.number);
        Ok(())
    }

    /// Resets a stream; octets on their way are lost, and no more events of it come.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn abort(&self, stream: TcpStream) -> Result<(), Error> {
        self.tell(stream, Kind::Abort, 0)?;
        self.streams.borrow_mut().open.remove(&stream.number);
        Ok(())
    }

    /// Our end of a connected stream, and the peer's.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::NoDestination`] while it is not connected.
    pub fn stream_ends(&self, stream: TcpStream) -> Result<(SocketAddr, SocketAddr), Error> {
        self.streams.borrow_mut().get(stream)?.ends.ok_or(Error::NoDestination)
    }

    pub(super) fn tell(&self, stream: TcpStream, kind: Kind, value: u32) -> Result<(), Error> {
        let channel = usize::from(self.streams.borrow_mut().get(stream)?.channel);
        let written =
            self.channels[channel].end.borrow_mut().request(kind, stream.number, value)?;
        if written { Ok(()) } else { Err(Error::WouldBlock) }
    }

    /// Tells the stack of octets that were read, as far as the rings have room.
    pub(super) fn commit_read(&self) -> Result<(), Error> {
        let mut streams = self.streams.borrow_mut();
        self.mark_moves(&mut streams);
        while let Some(number) = streams.readers.last().copied() {
            if let Some(Stream { channel, read, .. }) = streams.open.get_mut(&number) {
                let mut end = self.channels[usize::from(*channel)].end.borrow_mut();
                if !end.request(Kind::Consumed, number, *read)? {
                    break;
                }
                *read = 0;
            }
            streams.readers.pop();
        }
        Ok(())
    }

    /// Tells the stack that streams are used by their new channels from now on, as far as the rings have room.
    pub(super) fn mark_moves(&self, streams: &mut Streams) {
        if streams.marks.is_empty() {
            return;
        }
        streams.marks.retain(|(number, channel, value)| {
            let mut end = self.channels[usize::from(*channel)].end.borrow_mut();
            // A broken channel is found out by the next call that reads it.
            !end.request(Kind::Moved, *number, *value).unwrap_or(true)
        });
    }
}
