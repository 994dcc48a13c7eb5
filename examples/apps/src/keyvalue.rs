//! A key-value store that speaks memcached's protocol over UDP: `get`, `set`, `delete` and `version`,
//! a request in a datagram.
//!
//! Each datagram begins with eight bytes: the request's number, which the answer repeats, the number
//! of this datagram and how many there are, and two that are reserved (memcached's protocol.txt).

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error, RxBuf, SendOptions};

const FRAME: usize = 8;
/// The longest key, as in memcached.
const MAX_KEY: usize = 250;

/// The store.
#[derive(Debug, Default)]
pub struct Store(HashMap<Vec<u8>, (u32, Vec<u8>)>);

impl Store {
    /// Writes the answer to a request, both without their first eight bytes.
    pub fn answer(&mut self, request: &[u8], answer: &mut Vec<u8>) {
        let Some(end) = request.windows(2).position(|two| two == b"\r\n") else {
            return answer.extend(b"ERROR\r\n");
        };
        let (line, data) = (&request[..end], &request[end + 2..]);
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        match words.next() {
            Some(b"get" | b"gets") => {
                words.for_each(|key| self.get(key, answer));
                answer.extend(b"END\r\n");
            }
            Some(b"set") => answer.extend(self.set(words, data).unwrap_or(b"ERROR\r\n")),
            Some(b"delete") => {
                let was_there = words.next().is_some_and(|key| self.0.remove(key).is_some());
                answer.extend(if was_there { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" });
            }
            Some(b"version") => answer.extend(b"VERSION weever\r\n"),
            _ => answer.extend(b"ERROR\r\n"),
        }
    }

    fn get(&self, key: &[u8], answer: &mut Vec<u8>) {
        let Some((flags, value)) = self.0.get(key) else { return };
        answer.extend(b"VALUE ");
        answer.extend(key);
        answer.extend(format!(" {flags} {}\r\n", value.len()).bytes());
        answer.extend(value);
        answer.extend(b"\r\n");
    }

    /// `set KEY FLAGS EXPIRES BYTES`, and the bytes behind the line. Nothing expires here.
    fn set<'w>(
        &mut self,
        mut words: impl Iterator<Item = &'w [u8]>,
        data: &[u8],
    ) -> Option<&'static [u8]> {
        let number = |word: Option<&'w [u8]>| std::str::from_utf8(word?).ok()?.parse().ok();
        let key = words.next().filter(|key| key.len() <= MAX_KEY)?;
        let flags: u32 = number(words.next())?;
        let _expires: u32 = number(words.next())?;
        let len = number(words.next())? as usize;
        let (value, end) = data.split_at_checked(len)?;
        if end != b"\r\n" {
            return Some(b"CLIENT_ERROR bad data chunk\r\n");
        }
        // A key that is there keeps its memory.
        match self.0.get_mut(key) {
            Some((old, kept)) => {
                *old = flags;
                kept.clear();
                kept.extend(value);
            }
            None => drop(self.0.insert(key.to_vec(), (flags, value.to_vec()))),
        }
        Some(b"STORED\r\n")
    }
}

/// Serves a store on a port.
///
/// # Errors
/// Those of opening the socket and of [`serve`](crate::serve).
pub fn serve(queue: &AppQueue, port: u16, running: impl Fn() -> bool) -> Result<(), Error> {
    queue.bind_udp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
    let (mut store, mut answer) = (Store::default(), Vec::new());
    crate::serve(queue, running, |request| one(queue, &mut store, &mut answer, request))
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
            store.answer(text, answer);
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
        store.answer(request.as_bytes(), &mut answer);
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
}
