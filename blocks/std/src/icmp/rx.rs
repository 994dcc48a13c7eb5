//! Receive: is the message sound, and of which type?

use weever_block::{BlockType, Buffer, PortDoc, classifier, validator};
use weever_net::icmp::check_error;
use weever_net::state::NetState;
use weever_wire::checksum;
use weever_wire::icmpv4::{IcmpHeader, kind};

use crate::kinds::{between, network_classifier};

#[inline(always)]
fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// Is the header whole?
pub static VALID_HEADER_LENGTH: BlockType = BlockType::validator(
    "RxL3ICMPValidHeaderLength",
    "Are the first eight bytes of the message there?",
    |_| validator(|p| IcmpHeader::first(message(p)).is_some()),
);

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType =
    BlockType::validator("RxL3ICMPValidChecksum", "Is the message's checksum right?", |_| {
        validator(|p| checksum::is_valid(checksum::sum(message(p))))
    });

/// Which kind of message is it?
pub static CLASSIFY: BlockType = BlockType::new(
    "RxL3ICMPClassify",
    "Which kind of message is it?",
    &[
        PortDoc { name: "request", doc: "an echo request (code 0)" },
        PortDoc { name: "error", doc: "unreachable, time exceeded or parameter problem" },
        PortDoc { name: "redirect", doc: "a better first hop, says a neighbour" },
        PortDoc { name: "reply", doc: "an echo reply" },
        PortDoc { name: "drop", doc: "any other" },
    ],
    |_| classifier::<5>(|p| kind_of(p)),
);

fn kind_of(packet: &Buffer) -> usize {
    let kind_of = |h: IcmpHeader<'_>| match (h.kind(), h.code()) {
        (kind::ECHO_REQUEST, 0) => 0,
        (kind::UNREACHABLE | kind::TIME_EXCEEDED | kind::PARAMETER_PROBLEM, _) => 1,
        (kind::REDIRECT, _) => 2,
        (kind::ECHO_REPLY, _) => 3,
        _ => 4,
    };
    IcmpHeader::first(message(packet)).map_or(4, kind_of)
}

/// Is an error about something that we sent, and which error is it?
pub static ERROR: BlockType = BlockType::new(
    "RxL3ICMPError",
    "Is an error about a datagram that we could have sent, and which error is it?",
    &[
        PortDoc { name: "toobig", doc: "too long for a link on its way" },
        PortDoc { name: "unreachable", doc: "it cannot be delivered" },
        PortDoc { name: "exceeded", doc: "it took too long" },
        PortDoc { name: "problem", doc: "something in it is wrong" },
        PortDoc { name: "stray", doc: "we cannot have sent the quoted packet" },
    ],
    |build| network_classifier::<5>(build, |state, p| error(state, p)),
);

fn error(state: &NetState, packet: &Buffer) -> usize {
    match check_error(message(packet), state) {
        Ok(found) if found.is_too_big() => 0,
        Ok(found) if found.kind == kind::UNREACHABLE => 1,
        Ok(found) if found.kind == kind::TIME_EXCEEDED => 2,
        Ok(_) => 3,
        Err(_) => 4,
    }
}
