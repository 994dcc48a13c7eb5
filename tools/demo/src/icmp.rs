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
