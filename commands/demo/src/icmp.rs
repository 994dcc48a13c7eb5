//! ICMP echo messages, for peers whose stack leaves them to the program.

use weever_wire::icmpv4::{IcmpRepr, IcmpView};

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
