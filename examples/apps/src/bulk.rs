//! A sender and a receiver of many octets over TCP.
//!
//! The receiver answers the end of the octets with their number and a sum, as a line of text; the sender reads
//! the line. Either may have another program at the other end, such as `nc`.

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error, Event, TcpStream};

use crate::LOOK;

/// Octets that are given to the stack at once.
const CHUNK: usize = 64 << 10;

/// What a connection carried: a number of octets, and their sum (FNV-1a of 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Octets.
    pub octets: u64,
    /// Their sum.
    pub sum: u64,
}

impl Default for Carried {
    fn default() -> Carried {
        Carried { octets: 0, sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Carried {
    /// Counts further octets.
    pub fn add(&mut self, octets: &[u8]) {
        self.octets += octets.len() as u64;
        for octet in octets {
            self.sum = (self.sum ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The line by which a receiver answers.
    pub fn line(&self) -> String {
        format!("{} {:016x}\n", self.octets, self.sum)
    }
}

/// The octets that are sent: none repeats the one before it.
fn pattern(from: u64, out: &mut [u8]) {
    for (place, at) in out.iter_mut().zip(from..) {
        *place = (at.wrapping_mul(31) + (at >> 8)) as u8;
    }
}

/// Receives on a port, from any number of connections, and tells `done` what each has carried.
///
/// # Errors
/// Those of [`AppQueue::listen_tcp`], [`AppQueue::wait`] and [`AppQueue::write`].
pub fn receive(
    queue: &AppQueue,
    port: u16,
    running: impl Fn() -> bool,
    mut done: impl FnMut(Carried),
) -> Result<(), Error> {
    let listener = queue.listen_tcp((Ipv6Addr::UNSPECIFIED, port).into(), 128, false)?;
    let mut open: HashMap<TcpStream, Carried> = HashMap::new();
    while running() {
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            match event {
                Event::Octets(octets) => {
                    open.entry(octets.stream()).or_default().add(octets.octets());
                }
                Event::Finished(stream) => {
                    let carried = open.remove(&stream).unwrap_or_default();
                    // The connection has sent nothing yet, so there is room for a line.
                    queue.write(stream, carried.line().as_bytes())?;
                    queue.close_stream(stream)?;
                    done(carried);
                }
                Event::StreamClosed(stream) => drop(open.remove(&stream)),
                _ => {}
            }
        }
    }
    queue.close_listener(listener)
}

/// The end of a transfer, as its sender sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiver's answer: see [`Carried::line`], if it is one of these.
    Answered(String),
    /// The connection failed, with an errno.
    Failed(u16),
    /// It was told to end before.
    Stopped,
}

/// Connects, sends so many octets, and waits for the receiver's answer.
///
/// # Errors
/// Those of [`AppQueue::connect_tcp`], [`AppQueue::wait`] and [`AppQueue::write`].
pub fn send(
    queue: &AppQueue,
    to: SocketAddr,
    octets: u64,
    running: impl Fn() -> bool,
) -> Result<Sent, Error> {
    let stream = queue.connect_tcp(to)?;
    let (mut sent, mut chunk, mut answer) = (0, vec![0; CHUNK], Vec::new());
    while running() {
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            match event {
                Event::Connected(_) | Event::Writable(_) => {
                    sent = write(queue, stream, (sent, octets), &mut chunk)?;
                    if sent == octets {
                        queue.finish(stream)?;
                        // Once is enough.
                        sent += 1;
                    }
                }
                Event::Octets(octets) => answer.extend_from_slice(octets.octets()),
                Event::Finished(_) => {
                    queue.close_stream(stream)?;
                    queue.commit()?;
                    return Ok(Sent::Answered(String::from_utf8_lossy(&answer).into_owned()));
                }
                Event::StreamFailed(_, errno) => return Ok(Sent::Failed(errno)),
                _ => {}
            }
        }
    }
    queue.abort(stream)?;
    Ok(Sent::Stopped)
}

/// Writes as much as there is room for: how much was sent in all.
fn write(
    queue: &AppQueue,
    stream: TcpStream,
    (mut sent, octets): (u64, u64),
    chunk: &mut [u8],
) -> Result<u64, Error> {
    while sent < octets {
        let len = usize::try_from(octets - sent).unwrap_or(CHUNK).min(CHUNK);
        pattern(sent, &mut chunk[..len]);
        match queue.write(stream, &chunk[..len]) {
            Ok(written) => sent += written as u64,
            Err(Error::WouldBlock) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
