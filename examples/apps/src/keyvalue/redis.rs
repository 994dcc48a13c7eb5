//! redis' protocol, RESP2: requests are arrays of strings, `*2\r\n$3\r\nGET\r\n$1\r\na\r\n`.

use super::store::{Progress, Store};

/// The most words of a request, and the longest word.
const MAX_WORDS: usize = 1024;
const MAX_LEN: usize = 1 << 20;

/// What stands at the front of some octets.
enum Parsed<T> {
    /// This, and so many octets of it.
    Whole(T, usize),
    Part,
    Wrong,
}

/// A line that begins with `kind` and has a number.
fn number(octets: &[u8], kind: u8) -> Parsed<usize> {
    if octets.first().is_some_and(|first| *first != kind) {
        return Parsed::Wrong;
    }
    let Some(end) = octets.windows(2).position(|two| two == b"\r\n") else {
        return if octets.len() > 32 { Parsed::Wrong } else { Parsed::Part };
    };
    let digits = octets.get(1..end).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number) => Parsed::Whole(number, end + 2),
        None => Parsed::Wrong,
    }
}

/// The words of a request.
fn words(octets: &[u8]) -> Parsed<Vec<&[u8]>> {
    let (count, mut at) = match number(octets, b'*') {
        Parsed::Whole(count, at) if count <= MAX_WORDS => (count, at),
        Parsed::Part => return Parsed::Part,
        _ => return Parsed::Wrong,
    };
    let mut words = Vec::new();
    for _ in 0..count {
        let (len, head) = match number(&octets[at..], b'$') {
            Parsed::Whole(len, head) if len <= MAX_LEN => (len, head),
            Parsed::Part => return Parsed::Part,
            _ => return Parsed::Wrong,
        };
        let start = at + head;
        match (octets.get(start..start + len), octets.get(start + len..start + len + 2)) {
            (Some(word), Some(b"\r\n")) => words.push(word),
            (_, Some(_)) => return Parsed::Wrong,
            _ => return Parsed::Part,
        }
        at = start + len + 2;
    }
    Parsed::Whole(words, at)
}

/// Answers the request at the front of `octets`, if it is whole.
pub(super) fn take(store: &mut Store, octets: &[u8], answer: &mut Vec<u8>) -> Progress {
    match words(octets) {
        Parsed::Whole(words, len) => {
            let [name, arguments @ ..] = &words[..] else { return Progress::Done(len) };
            let name = name.to_ascii_uppercase();
            run(store, &name, arguments, answer);
            if name == b"QUIT" { Progress::End } else { Progress::Done(len) }
        }
        Parsed::Part => Progress::More,
        Parsed::Wrong => {
            answer.extend(b"-ERR Protocol error: an array of strings is expected\r\n");
            Progress::End
        }
    }
}

fn string(answer: &mut Vec<u8>, value: &[u8]) {
    answer.extend(format!("${}\r\n", value.len()).bytes());
    answer.extend(value);
    answer.extend(b"\r\n");
}

fn run(store: &mut Store, name: &[u8], arguments: &[&[u8]], answer: &mut Vec<u8>) {
    match (name, arguments) {
        (b"PING", []) => answer.extend(b"+PONG\r\n"),
        (b"PING" | b"ECHO", [word]) => string(answer, word),
        (b"QUIT" | b"SELECT" | b"FLUSHALL", _) => {
            if name == b"FLUSHALL" {
                store.clear();
            }
            answer.extend(b"+OK\r\n");
        }
        // Options such as EX are not understood.
        (b"SET", [key, value]) => {
            store.set(key, 0, value);
            answer.extend(b"+OK\r\n");
        }
        (b"GET", [key]) => match store.get(key) {
            Some((_, value)) => string(answer, value),
            None => answer.extend(b"$-1\r\n"),
        },
        (b"DEL", keys) => {
            let gone = keys.iter().filter(|key| store.remove(key)).count();
            answer.extend(format!(":{gone}\r\n").bytes());
        }
        (b"EXISTS", keys) => {
            let there = keys.iter().filter(|key| store.get(key).is_some()).count();
            answer.extend(format!(":{there}\r\n").bytes());
        }
        (b"DBSIZE", []) => answer.extend(format!(":{}\r\n", store.len()).bytes()),
        // Clients ask for these when they begin: there is nothing to tell.
        (b"COMMAND" | b"CONFIG", _) => answer.extend(b"*0\r\n"),
        (b"INFO", _) => string(answer, b"# Server\r\nredis_version:0.0.0\r\n"),
        (b"SET" | b"GET" | b"ECHO", _) => {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let text = format!("-ERR wrong number of arguments for '{name}' command\r\n");
            answer.extend(text.bytes());
        }
        _ => answer.extend(b"-ERR unknown command\r\n"),
    }
}
