//! Payloads whose every byte can be verified, and ICMP echo messages for peers whose stack leaves them to the
//! program.

use weever_wire::icmpv4::{IcmpRepr, IcmpView};

/// Bytes of a datagram that carry its number.
pub(crate) const HEADER: usize = 8;

/// Largest UDP payload over IPv6 in a frame of 1,500 bytes.
const LARGEST: u64 = 1452;

/// `len` bytes that depend on `seed`: splitmix64's output.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&next());
    }
    out.truncate(len);
    out
}

/// Datagram number `number`: the number, then bytes that depend on it; the length varies with it.
pub(crate) fn datagram(number: u64) -> Vec<u8> {
    let len = HEADER as u64 + number.wrapping_mul(2_654_435_761) % (LARGEST - HEADER as u64 + 1);
    let mut out = number.to_be_bytes().to_vec();
    out.extend_from_slice(&bytes(number, len as usize - HEADER));
    out
}

/// The number of a datagram that is intact, `None` for any other.
pub(crate) fn verify(received: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*received.first_chunk()?);
    (datagram(number) == received).then_some(number)
}

/// An echo request with its checksum.
pub(crate) fn echo_request(ident: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let request = IcmpRepr::EchoRequest { ident, seq, data: payload };
    let mut message = vec![0; request.buffer_len()];
    let written = request.emit(&mut message);
    debug_assert!(written.is_ok(), "the message has room for its header");
    message
}

/// The payload of an echo reply to request number `seq`, if `message` is that and intact.
pub(crate) fn echo_reply(message: &[u8], seq: u16) -> Option<Vec<u8>> {
    let view = IcmpView::new(message).ok()?;
    let mine = view.header().kind() == 0 && view.header().seq() == seq && view.checksum_ok();
    mine.then(|| view.data().to_vec())
}

const ECHO_REQUEST_6: u8 = 128;
const ECHO_REPLY_6: u8 = 129;

/// The same of ICMPv6, whose checksum the peer's stack fills in, since it knows the addresses.
pub(crate) fn echo_request6(ident: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let ([i, j], [s, t]) = (ident.to_be_bytes(), seq.to_be_bytes());
    [&[ECHO_REQUEST_6, 0, 0, 0, i, j, s, t], payload].concat()
}

/// The same of ICMPv6, whose checksum the peer's stack has looked at.
pub(crate) fn echo_reply6(message: &[u8], seq: u16) -> Option<Vec<u8>> {
    let (header, data) = message.split_first_chunk::<8>()?;
    (header[0] == ECHO_REPLY_6 && header[6..] == seq.to_be_bytes()).then(|| data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_verifies_and_a_changed_one_does_not() {
        for number in [0, 1, 99_999] {
            let mut datagram = datagram(number);
            assert_eq!(verify(&datagram), Some(number));
            let last = datagram.len() - 1;
            datagram[last] ^= 1;
            assert_eq!(verify(&datagram), None);
            assert_eq!(verify(&datagram[..last]), None);
        }
    }

    #[test]
    fn lengths_span_the_range() {
        let lengths: Vec<usize> = (0..5000).map(|n| datagram(n).len()).collect();
        assert!(lengths.iter().min() < Some(&20) && lengths.iter().max() > Some(&1440));
        assert!(lengths.iter().all(|l| (HEADER..=1452).contains(l)));
    }
}
