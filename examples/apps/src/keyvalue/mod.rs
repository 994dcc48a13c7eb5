//! A key-value store that speaks memcached's text protocol, over UDP and TCP, and redis' over TCP, all at one port.
//!
//! Each datagram begins with eight bytes: the request's number, which the answer repeats, the number
//! of this datagram and how many there are, and two that are reserved (memcached's protocol.txt). On a
//! connection, a request that begins with `*` is redis'.

mod memcached;
mod redis;
mod store;

use std::cell::RefCell;
use std::net::{Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error, Event, RxBuf, SendOptions};

use crate::LOOK;
use crate::conversation::{Conversation, Conversations};
use store::{Progress, Store};

const FRAME: usize = 8;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Writes the answer to a datagram's request, both without their first eight bytes.
fn answer(store: &mut Store, request: &[u8], answer: &mut Vec<u8>) {
    match memcached::take(store, request, answer) {
        Progress::Done(_) | Progress::End => {}
        // Nothing more comes.
        Progress::More => answer.extend(b"ERROR\r\n"),
    }
}

/// A connection: the part of a request that has come.
#[derive(Debug)]
struct Requests<'s> {
    store: &'s RefCell<Store>,
    request: Vec<u8>,
}

impl Conversation for Requests<'_> {
    fn take(&mut self, octets: &[u8], answers: &mut Vec<u8>) -> bool {
        let mut store = self.store.borrow_mut();
        if self.request.is_empty() {
            // The ordinary case: whole requests, which need not be kept.
            let (done, goes_on) = take_all(&mut store, octets, answers);
            self.request.extend_from_slice(&octets[done..]);
            return goes_on;
        }
        self.request.extend_from_slice(octets);
        let (done, goes_on) = take_all(&mut store, &self.request, answers);
        self.request.drain(..done);
        goes_on
    }
}

/// Answers all whole requests: how many octets they have, and whether others may follow.
fn take_all(store: &mut Store, octets: &[u8], answers: &mut Vec<u8>) -> (usize, bool) {
    let mut done = 0;
    while let Some(first) = octets.get(done) {
        let take = if *first == b'*' { redis::take } else { memcached::take };
        match take(store, &octets[done..], answers) {
            Progress::Done(len) => done += len,
            Progress::More => break,
            Progress::End => return (octets.len(), false),
        }
    }
    (done, true)
}

/// Serves a store on a port, of UDP and of TCP.
///
/// # Errors
/// Those of opening the sockets, of [`AppQueue::wait`] and of sending, but not that there is no room to send: then
/// that answer is lost.
pub fn serve(queue: &AppQueue, port: u16, running: impl Fn() -> bool) -> Result<(), Error> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    queue.bind_udp(any)?;
    let listener = queue.listen_tcp(any, BACKLOG, false)?;
    let (store, mut answer) = (RefCell::new(Store::default()), Vec::new());
    let mut conversations = Conversations::default();
    while running() {
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            let handled = match event {
                Event::Datagram(request) => {
                    one(queue, &mut store.borrow_mut(), &mut answer, request)
                }
                event => {
                    let begin = || Requests { store: &store, request: Vec::new() };
                    conversations.handle(queue, event, begin)
                }
            };
            match handled {
                Ok(()) | Err(Error::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
    queue.close_listener(listener)
}

fn one(
    queue: &AppQueue,
    store: &mut Store,
    answer: &mut Vec<u8>,
    request: RxBuf<'_>,
) -> Result<(), Error> {
    answer.clear();
    match request.payload().and_then(|bytes| bytes.split_at_checked(FRAME)) {
        // Its number, and that this is the first of one datagram.
        Some((frame, text)) if frame[2..6] == [0, 0, 0, 1] => {
            answer.extend([frame[0], frame[1], 0, 0, 0, 1, 0, 0]);
            self::answer(store, text, answer);
        }
        _ => return Ok(()),
    }
    let (socket, remote) = (request.socket(), request.remote());
    let mut buffer = request.into_answer();
    match buffer.space().get_mut(..answer.len()) {
        Some(space) => {
            space.copy_from_slice(answer);
            buffer.send(answer.len())
        }
        // Longer than a frame: over several.
        None => queue.send_to(socket, answer, remote, SendOptions::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(store: &mut Store, request: &str) -> String {
        let mut answer = Vec::new();
        super::answer(store, request.as_bytes(), &mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn what_was_set_is_got() {
        let mut store = Store::default();
        assert_eq!(answer(&mut store, "get a\r\n"), "END\r\n");
        assert_eq!(answer(&mut store, "set a 7 0 3\r\nxyz\r\n"), "STORED\r\n");
        assert_eq!(answer(&mut store, "set b 0 0 0\r\n\r\n"), "STORED\r\n");
        let both = "VALUE a 7 3\r\nxyz\r\nVALUE b 0 0\r\n\r\nEND\r\n";
        assert_eq!(answer(&mut store, "get a c b\r\n"), both);
        assert_eq!(answer(&mut store, "delete a\r\n"), "DELETED\r\n");
        assert_eq!(answer(&mut store, "delete a\r\n"), "NOT_FOUND\r\n");
    }

    #[test]
    fn bad_requests_are_answered() {
        let mut store = Store::default();
        for bad in ["", "get a", "fly\r\n", "set a 0 0 9\r\nxyz\r\n", "set a 0 0 -1\r\n\r\n"] {
            assert_eq!(answer(&mut store, bad), "ERROR\r\n", "{bad:?}");
        }
        let long = answer(&mut store, "set a 0 0 2\r\nxyz\r\n");
        assert_eq!(long, "CLIENT_ERROR bad data chunk\r\n");
    }

    #[test]
    fn requests_on_a_connection_may_come_in_any_pieces() {
        let text = b"set a 0 0 3\r\nxyz\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nget a\r\n*3\r\n$3\r\nset\r\n$1\r\nb\r\n$2\r\n\r\n\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\nversion\r\n";
        let right =
            b"STORED\r\n$3\r\nxyz\r\nVALUE a 0 3\r\nxyz\r\nEND\r\n+OK\r\n:1\r\nVERSION weever\r\n";
        for piece in [1, 2, 3, 7, text.len()] {
            let store = RefCell::new(Store::default());
            let (mut requests, mut answers) =
                (Requests { store: &store, request: Vec::new() }, Vec::new());
            for octets in text.chunks(piece) {
                assert!(requests.take(octets, &mut answers));
            }
            assert_eq!(answers, right, "pieces of {piece}");
            assert!(!requests.take(b"quit\r\nget a\r\n", &mut answers), "nothing follows quit");
        }
    }

    #[test]
    fn bad_requests_of_redis_are_answered() {
        let answer = |request: &[u8]| {
            let mut answers = Vec::new();
            let (_, goes_on) = take_all(&mut Store::default(), request, &mut answers);
            (String::from_utf8(answers).unwrap(), goes_on)
        };
        assert!(answer(b"*1\r\n$3\r\nFLY\r\n").0.contains("unknown command"));
        assert!(answer(b"*1\r\n$3\r\nGET\r\n").0.contains("wrong number of arguments for 'get'"));
        for wrong in [&b"*1\r\n:3\r\n"[..], b"*x\r\n", b"*1\r\n$1\r\nabc\r\n", b"*9999999\r\n"] {
            let (text, goes_on) = answer(wrong);
            assert!(text.contains("Protocol error") && !goes_on, "{wrong:?}: {text}");
        }
    }
}
