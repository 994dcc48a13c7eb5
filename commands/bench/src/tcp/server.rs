//! The servers: requests are answered by a [`Service`] over the kernel's sockets with epoll, and over weever inside
//! the program.

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
use weever_host::{HostBuilder, Prefix, Route};
use weever_testbed::Fixture;

use super::service::{Part, Service};
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

/// How the kernel's server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Block,
    Poll,
}

/// A connection of the kernel's server.
struct Connection {
    socket: TcpStream,
    part: Part,
    /// Octets that the socket had no room for.
    waiting: Vec<u8>,
}

/// The kernel's server. A veth end takes redirected frames only with a program attached.
pub(crate) fn kernel(gate: &Gate, wait: Wait, service: &Service) -> Result<(), BenchError> {
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
                    open[number] =
                        Some(Connection { socket, part: Part::default(), waiting: Vec::new() });
                }
            } else if let Some(there) = open.get_mut(event.data() as usize)
                && there.as_mut().is_some_and(|connection| connection.serve(gate, service))
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
    fn serve(&mut self, gate: &Gate, service: &Service) -> bool {
        let mut octets = [0; 4096];
        let len = match self.socket.read(&mut octets) {
            Ok(0) => return true,
            Ok(len) => len,
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        };
        let Connection { socket, part, waiting } = self;
        let mut over = false;
        let answers = service.answer(&octets[..len], part, |response| {
            let sent = if waiting.is_empty() { socket.write(response) } else { Ok(0) };
            match sent {
                Ok(len) => waiting.extend_from_slice(&response[len..]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    waiting.extend_from_slice(response);
                }
                Err(_) => over = true,
            }
        });
        gate.add(answers);
        if over {
            return true;
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

/// The contender's host, with a route to the generator's clients.
pub(super) fn routed_builder() -> Result<HostBuilder, BenchError> {
    let failed = "weever";
    let mut builder = builder(failed)?;
    let remote = Prefix::new(REMOTE.0.into(), REMOTE.1).expect("IPv4 prefixes have up to 32 bits");
    let route = Route::via(remote, Fixture::LEFT.into());
    builder.route(&route).map_err(BenchError::of(failed))?;
    Ok(builder)
}

/// Opens a stack in this thread that listens.
pub(super) fn inside() -> Result<Inside, BenchError> {
    let failed = "weever";
    let library = Library::start(routed_builder()?, Duration::from_millis(10));
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
    service: &Service,
    sets: Option<&ReadySets>,
) -> Result<(), BenchError> {
    let inside = inside()?;
    let mut server = Server::new(&inside.queue, service);
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
    service: &'q Service,
    /// The state of requests that came in part.
    parts: HashMap<Stream, Part>,
    /// Octets of responses that there was no room for.
    owed: HashMap<Stream, Vec<u8>>,
}

impl<'q> Server<'q> {
    pub(super) fn new(queue: &'q AppQueue, service: &'q Service) -> Server<'q> {
        Server { queue, service, parts: HashMap::new(), owed: HashMap::new() }
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
                let mut part = match self.parts.is_empty() {
                    true => Part::default(),
                    false => self.parts.remove(&stream).unwrap_or_default(),
                };
                let (service, mut written) = (self.service, Ok(()));
                let answers = service.answer(octets.octets(), &mut part, |response| {
                    if written.is_ok() {
                        written = self.write(stream, response);
                    }
                });
                drop(octets);
                written?;
                gate.add(answers);
                if !part.is_empty() {
                    self.parts.insert(stream, part);
                }
            }
            Event::Writable(stream) => {
                if let Some(owed) = self.owed.remove(&stream) {
                    self.write(stream, &owed)?;
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
    fn write(&mut self, stream: Stream, octets: &[u8]) -> Result<(), weever_app_sockets::Error> {
        if let Some(owed) = self.owed.get_mut(&stream) {
            owed.extend_from_slice(octets);
            return Ok(());
        }
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
