//! The servers: a request that ends with an empty line is answered by a fixed response, over the kernel's sockets
//! with epoll, and over weever inside the program.
//!
//! Both count the ends of requests with the same code and keep nothing of a request that came whole, so the
//! difference between them is the sockets'.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{Backlog, listen};
use weever_app_library::Library;
use weever_app_sockets::{AppQueue, Event, Events, QueueConfig, TcpStream as Stream};
use weever_host::{Prefix, Route};
use weever_testbed::Fixture;

use crate::BenchError;
use crate::app::builder;
use crate::contender::Gate;
use crate::peers::pass;
use crate::rig::{PORT, REMOTE};

/// Connections that may wait to be accepted.
const BACKLOG: u16 = 4096;
/// How long a server sleeps before it looks whether it is to end.
const LOOK: u16 = 20;
const EVENTS: usize = 64;
/// Events that one poll of weever's queue takes.
const READY: usize = 256;
const KERNEL: &str = "kernel";

/// A request of so many octets, or as many as it has to have.
pub(crate) fn request(len: usize) -> Vec<u8> {
    const HEAD: &str = "GET / HTTP/1.1\r\nHost: ";
    let name = len.saturating_sub(HEAD.len() + 4).max(1);
    format!("{HEAD}{}\r\n\r\n", "w".repeat(name)).into_bytes()
}

/// The connections in the ready lists of a server: how many there were in lists that were not empty.
#[derive(Debug, Default)]
pub(crate) struct ReadySets {
    lists: AtomicU64,
    connections: AtomicU64,
}

impl ReadySets {
    fn add(&self, connections: u64) {
        self.lists.fetch_add(u64::from(connections > 0), Ordering::Relaxed);
        self.connections.fetch_add(connections, Ordering::Relaxed);
    }

    /// The mean; nothing if there were no lists.
    pub(crate) fn mean(&self) -> Option<f64> {
        let lists = self.lists.load(Ordering::Relaxed);
        (lists > 0).then(|| self.connections.load(Ordering::Relaxed) as f64 / lists as f64)
    }
}

/// A response of so many octets, head included: at least as many as the head has.
pub(crate) fn response(len: usize) -> Vec<u8> {
    // The number in the head may change the head's length.
    let head = |body: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n");
    let fits = (0..=len).rev().find(|body| head(*body).len() + body <= len).unwrap_or(0);
    let mut response = head(fits).into_bytes();
    response.resize(len.max(response.len()), b'w');
    response
}

/// How many requests end in these octets. `seen` is how much of an end the ones before them had.
fn requests(octets: &[u8], seen: &mut u8) -> usize {
    const END: &[u8; 4] = b"\r\n\r\n";
    let mut ends = 0;
    for byte in octets {
        *seen = match byte {
            byte if *byte == END[usize::from(*seen)] => *seen + 1,
            b'\r' => 1,
            _ => 0,
        };
        if usize::from(*seen) == END.len() {
            ends += 1;
            *seen = 0;
        }
    }
    ends
}

/// How the kernel's server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Block,
    Poll,
}

/// A connection of the kernel's server.
struct Connection {
    socket: TcpStream,
    seen: u8,
    /// Octets that the socket had no room for.
    waiting: Vec<u8>,
}

/// The kernel's server. A veth end takes redirected frames only with a program attached.
pub(crate) fn kernel(gate: &Gate, wait: Wait, response: &[u8]) -> Result<(), BenchError> {
    let _pass = pass(KERNEL)?;
    let listener = kernel_listener()?;
    let epoll = Epoll::new(EpollCreateFlags::empty()).map_err(BenchError::of(KERNEL))?;
    let readable = |number: u64| EpollEvent::new(EpollFlags::EPOLLIN, number);
    epoll.add(&listener, readable(u64::MAX)).map_err(BenchError::of(KERNEL))?;
    let timeout = if wait == Wait::Poll { EpollTimeout::ZERO } else { LOOK.into() };
    let mut open: Vec<Option<Connection>> = Vec::new();
    let mut events = [EpollEvent::empty(); EVENTS];
    gate.open();
    while gate.running() {
        let ready = match epoll.wait(&mut events, timeout) {
            Ok(ready) => ready,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(BenchError::of(KERNEL)(error)),
        };
        for event in &events[..ready] {
            if event.data() == u64::MAX {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true).map_err(BenchError::of(KERNEL))?;
                    socket.set_nodelay(true).map_err(BenchError::of(KERNEL))?;
                    let number = socket.as_raw_fd() as usize;
                    epoll.add(&socket, readable(number as u64)).map_err(BenchError::of(KERNEL))?;
                    if open.len() <= number {
                        open.resize_with(number + 1, || None);
                    }
                    open[number] = Some(Connection { socket, seen: 0, waiting: Vec::new() });
                }
            } else if let Some(there) = open.get_mut(event.data() as usize)
                && there.as_mut().is_some_and(|connection| connection.serve(gate, response))
            {
                // Closing the descriptor takes it out of the set.
                *there = None;
            }
        }
    }
    Ok(())
}

pub(super) fn kernel_listener() -> Result<TcpListener, BenchError> {
    let listener =
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).map_err(BenchError::of(KERNEL))?;
    listener.set_nonblocking(true).map_err(BenchError::of(KERNEL))?;
    let backlog = Backlog::new(i32::from(BACKLOG)).map_err(BenchError::of(KERNEL))?;
    listen(&listener, backlog).map_err(BenchError::of(KERNEL))?;
    Ok(listener)
}

impl Connection {
    /// Answers what has come; whether the connection is over.
    fn serve(&mut self, gate: &Gate, response: &[u8]) -> bool {
        let mut octets = [0; 4096];
        let len = match self.socket.read(&mut octets) {
            Ok(0) => return true,
            Ok(len) => len,
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        };
        for _ in 0..requests(&octets[..len], &mut self.seen) {
            gate.add(1);
            let sent = if self.waiting.is_empty() { self.socket.write(response) } else { Ok(0) };
            match sent {
                Ok(len) => self.waiting.extend_from_slice(&response[len..]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waiting.extend_from_slice(response);
                }
                Err(_) => return true,
            }
        }
        // What did not fit goes with the next request: clients have one in flight each.
        if let Ok(len) = self.socket.write(&self.waiting) {
            self.waiting.drain(..len);
        }
        false
    }
}

/// A queue on a stack in this thread, which polls, and what it has open.
pub(super) struct Inside {
    pub(super) queue: AppQueue,
    _library: Library,
}

/// Opens a stack in this thread that listens.
pub(super) fn inside() -> Result<Inside, BenchError> {
    let failed = "weever";
    let mut builder = builder(failed)?;
    let remote = Prefix::new(REMOTE.0.into(), REMOTE.1).expect("IPv4 prefixes have up to 32 bits");
    let route = Route::via(remote, Fixture::LEFT.into());
    builder.route(&route).map_err(BenchError::of(failed))?;
    let library = Library::start(builder, Duration::from_millis(10));
    let library = library.map_err(BenchError::of(failed))?;
    let config = QueueConfig { spin: Duration::from_secs(1), ..QueueConfig::default() };
    let queue = library.queue(&config).map_err(BenchError::of(failed))?;
    listening(&queue)?;
    Ok(Inside { queue, _library: library })
}

/// Has a queue listen for the server.
pub(super) fn listening(queue: &AppQueue) -> Result<(), BenchError> {
    let any = (Ipv4Addr::UNSPECIFIED, PORT).into();
    queue.listen_tcp(any, BACKLOG.into(), false).map_err(BenchError::of("weever"))?;
    Ok(())
}

/// weever's server, in library mode. With `sets` it takes the events of a poll connection by connection, otherwise one
/// after the other.
pub(crate) fn weever(
    gate: &Gate,
    response: &[u8],
    sets: Option<&ReadySets>,
) -> Result<(), BenchError> {
    let inside = inside()?;
    let mut server = Server::new(&inside.queue, response);
    let mut events = Events::with_most(READY);
    gate.open();
    while gate.running() {
        let turn = match sets {
            Some(sets) => server.poll(gate, &mut events, sets),
            None => server.turn(gate),
        };
        turn.map_err(BenchError::of("weever"))?;
    }
    Ok(())
}

/// The server on a queue.
pub(super) struct Server<'q> {
    queue: &'q AppQueue,
    response: &'q [u8],
    /// Of requests that came in part, how much of their end has come.
    parts: HashMap<Stream, u8>,
    /// Octets of responses that there was no room for.
    owed: HashMap<Stream, Vec<u8>>,
}

impl<'q> Server<'q> {
    pub(super) fn new(queue: &'q AppQueue, response: &'q [u8]) -> Server<'q> {
        Server { queue, response, parts: HashMap::new(), owed: HashMap::new() }
    }

    pub(super) fn turn(&mut self, gate: &Gate) -> Result<(), weever_app_sockets::Error> {
        self.queue.wait(Some(Duration::from_millis(LOOK.into())))?;
        while let Some(event) = self.queue.next()? {
            self.handle(gate, event)?;
        }
        Ok(())
    }

    /// Takes what is ready, a chain of events for each connection.
    fn poll(
        &mut self,
        gate: &Gate,
        events: &mut Events<'q>,
        sets: &ReadySets,
    ) -> Result<(), weever_app_sockets::Error> {
        self.queue.wait(Some(Duration::from_millis(LOOK.into())))?;
        self.queue.poll(events)?;
        let mut connections = 0;
        while let Some((_, chain)) = events.next_socket() {
            connections += 1;
            for event in chain {
                self.handle(gate, event)?;
            }
        }
        sets.add(connections);
        Ok(())
    }

    fn handle(&mut self, gate: &Gate, event: Event<'_>) -> Result<(), weever_app_sockets::Error> {
        match event {
            Event::Octets(octets) => {
                let stream = octets.stream();
                let mut seen = match self.parts.is_empty() {
                    true => 0,
                    false => self.parts.remove(&stream).unwrap_or(0),
                };
                let ends = requests(octets.octets(), &mut seen);
                drop(octets);
                if seen > 0 {
                    self.parts.insert(stream, seen);
                }
                gate.add(ends);
                for _ in 0..ends {
                    self.write(stream, None)?;
                }
            }
            Event::Writable(stream) => {
                if let Some(owed) = self.owed.remove(&stream) {
                    self.write(stream, Some(owed))?;
                }
            }
            Event::Finished(stream) => self.queue.close_stream(stream)?,
            Event::StreamClosed(stream) => {
                self.parts.remove(&stream);
                self.owed.remove(&stream);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a response, or the rest of those that had no room.
    fn write(
        &mut self,
        stream: Stream,
        rest: Option<Vec<u8>>,
    ) -> Result<(), weever_app_sockets::Error> {
        if let Some(owed) = self.owed.get_mut(&stream) {
            owed.extend_from_slice(rest.as_deref().unwrap_or(self.response));
            return Ok(());
        }
        let octets = rest.as_deref().unwrap_or(self.response);
        let written = match self.queue.write(stream, octets) {
            Ok(written) => written,
            Err(weever_app_sockets::Error::WouldBlock) => 0,
            // It was closed meanwhile.
            Err(weever_app_sockets::Error::NoSocket) => return Ok(()),
            Err(error) => return Err(error),
        };
        if written < octets.len() {
            self.owed.insert(stream, octets[written..].to_vec());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_requests_are_counted_wherever_they_are_cut() {
        let two = [&request(30), &b"POST / HTTP/1.1\r\n\r\r\n\r\n"[..]].concat();
        for cut in 0..=two.len() {
            let mut seen = 0;
            let ends = requests(&two[..cut], &mut seen) + requests(&two[cut..], &mut seen);
            assert_eq!((ends, seen), (2, 0), "cut at {cut}");
        }
    }

    #[test]
    fn requests_and_responses_have_the_length_that_was_asked_for() {
        assert!([40, 96].iter().all(|len| request(*len).len() == *len));
        for len in [40, 64, 137, 138, 139, 140, 512, 1280] {
            let response = response(len);
            let text = String::from_utf8(response.clone()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(response.len(), len);
            // One octet may be too many where the number gets a digit more.
            let said: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
            assert!((said..=said + 1).contains(&body.len()), "{text}");
        }
    }
}
