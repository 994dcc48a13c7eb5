//! memcached's text protocol (protocol.txt): `get`, `gets`, `set`, `delete`, `version`, `quit`.

use super::store::{Progress, Store};

/// The longest key, as in memcached.
const MAX_KEY: usize = 250;
/// The longest line, and the largest value, as in memcached.
const MAX_LINE: usize = 2048;
const MAX_VALUE: usize = 1 << 20;

/// Answers the request at the front of `octets`, if it is whole.
pub(super) fn take(store: &mut Store, octets: &[u8], answer: &mut Vec<u8>) -> Progress {
    let Some(end) = octets.windows(2).position(|two| two == b"\r\n") else {
        return if octets.len() > MAX_LINE { Progress::End } else { Progress::More };
    };
    let (line, data) = (&octets[..end], &octets[end + 2..]);
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match words.next() {
        Some(b"get" | b"gets") => {
            words.for_each(|key| get(store, key, answer));
            answer.extend(b"END\r\n");
        }
        Some(b"set") => return set(store, &line[3..], data, answer).beyond(end + 2),
        Some(b"delete") => {
            let was_there = words.next().is_some_and(|key| store.remove(key));
            if words.next() != Some(b"noreply") {
                answer.extend(if was_there { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" });
            }
        }
        Some(b"version") => answer.extend(b"VERSION weever\r\n"),
        Some(b"quit") => return Progress::End,
        _ => answer.extend(b"ERROR\r\n"),
    }
    Progress::Done(end + 2)
}

fn get(store: &Store, key: &[u8], answer: &mut Vec<u8>) {
    let Some((flags, value)) = store.get(key) else { return };
    answer.extend(b"VALUE ");
    answer.extend(key);
    answer.extend(format!(" {flags} {}\r\n", value.len()).bytes());
    answer.extend(value);
    answer.extend(b"\r\n");
}

/// `set KEY FLAGS EXPIRES BYTES [noreply]`, and the bytes behind the line. Nothing expires here.
fn set(store: &mut Store, arguments: &[u8], data: &[u8], answer: &mut Vec<u8>) -> Progress {
    let mut words = arguments.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let key = words.next().filter(|key| key.len() <= MAX_KEY);
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u32>().ok();
    let (flags, _expires, len) = (number(), number(), number());
    let quiet = words.next() == Some(b"noreply");
    let (Some(key), Some(flags), Some(len)) = (key, flags, len.map(|len| len as usize)) else {
        answer.extend(b"ERROR\r\n");
        return Progress::Done(0);
    };
    if len > MAX_VALUE {
        answer.extend(b"SERVER_ERROR object too large for cache\r\n");
        return Progress::End;
    }
    let Some((value, end)) = data.split_at_checked(len).filter(|(_, end)| end.len() >= 2) else {
        return Progress::More;
    };
    if !end.starts_with(b"\r\n") {
        answer.extend(b"CLIENT_ERROR bad data chunk\r\n");
        return Progress::Done(data.len());
    }
    store.set(key, flags, value);
    if !quiet {
        answer.extend(b"STORED\r\n");
    }
    Progress::Done(len + 2)
}
