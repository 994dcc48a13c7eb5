//! Listeners and streams of a queue: their handles and their state.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;

use weever_app_ring::{Frame, NumberMap, SocketId, StreamOption};

use crate::error::Error;
use crate::table::{Bind, next_generation};

/// A TCP listener on a queue: a handle that stays the same when the queue
/// [reconnects](crate::AppQueue::reconnect).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpListener {
    pub(crate) generation: u32,
}

/// A TCP connection on a queue: a handle that names nothing once the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpStream {
    pub(crate) number: SocketId,
    /// No other stream of this process had the same.
    pub(crate) generation: u32,
}

/// An open listener.
pub(crate) struct Listener {
    pub(crate) handle: TcpListener,
    /// With the port that the stack chose.
    pub(crate) bind: Bind,
    pub(crate) backlog: u32,
    /// Settings that its streams begin with, for another stack after this one.
    pub(crate) options: Vec<StreamOption>,
    pub(crate) ready: Cell<u32>,
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) generation: u32,
    pub(crate) channel: u16,
    /// Our end and the peer's, once it is connected.
    pub(crate) ends: Option<(SocketAddr, SocketAddr)>,
    /// Frames of octets that are not acknowledged.
    pub(crate) unacknowledged: u32,
    /// Octets in them.
    pub(crate) octets: u64,
    /// The most such frames, if the application has chosen.
    pub(crate) most: Option<u32>,
    /// A write has found no room.
    pub(crate) blocked: bool,
    /// The application sends no more.
    pub(crate) finished: bool,
    /// Octets that were read and the stack is not told of yet.
    pub(crate) read: u32,
    /// Octets in buffers of the application.
    pub(crate) held: u32,
    pub(crate) ready: Cell<u32>,
}

/// An event that the library itself finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Writable(TcpStream),
    Failed(TcpStream, u16),
}

/// The listeners and streams of a queue, by the numbers in the channels' entries.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) listeners: NumberMap<Listener>,
    pub(crate) open: NumberMap<Stream>,
    /// Streams with octets that were read and the stack is not told of yet.
    pub(crate) readers: Vec<SocketId>,
    pub(crate) found: VecDeque<Found>,
    /// Connections whose listener was closed while they were on their way, with the frames that they have brought; the
    /// next listener's application gets both.
    pub(crate) passing: NumberMap<Vec<Frame>>,
    /// Marks that streams have changed over to another channel, which the stack is not told yet: number,
    /// channel and value.
    pub(crate) marks: Vec<(SocketId, u16, u32)>,
    /// The number of the stream that was connected last.
    last: u32,
}

/// Numbers of connected streams begin here, above those of sockets.
pub(crate) const FIRST: u32 = 1 << 30;

impl Streams {
    /// Whether there is anything to look after.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.found.is_empty()
    }

    pub(crate) fn add(&mut self, number: SocketId, channel: u16) -> TcpStream {
        let generation = next_generation();
        let stream = Stream {
            generation,
            channel,
            ends: None,
            unacknowledged: 0,
            octets: 0,
            most: None,
            blocked: false,
            finished: false,
            read: 0,
            held: 0,
            ready: Cell::new(0),
        };
        self.open.insert(number, stream);
        TcpStream { number, generation }
    }

    /// A number for a stream to connect.
    pub(crate) fn new_number(&mut self) -> SocketId {
        loop {
            self.last = (self.last + 1) % FIRST;
            if !self.open.contains_key(&(FIRST | self.last)) {
                return FIRST | self.last;
            }
        }
    }

    pub(crate) fn get(&mut self, stream: TcpStream) -> Result<&mut Stream, Error> {
        let there = self.open.get_mut(&stream.number);
        there.filter(|there| there.generation == stream.generation).ok_or(Error::NoSocket)
    }

    /// The handle of a stream by its number.
    pub(crate) fn handle(&self, number: SocketId) -> Option<TcpStream> {
        let generation = self.open.get(&number)?.generation;
        Some(TcpStream { number, generation })
    }

    /// The number of a listener.
    pub(crate) fn listener(&self, listener: TcpListener) -> Result<SocketId, Error> {
        let mut all = self.listeners.iter();
        let found = all.find(|(_, there)| there.handle == listener);
        found.map(|(number, _)| *number).ok_or(Error::NoSocket)
    }

    /// A frame of a stream has come back: it may be writable again.
    pub(crate) fn returned(&mut self, (number, octets): (SocketId, u16), limit: u32) {
        let Some(stream) = self.open.get_mut(&number) else { return };
        stream.unacknowledged = stream.unacknowledged.saturating_sub(1);
        stream.octets = stream.octets.saturating_sub(octets.into());
        if stream.blocked && stream.unacknowledged <= stream.most.unwrap_or(limit) / 2 {
            stream.blocked = false;
            let generation = stream.generation;
            self.found.push_back(Found::Writable(TcpStream { number, generation }));
        }
    }

    /// Notes frames with so many octets that were handed over, and whether more would have been: such a stream is told
    /// of once it is writable.
    pub(crate) fn wrote(
        &mut self,
        stream: TcpStream,
        (frames, octets): (u32, usize),
        wanted_more: bool,
    ) {
        let Ok(there) = self.get(stream) else { return };
        there.unacknowledged += frames;
        there.octets += octets as u64;
        there.blocked = wanted_more;
        if there.blocked && there.unacknowledged == 0 {
            // Frames of others have to come back first: nothing of its own will tell.
            there.blocked = false;
            self.found.push_back(Found::Writable(stream));
        }
    }

    /// A stream is at another worker: it is used by that one's channel from now on.
    pub(crate) fn change_over(&mut self, number: SocketId, (from, to): (u16, u16)) {
        if let Some(stream) = self.open.get_mut(&number) {
            stream.channel = to;
            self.marks.extend([(number, from, 0), (number, to, 1)]);
        }
    }

    /// Notes octets that the application has read.
    pub(crate) fn read(&mut self, number: SocketId, octets: u16) {
        let Some(stream) = self.open.get_mut(&number).filter(|_| octets > 0) else { return };
        if stream.read == 0 {
            self.readers.push(number);
        }
        stream.held = stream.held.saturating_sub(octets.into());
        stream.read += u32::from(octets);
    }
}
