//! The services of the servers, which answer requests. Both the kernel's server and weever's use this code, so that
//! they differ in their sockets only.

use std::collections::HashMap;

/// The service of a server.
#[derive(Clone, Debug)]
pub(crate) enum Service {
    /// Every request, up to an empty line, gets this response.
    Web(Vec<u8>),
    /// memcached's text protocol, of which only `get KEY`.
    Store(Store),
}

/// The beginning of a request whose end has not come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The octets of the final empty line that have come.
    seen: u8,
    /// The octets of a line.
    line: Vec<u8>,
}

impl Part {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Part::default()
    }
}

impl Service {
    /// Answers the requests that end in these octets, which follow those of `part`, and returns their
    /// number.
    pub(crate) fn answer(
        &self,
        octets: &[u8],
        part: &mut Part,
        mut answer: impl FnMut(&[u8]),
    ) -> usize {
        match self {
            Service::Web(response) => {
                let ends = requests(octets, &mut part.seen);
                (0..ends).for_each(|_| answer(response));
                ends
            }
            Service::Store(store) => store.answer(octets, part, answer),
        }
    }
}

/// Keys of a store.
const KEYS: usize = 1000;
/// The key that is asked for.
const ASKED: usize = 77;

/// Values by their keys, each with the lines around it, as memcached keeps them.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    answers: HashMap<Vec<u8>, Vec<u8>>,
}

fn key(number: usize) -> String {
    format!("key-{number:04}")
}

fn found(key: &str, len: usize) -> Vec<u8> {
    let mut answer = format!("VALUE {key} 0 {len}\r\n").into_bytes();
    answer.resize(answer.len() + len, b'v');
    answer.extend_from_slice(b"\r\nEND\r\n");
    answer
}

impl Store {
    /// Values of so many octets.
    pub(crate) fn of(len: usize) -> Store {
        let all = (0..KEYS).map(key);
        Store { answers: all.map(|key| (key.clone().into_bytes(), found(&key, len))).collect() }
    }

    /// A request for one of its values, and the response to it.
    pub(crate) fn exchange(len: usize) -> (Vec<u8>, Vec<u8>) {
        let key = key(ASKED);
        (format!("get {key}\r\n").into_bytes(), found(&key, len))
    }

    fn answer(&self, octets: &[u8], part: &mut Part, mut answer: impl FnMut(&[u8])) -> usize {
        let (mut rest, mut count) = (octets, 0);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end + 1);
            rest = behind;
            count += 1;
            if part.line.is_empty() {
                answer(self.line(line));
            } else {
                part.line.extend_from_slice(line);
                answer(self.line(&std::mem::take(&mut part.line)));
            }
        }
        part.line.extend_from_slice(rest);
        count
    }

    fn line(&self, line: &[u8]) -> &[u8] {
        let Some(key) = line.strip_prefix(b"get ") else { return b"ERROR\r\n" };
        let key = key.trim_ascii_end();
        self.answers.get(key).map_or(&b"END\r\n"[..], Vec::as_slice)
    }
}

/// A request of so many octets, or of the shortest possible length if that is more.
pub(crate) fn request(len: usize) -> Vec<u8> {
    const HEAD: &str = "GET / HTTP/1.1\r\nHost: ";
    let name = len.saturating_sub(HEAD.len() + 4).max(1);
    format!("{HEAD}{}\r\n\r\n", "w".repeat(name)).into_bytes()
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
    let (mut ends, mut at) = (0, 0);
    while at < octets.len() {
        // Between lines there is only to look for the end of one.
        if *seen == 0 {
            let Some(next) = octets[at..].iter().position(|byte| *byte == END[0]) else { break };
            at += next;
        }
        *seen = match octets[at] {
            byte if byte == END[usize::from(*seen)] => *seen + 1,
            b'\r' => 1,
            _ => 0,
        };
        if usize::from(*seen) == END.len() {
            ends += 1;
            *seen = 0;
        }
        at += 1;
    }
    ends
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
    fn a_store_answers_lines_wherever_they_are_cut() {
        let service = Service::Store(Store::of(64));
        let (asked, found) = Store::exchange(64);
        let all = [&asked, &b"get nothing\r\nset x\r\n"[..]].concat();
        let expected = [&found, &b"END\r\nERROR\r\n"[..]].concat();
        for cut in 0..=all.len() {
            let (mut part, mut got, mut count) = (Part::default(), Vec::new(), 0);
            for octets in [&all[..cut], &all[cut..]] {
                count += service.answer(octets, &mut part, |answer| got.extend_from_slice(answer));
            }
            assert_eq!((count, part.is_empty(), &got), (3, true, &expected), "cut at {cut}");
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
            // The length may be one octet too long where the number gets another digit.
            let said: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
            assert!((said..=said + 1).contains(&body.len()), "{text}");
        }
    }
}
