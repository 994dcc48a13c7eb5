//! Datagrams and events are taken off the receive rings, and datagrams put on the transmit rings.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use weever_app_ring::{AppEnd, Kind, PackedInfo, Received, SubmitError};

use super::AppQueue;
use crate::buffer::{Part, Parts, RxBuf, SendOptions, TxBuf};
use crate::cause::Cause;
use crate::error::Error;
use crate::events::{Event, Events, Handle, Look};
use crate::stream::FIRST as FIRST_STREAM;
use crate::table::UdpSocket;

impl AppQueue {
    /// The next thing that happened, channel by channel in the order of arrival; `None` when there
    /// is nothing more now. Does not block. A stack in this thread turns when the rings are empty, and
    /// takes along what was sent, as by [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::Channel`]: the queue is of no more use. [`Error::Disconnected`] by a stack in this
    /// process that has failed.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and ends for now, not for good")]
    #[inline]
    pub fn next(&self) -> Result<Option<Event<'_>>, Error> {
        match self.next_arrived() {
            Ok(None) => {}
            // As it is: an event that is taken apart and put together is copied each time.
            found => return found,
        }
        if self.turn()? { self.next_arrived() } else { Ok(None) }
    }

    /// As [`next`](Self::next), in bounded time: it takes one entry off the rings, or has a stack in
    /// this thread turn once.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn look(&self) -> Result<Look<'_>, Error> {
        if let Some(event) = self.next_found() {
            return Ok(Look::Event(event));
        }
        let count = self.channels.len();
        for _ in 0..count {
            let current = self.current.get();
            let received = self.channels[current].end.borrow_mut().receive()?;
            if let Some(received) = received {
                let event = self.event(current as u16, received)?;
                return Ok(event.map_or(Look::Worked, Look::Event));
            }
            self.current.set(if current + 1 < count { current + 1 } else { 0 });
        }
        Ok(if self.turn()? { Look::Worked } else { Look::Nothing })
    }

    /// Takes everything that has happened, as far as there is room in `events`, which is cleared
    /// before. Returns how much it was. Does not block.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn poll<'q>(&'q self, events: &mut Events<'q>) -> Result<usize, Error> {
        events.clear();
        self.fill(events)?;
        if events.is_empty() && self.turn()? {
            self.fill(events)?;
        }
        Ok(events.len())
    }

    fn fill<'q>(&'q self, events: &mut Events<'q>) -> Result<(), Error> {
        while !events.is_full() {
            let Some(event) = self.next_arrived()? else { break };
            self.push(event, events);
        }
        Ok(())
    }

    /// Puts an event behind the others of its socket.
    fn push<'q>(&'q self, event: Event<'q>, events: &mut Events<'q>) {
        match event.socket() {
            Handle::Udp(socket) => {
                let table = self.table.borrow();
                if let Some(entry) = table.get(socket) {
                    events.push(event, &entry.ready);
                }
            }
            Handle::Listener(listener) => {
                let streams = self.streams.borrow();
                let there =
                    streams.listener(listener).ok().map(|number| &streams.listeners[&number]);
                if let Some(there) = there {
                    events.push(event, &there.ready);
                }
            }
            Handle::Stream(stream) => {
                let streams = self.streams.borrow();
                let gone = Cell::new(u32::MAX);
                let ready = streams.open.get(&stream.number).map_or(&gone, |there| &there.ready);
                events.push(event, ready);
            }
        }
    }

    /// As [`next`](Self::next), of what has arrived already: a stack in this thread does not turn.
    ///
    /// # Errors
    /// [`Error::Channel`]: the queue is of no more use.
    pub fn next_arrived(&self) -> Result<Option<Event<'_>>, Error> {
        if let Some(event) = self.next_found() {
            return Ok(Some(event));
        }
        let count = self.channels.len();
        let mut current = self.current.get();
        for _ in 0..count {
            loop {
                let received = self.channels[current].end.borrow_mut().receive()?;
                let Some(received) = received else { break };
                self.current.set(current);
                match self.event(current as u16, received) {
                    Ok(None) => {}
                    found => return found,
                }
            }
            current = if current + 1 < count { current + 1 } else { 0 };
        }
        self.current.set(current);
        Ok(None)
    }

    /// The next datagram of a socket, if nothing else comes before it; otherwise nothing, and
    /// [`next`](Self::next) tells what there is. Takes less time than that, for a program that reads a certain
    /// socket.
    ///
    /// # Errors
    /// [`Error::NoSocket`]; [`Error::Channel`]: the queue is of no more use.
    #[inline]
    pub fn next_of(&self, socket: UdpSocket) -> Result<Option<RxBuf<'_>>, Error> {
        let channel = self.current.get() as u16;
        let table = self.table.borrow();
        let entry = table.get(socket).ok_or(Error::NoSocket)?;
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        let Some(received) = end.receive_for(entry.number)? else { return Ok(None) };
        drop(end);
        entry.home.set(channel);
        let parts = Some(self.gather(channel, received)?);
        Ok(Some(RxBuf { queue: self, socket, channel, parts }))
    }

    /// Whether there is more of what had arrived when [`next`](Self::next) last had nothing, without a look for what came since:
    /// for a program that looks elsewhere between what comes at once.
    #[inline]
    pub fn knows_of_more(&self) -> bool {
        self.channels.iter().any(|channel| channel.end.borrow().knows_of_more())
    }

    /// Whether an error is among what has arrived: for a program that takes one event after the other, or none, and wants to
    /// know of errors first.
    ///
    /// # Errors
    /// [`Error::Channel`]: the queue is of no more use.
    #[inline]
    pub fn holds_error(&self) -> Result<bool, Error> {
        for channel in &self.channels {
            if channel.end.borrow_mut().holds_error()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing when it concerns a socket that is closed here.
    fn event(&self, channel: u16, received: Received) -> Result<Option<Event<'_>>, Error> {
        let (number, kind, errno) = (received.socket, received.kind, received.offset);
        let of_stream = matches!(
            kind,
            Kind::Stream
                | Kind::Connected
                | Kind::Finished
                | Kind::Info
                | Kind::Moved
                | Kind::Released
        );
        if of_stream || number >= FIRST_STREAM {
            return Ok(self.stream_event(channel, received));
        }
        let mut cause = None;
        let parts = match kind {
            Kind::Data => Some(self.gather(channel, received)?),
            _ => {
                if let (Kind::Error, Some(frame)) = (kind, &received.frame) {
                    let frames = self.frames_of(channel);
                    let (info, told) = (frames.info(frame), frames.cause(frame));
                    let ends = (info.local, info.remote);
                    cause = Some(Box::new(Cause { ends, told, mtu: received.len }));
                }
                self.release(channel, received.frame);
                None
            }
        };
        let table = self.table.borrow();
        let Some((socket, entry)) = table.by_number(number) else {
            let parts = parts.into_iter().flat_map(|p| std::iter::once(p.first).chain(p.more));
            self.release(channel, parts.map(|part| part.frame));
            return Ok(None);
        };
        Ok(Some(match (parts, kind) {
            (Some(parts), _) => {
                entry.home.set(channel);
                Event::Datagram(RxBuf { queue: self, socket, channel, parts: Some(parts) })
            }
            (None, Kind::Closed) => Event::Closed(socket),
            _ => Event::Error(socket, errno, cause),
        }))
    }

    /// Gathers the frames of one datagram.
    #[inline]
    fn gather(&self, channel: u16, first: Received) -> Result<Parts, Error> {
        let left = first.more;
        let mut parts = Parts { first: part(first)?, more: Vec::new() };
        if left > 0 {
            self.gather_more(channel, left, &mut parts.more)?;
        }
        Ok(parts)
    }

    #[inline(never)]
    fn gather_more(&self, channel: u16, mut left: u8, more: &mut Vec<Part>) -> Result<(), Error> {
        while left > 0 {
            let received = self.channels[usize::from(channel)].end.borrow_mut().receive()?;
            let received = received.ok_or_else(broken)?;
            left = received.more;
            more.push(part(received)?);
        }
        Ok(())
    }
}

#[inline]
fn part(Received { frame, offset, len, .. }: Received) -> Result<Part, Error> {
    frame.map(|frame| Part { frame, offset, len }).ok_or_else(broken)
}

#[cold]
fn broken() -> Error {
    Error::Protocol("a datagram without all of its frames".into())
}

/// Bytes of the longest UDP payload over IPv4 (RFC 768): 65,535 less both headers.
const LONGEST: usize = 65_507;
/// A connected socket's peer is the stack's to know.
const ITS_PEER: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

impl AppQueue {
    /// A free frame to write a datagram of this socket into. Does not block.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when none is free, [`Error::NoSocket`], [`Error::Channel`].
    pub fn alloc(&self, socket: UdpSocket) -> Result<TxBuf<'_>, Error> {
        let channel = self.with(socket, |entry| entry.home.get())?;
        let frame = self.channels[usize::from(channel)].end.borrow_mut().alloc()?;
        let frame = Some(frame.ok_or(Error::WouldBlock)?);
        let info = SendOptions::default().info(ITS_PEER);
        let start = self.frames_of(channel).room();
        Ok(TxBuf { queue: self, socket, channel, info, frame, start })
    }

    /// A free frame for any of the queue's sockets: say [by which](TxBuf::by) before it is sent. Does
    /// not block.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when none is free, [`Error::Channel`].
    pub fn alloc_unbound(&self) -> Result<TxBuf<'_>, Error> {
        for (channel, there) in (0..).zip(&self.channels) {
            if let Some(frame) = there.end.borrow_mut().alloc()? {
                let info = SendOptions::default().info(ITS_PEER);
                let (socket, frame) = (UdpSocket::NONE, Some(frame));
                let start = there.frames.room();
                return Ok(TxBuf { queue: self, socket, channel, info, frame, start });
            }
        }
        Err(Error::WouldBlock)
    }

    /// Selects the [worker](crate::RxBuf::worker) of the stack that sends a socket's datagrams, until the socket's
    /// next datagram arrives. By default, it is the worker that has brought the last one. This is for answers that
    /// are not given at once, where a policy keeps flows apart on workers. A number without a worker is ignored.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn send_by(&self, socket: UdpSocket, worker: u16) -> Result<(), Error> {
        let there = usize::from(worker) < self.channels.len();
        self.with(socket, |entry| {
            if there {
                entry.home.set(worker)
            }
        })
    }

    /// Sends a payload, which is copied into frames, from a socket to a peer. The stack sees it after
    /// [`commit`](Self::commit). Does not block.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when no frame is free; [`Error::TooLong`]; [`Error::NoSocket`];
    /// [`Error::Channel`].
    pub fn send_to(
        &self,
        socket: UdpSocket,
        payload: &[u8],
        remote: SocketAddr,
        options: SendOptions,
    ) -> Result<(), Error> {
        let channel = self.with(socket, |entry| entry.home.get())?;
        let parts = {
            let mut end = self.channels[usize::from(channel)].end.borrow_mut();
            let size = usize::from(end.payload_size());
            let most = LONGEST.min(size * (usize::from(u8::MAX) + 1));
            if payload.len() > most {
                return Err(Error::TooLong { len: payload.len(), most });
            }
            copied(&mut end, payload, size)?
        };
        self.submit(channel, socket, &options.info(remote), parts)
    }

    /// As [`send_to`](Self::send_to), to a connected socket's peer.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to); [`Error::NoDestination`] for a socket without a peer.
    pub fn send(&self, socket: UdpSocket, payload: &[u8]) -> Result<(), Error> {
        self.send_to(socket, payload, ITS_PEER, SendOptions::default())
    }

    pub(crate) fn submit(
        &self,
        channel: u16,
        socket: UdpSocket,
        info: &PackedInfo,
        Parts { first, more }: Parts,
    ) -> Result<(), Error> {
        let number = self.with(socket, |entry| {
            let nowhere = info.remote().1 == 0 && !entry.is_connected();
            if nowhere { Err(Error::NoDestination) } else { Ok(entry.number) }
        });
        let mut end = self.channels[usize::from(channel)].end.borrow_mut();
        if let Ok(Ok(number)) = number
            && more.is_empty()
        {
            let Part { frame, offset, len } = first;
            let sent = end.submit(frame, number, *info, (offset, len, 0));
            return sent.or_else(|error| refused(&mut end, error));
        }
        let count = more.len() + 1;
        let parts = std::iter::once(first).chain(more);
        // All of a datagram or nothing.
        let room = end.transmit_room(count as u32)? as usize;
        let number = match number.and_then(|number| number) {
            Ok(number) if room >= count => number,
            refused => {
                parts.for_each(|part| end.release(part.frame));
                return refused.and(Err(Error::WouldBlock));
            }
        };
        for (i, Part { frame, offset, len }) in parts.enumerate() {
            let sent = end.submit(frame, number, *info, (offset, len, (count - 1 - i) as u8));
            sent.or_else(|error| refused(&mut end, error))?;
        }
        Ok(())
    }
}

/// A frame that cannot be sent is free again.
#[cold]
fn refused(end: &mut AppEnd, error: SubmitError) -> Result<(), Error> {
    match error {
        SubmitError::Full(frame) | SubmitError::Range { frame, .. } => {
            end.release(frame);
            Err(Error::WouldBlock)
        }
        SubmitError::Channel(error) => Err(error.into()),
        other => Err(Error::Protocol(other.to_string())),
    }
}

/// A payload in as many frames as it needs; all of them, or none is taken.
fn copied(end: &mut AppEnd, payload: &[u8], size: usize) -> Result<Parts, Error> {
    let mut next = |bytes: &[u8]| -> Result<Option<Part>, Error> {
        let Some(mut frame) = end.alloc()? else { return Ok(None) };
        end.payload_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        let offset = end.frames().room();
        Ok(Some(Part { frame, offset, len: bytes.len() as u16 }))
    };
    let (head, rest) = payload.split_at(payload.len().min(size));
    let first = next(head)?.ok_or(Error::WouldBlock)?;
    let mut parts = Parts { first, more: Vec::new() };
    for bytes in rest.chunks(size) {
        match next(bytes)? {
            Some(part) => parts.more.push(part),
            None => {
                let Parts { first, more } = parts;
                std::iter::once(first).chain(more).for_each(|part| end.release(part.frame));
                return Err(Error::WouldBlock);
            }
        }
    }
    Ok(parts)
}
