//! A web server of one page: HTTP/1.1 (RFC 9112), with requests that follow each other on a connection.

use std::net::Ipv6Addr;

use weever_app_sockets::{AppQueue, Error};

use crate::LOOK;
use crate::conversation::{Conversation, Conversations};

/// The longest request head.
const LONGEST: usize = 8192;

/// A connection: the part of a request that has come.
#[derive(Debug)]
struct Requests<'p> {
    page: &'p [u8],
    request: Vec<u8>,
}

impl Conversation for Requests<'_> {
    fn take(&mut self, octets: &[u8], answers: &mut Vec<u8>) -> bool {
        self.request.extend_from_slice(octets);
        loop {
            let Some(end) = self.request.windows(4).position(|four| four == b"\r\n\r\n") else {
                let too_long = self.request.len() > LONGEST;
                if too_long {
                    answer(answers, "431 Request Header Fields Too Large", b"", false);
                }
                return !too_long;
            };
            let head: Vec<u8> = self.request.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let goes_on =
                !head.contains("\r\nconnection: close\r\n") && head.contains(" http/1.1\r\n");
            let goes_on = match head.split_once(' ') {
                Some(("get", rest)) if rest.starts_with("/ ") => {
                    answer(answers, "200 OK", self.page, goes_on)
                }
                Some(("get", _)) => answer(answers, "404 Not Found", b"not here\n", goes_on),
                _ => answer(answers, "501 Not Implemented", b"", false),
            };
            if !goes_on {
                return false;
            }
        }
    }
}

/// Adds an answer; whether the connection goes on behind it.
fn answer(answers: &mut Vec<u8>, status: &str, body: &[u8], goes_on: bool) -> bool {
    let connection = if goes_on { "keep-alive" } else { "close" };
    let len = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: {connection}\r\n\r\n");
    answers.extend(head.bytes());
    answers.extend_from_slice(body);
    goes_on
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
    let mut conversations = Conversations::default();
    while running() {
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            let begin = || Requests { page, request: Vec::new() };
            conversations.handle(queue, event, begin)?;
        }
    }
    queue.close_listener(listener)
}
