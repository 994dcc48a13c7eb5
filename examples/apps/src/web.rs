//! A web server of one page: HTTP/1.1 (RFC 9112), with requests that follow each other on a connection.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use weever_app_sockets::{AppQueue, Error, Event, TcpStream};

use crate::LOOK;

/// The longest request head.
const LONGEST: usize = 8192;

/// A connection: the part of a request that has come, and the part of the answers that has not gone.
#[derive(Debug, Default)]
pub struct Connection {
    request: Vec<u8>,
    answer: Vec<u8>,
    /// No further request is answered.
    ends: bool,
}

impl Connection {
    /// Takes octets of requests, and adds the answers to those that are whole.
    fn take(&mut self, octets: &[u8], page: &[u8]) {
        self.request.extend_from_slice(octets);
        while !self.ends {
            let Some(end) = self.request.windows(4).position(|four| four == b"\r\n\r\n") else {
                if self.request.len() > LONGEST {
                    self.answer("431 Request Header Fields Too Large", b"", false);
                }
                return;
            };
            let head: Vec<u8> = self.request.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let last =
                head.contains("\r\nconnection: close\r\n") || !head.contains(" http/1.1\r\n");
            match head.split_once(' ') {
                Some(("get", rest)) if rest.starts_with("/ ") => self.answer("200 OK", page, !last),
                Some(("get", _)) => self.answer("404 Not Found", b"not here\n", !last),
                _ => self.answer("501 Not Implemented", b"", false),
            }
        }
    }

    fn answer(&mut self, status: &str, body: &[u8], goes_on: bool) {
        let connection = if goes_on { "keep-alive" } else { "close" };
        let len = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: {connection}\r\n\r\n"
        );
        self.answer.extend(head.bytes());
        self.answer.extend_from_slice(body);
        self.ends |= !goes_on;
    }

    /// Writes as much as there is room for; [`Event::Writable`] follows if that is not all. Whether the
    /// connection is over.
    fn write(&mut self, queue: &AppQueue, stream: TcpStream) -> Result<bool, Error> {
        while !self.answer.is_empty() {
            match queue.write(stream, &self.answer) {
                Ok(written) => drop(self.answer.drain(..written)),
                Err(Error::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(self.ends)
    }
}

/// Serves a page at `/`.
///
/// # Errors
/// Those of [`AppQueue::listen_tcp`] and of [`AppQueue::wait`].
pub fn serve(
    queue: &AppQueue,
    port: u16,
    page: &[u8],
    running: impl Fn() -> bool,
) -> Result<(), Error> {
    let listener = queue.listen_tcp((Ipv6Addr::UNSPECIFIED, port).into(), 128, false)?;
    let mut open: HashMap<TcpStream, Connection> = HashMap::new();
    while running() {
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            let stream = match event {
                Event::Accepted(_, stream) => {
                    open.insert(stream, Connection::default());
                    continue;
                }
                Event::Octets(octets) => {
                    let connection = open.entry(octets.stream()).or_default();
                    connection.take(octets.octets(), page);
                    octets.stream()
                }
                Event::Finished(stream) => {
                    open.entry(stream).or_default().ends = true;
                    stream
                }
                Event::Writable(stream) => stream,
                Event::StreamClosed(stream) => {
                    open.remove(&stream);
                    continue;
                }
                _ => continue,
            };
            if let Some(connection) = open.get_mut(&stream)
                && connection.write(queue, stream)?
            {
                queue.close_stream(stream)?;
                open.remove(&stream);
            }
        }
    }
    queue.close_listener(listener)
}
