//! The events of a poll: in the order of arrival, and socket by socket.

use crate::buffer::RxBuf;
use crate::cause::Cause;
use crate::info::StreamInfo;
use crate::octets::StreamBuf;
use crate::stream::{TcpListener, TcpStream};
use crate::table::UdpSocket;

/// Something that happened on a queue.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'q> {
    /// A datagram has arrived.
    Datagram(RxBuf<'q>),
    /// The socket has an error: an `errno`, and its cause, if the application had lent a frame for that.
    Error(UdpSocket, u16, Option<Box<Cause>>),
    /// The stack has closed the socket.
    Closed(UdpSocket),
    /// A listener has a new stream.
    Accepted(TcpListener, TcpStream),
    /// A stream that was asked for is connected.
    Connected(TcpStream),
    /// Octets of a stream have arrived, behind those before.
    Octets(StreamBuf<'q>),
    /// A stream that had no room can be written to again.
    Writable(TcpStream),
    /// The peer of a stream has announced urgent data (RFC 9293 §3.8.5), which is among the octets of the stream. Its last octet
    /// is so many octets behind those of earlier events: 1 is the next octet, and 0 the last one that has come. Urgent data
    /// that was announced before ends there no more.
    Urgent(TcpStream, i32),
    /// The peer of a stream sends no more.
    Finished(TcpStream),
    /// A stream has failed: an `errno`.
    StreamFailed(TcpStream, u16),
    /// How a stream is doing, which was asked for.
    Info(TcpStream, StreamInfo),
    /// A stream does not belong to this queue any more: another process has claimed it, or it was
    /// [released](crate::AppQueue::release_stream). Octets that were not read are delivered again to the next queue;
    /// their buffers can be dropped now.
    Released(TcpStream),
    /// A stream is over; its handle names nothing any more.
    StreamClosed(TcpStream),
}

/// A socket of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Handle {
    /// A UDP socket.
    Udp(UdpSocket),
    /// A TCP listener.
    Listener(TcpListener),
    /// A TCP connection.
    Stream(TcpStream),
}

impl From<UdpSocket> for Handle {
    fn from(socket: UdpSocket) -> Handle {
        Handle::Udp(socket)
    }
}

impl From<TcpListener> for Handle {
    fn from(listener: TcpListener) -> Handle {
        Handle::Listener(listener)
    }
}

impl Event<'_> {
    /// The socket that it happened to; a new stream's is its listener.
    pub fn socket(&self) -> Handle {
        match self {
            Event::Datagram(datagram) => Handle::Udp(datagram.socket),
            Event::Error(socket, ..) | Event::Closed(socket) => Handle::Udp(*socket),
            Event::Accepted(listener, _) => Handle::Listener(*listener),
            Event::Octets(octets) => Handle::Stream(octets.stream),
            Event::Connected(stream)
            | Event::Writable(stream)
            | Event::Urgent(stream, _)
            | Event::Finished(stream)
            | Event::StreamFailed(stream, _)
            | Event::Info(stream, _)
            | Event::Released(stream)
            | Event::StreamClosed(stream) => Handle::Stream(*stream),
        }
    }
}

/// The result of one [look](crate::AppQueue::look).
#[derive(Debug)]
pub enum Look<'q> {
    /// Something has happened.
    Event(Event<'q>),
    /// Something was done that is no event; there may be one behind it.
    Worked,
    /// Nothing.
    Nothing,
}

/// The end of a chain.
const END: u32 = u32::MAX;

struct Link<'q> {
    event: Option<Event<'q>>,
    /// The next of the same socket.
    next: u32,
}

struct Ready {
    socket: Handle,
    first: u32,
    last: u32,
}

/// The events that [`AppQueue::poll`](crate::AppQueue::poll) found. Take the events out either in the order of
/// arrival ([`drain`](Self::drain)), or one socket after the other
/// ([`next_socket`](Self::next_socket)), the sockets in the order in which they became ready. Use it
/// again for the next poll: it allocates only until it has reached its size.
pub struct Events<'q> {
    links: Vec<Link<'q>>,
    ready: Vec<Ready>,
    /// How many of the ready sockets were taken.
    taken: usize,
    most: usize,
}

impl Default for Events<'_> {
    /// For at most 256 events at a time.
    fn default() -> Self {
        Events::with_most(256)
    }
}

impl<'q> Events<'q> {
    /// For at most `most` events at a time, at least one.
    pub fn with_most(most: usize) -> Events<'q> {
        Events { links: Vec::new(), ready: Vec::new(), taken: 0, most: most.max(1) }
    }

    /// How many events were found, taken out or not.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.links.len() >= self.most
    }

    /// Forgets everything; the frames of datagrams that were not taken go back.
    pub fn clear(&mut self) {
        self.links.clear();
        self.ready.clear();
        self.taken = 0;
    }

    /// Adds an event behind the others of its socket. `place` is where the socket's chain was when
    /// it was last added to: in this poll it is there still, otherwise it is put into its new place.
    pub(crate) fn push(&mut self, event: Event<'q>, place: &std::cell::Cell<u32>) {
        let socket = event.socket();
        let new = self.links.len() as u32;
        self.links.push(Link { event: Some(event), next: END });
        match self.ready.get_mut(place.get() as usize).filter(|ready| ready.socket == socket) {
            Some(ready) => {
                self.links[ready.last as usize].next = new;
                ready.last = new;
            }
            None => {
                place.set(self.ready.len() as u32);
                self.ready.push(Ready { socket, first: new, last: new });
            }
        }
    }

    /// The events that were not taken out yet, in the order of arrival.
    pub fn drain(&mut self) -> impl Iterator<Item = Event<'q>> {
        self.links.iter_mut().filter_map(|link| link.event.take())
    }

    /// The next ready socket with its events, in the order of arrival.
    pub fn next_socket(&mut self) -> Option<(Handle, Chain<'_, 'q>)> {
        let ready = self.ready.get(self.taken)?;
        self.taken += 1;
        let (socket, next) = (ready.socket, ready.first);
        Some((socket, Chain { links: &mut self.links, next }))
    }
}

/// The events of one socket, in the order of arrival. Those that are not taken stay with the
/// [`Events`].
pub struct Chain<'e, 'q> {
    links: &'e mut [Link<'q>],
    next: u32,
}

impl<'q> Iterator for Chain<'_, 'q> {
    type Item = Event<'q>;

    fn next(&mut self) -> Option<Event<'q>> {
        while self.next != END {
            let link = &mut self.links[self.next as usize];
            self.next = link.next;
            if let Some(event) = link.event.take() {
                return Some(event);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn socket(slot: u32) -> UdpSocket {
        UdpSocket { slot, generation: 0 }
    }

    fn errnos<'q>(events: impl Iterator<Item = Event<'q>>) -> Vec<u16> {
        let errno = |event| if let Event::Error(_, errno, _) = event { errno } else { 0 };
        events.map(errno).collect()
    }

    #[test]
    fn chains_keep_the_order_of_arrival_and_one_poll_does_not_see_another() {
        let places: [Cell<u32>; 3] = Default::default();
        let mut events = Events::default();
        for round in 0..3 {
            events.clear();
            for (number, slot) in [(1, 2), (2, 0), (3, 2), (4, 1), (5, 0), (6, 2)] {
                let error = Event::Error(socket(slot), number + round, None);
                events.push(error, &places[slot as usize]);
            }
            let mut found = Vec::new();
            while let Some((socket, chain)) = events.next_socket() {
                let Handle::Udp(socket) = socket else { panic!("only datagrams") };
                found.push((socket.slot, errnos(chain)));
            }
            let expected = [(2, vec![1, 3, 6]), (0, vec![2, 5]), (1, vec![4])];
            let expected = expected.map(|(s, n)| (s, n.iter().map(|n| n + round).collect()));
            assert_eq!(found, expected);
        }
        events.clear();
        (1..=3).for_each(|n| {
            events.push(Event::Error(socket(n % 2), n as u16, None), &places[n as usize % 2])
        });
        let (_, mut chain) = events.next_socket().unwrap();
        assert_eq!(errnos(chain.next().into_iter()), [1]);
        assert_eq!(errnos(events.drain()), [2, 3], "the rest in the order of arrival");
    }
}
