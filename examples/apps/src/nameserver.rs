//! A server that answers for one name, as a DNS server does (RFC 1035 §4): its IPv4 address, and that
//! there are no others.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error};

const HEADER: usize = 12;
/// Of the flags: a response, an authoritative one, and that no such name exists.
const RESPONSE: u8 = 0x80;
const AUTHORITATIVE: u8 = 0x04;
const OPCODE: u8 = 0x78;
const NO_SUCH_NAME: u8 = 3;
/// Type A, class IN.
const ADDRESS: [u8; 4] = [0, 1, 0, 1];
/// Seconds for which an answer may be kept.
const KEEP: u32 = 60;

/// Makes an answer of the query of `len` bytes in `message`; returns its length, or nothing when it is
/// no query that can be answered.
pub fn answer(message: &mut [u8], len: usize, name: &[u8], address: Ipv4Addr) -> Option<usize> {
    let query = message.get(..len)?;
    // A query of one question.
    if len < HEADER || query[2] & (RESPONSE | OPCODE) != 0 || query[4..6] != [0, 1] {
        return None;
    }
    let end = HEADER + name_len(&query[HEADER..])? + ADDRESS.len();
    let (asked, kind) = query.get(HEADER..end)?.split_at(end - HEADER - ADDRESS.len());
    let is_ours = asked.eq_ignore_ascii_case(name);
    let has_answer = is_ours && kind == ADDRESS;
    message[2] |= RESPONSE | AUTHORITATIVE;
    message[3] = if is_ours { 0 } else { NO_SUCH_NAME };
    // One question, one answer or none, and nothing more: also where the query had something.
    message[6..HEADER].copy_from_slice(&[0, u8::from(has_answer), 0, 0, 0, 0]);
    if !has_answer {
        return Some(end);
    }
    let record = message.get_mut(end..end + 16)?;
    // The name is the one at offset 12.
    record[..2].copy_from_slice(&[0xc0, HEADER as u8]);
    record[2..6].copy_from_slice(&ADDRESS);
    record[6..10].copy_from_slice(&KEEP.to_be_bytes());
    record[10..12].copy_from_slice(&[0, 4]);
    record[12..].copy_from_slice(&address.octets());
    Some(end + 16)
}

/// A name as it is on the wire: labels with their lengths in front.
pub fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut out: Vec<u8> =
        labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    out.push(0);
    out
}

/// The length of a name without pointers, the zero at its end included.
fn name_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return Some(at + 1),
            label if label < 64 => at += 1 + label,
            _ => return None,
        }
    }
}

/// Answers for `name` on a port.
///
/// # Errors
/// Those of opening the socket and of [`serve`](crate::serve).
pub fn serve(
    queue: &AppQueue,
    port: u16,
    (name, address): (&str, Ipv4Addr),
    running: impl Fn() -> bool,
) -> Result<(), Error> {
    let name = encoded(name);
    queue.bind_udp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
    crate::serve(queue, running, |query| {
        let len = query.len();
        // The answer is made where the question lies.
        let mut message = query.into_answer();
        match answer(message.space(), len, &name, address) {
            Some(len) => message.send(len),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_not_answered() {
        let name = encoded("a.example");
        let query = [&[1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name[..], &ADDRESS].concat();
        let reply = |query: &[u8]| {
            let mut message = query.to_vec();
            message.resize(512, 0);
            answer(&mut message, query.len(), &name, [192, 0, 2, 1].into())
        };
        assert_eq!(reply(&query), Some(query.len() + 16));
        for len in 0..query.len() {
            assert_eq!(reply(&query[..len]), None, "{len} bytes");
        }
        let mut loops = query.clone();
        loops[HEADER] = 0xc0;
        assert_eq!(reply(&loops), None, "a pointer");
        let mut response = query;
        response[2] |= RESPONSE;
        assert_eq!(reply(&response), None, "an answer is not answered");
    }
}
