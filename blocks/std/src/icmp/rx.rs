//! Receive: is it a sound message, and is it an echo request?

use weever_blocks_api::{BlockType, Buffer};
use weever_wire::checksum;
use weever_wire::icmpv4::{IcmpHeader, kind};

use crate::check::{Validate, between, boolean};

#[inline(always)]
fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// Is the header whole?
pub static VALID_HEADER_LENGTH: BlockType =
    boolean("RxL3ICMPValidHeaderLength", "Are the first eight bytes of the message there?", |_| {
        Ok(Box::new(Validate(|p: &Buffer| IcmpHeader::first(message(p)).is_some())))
    });

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType =
    boolean("RxL3ICMPValidChecksum", "Is the message's checksum right?", |_| {
        Ok(Box::new(Validate(|p: &Buffer| checksum::is_valid(checksum::sum(message(p))))))
    });

/// Is it an echo request?
pub static IS_TYPE_REQUEST: BlockType =
    boolean("RxL3ICMPIsTypeRequest", "Is it an echo request?", |_| {
        let request = |h: IcmpHeader<'_>| (h.kind(), h.code()) == (kind::ECHO_REQUEST, 0);
        Ok(Box::new(Validate(move |p: &Buffer| IcmpHeader::first(message(p)).is_some_and(request))))
    });
