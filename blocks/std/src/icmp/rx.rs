//! Receive: is it a sound message, and is it an echo that we answer?

use weever_blocks_api::{Block, BlockType, Buffer, Burst, Cx, Mask, PortDoc, Ports};
use weever_graph::Effects;
use weever_net::addr::Locals;
use weever_wire::checksum;
use weever_wire::icmpv4::{IcmpHeader, kind};
use weever_wire::ipv4::Ipv4Header;

use crate::check::{READS, Validate, between, boolean, reader, tasks_where};
use crate::host::HostState;

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

/// Has the echo answered.
pub static NEEDS_RESPONSE: BlockType = BlockType {
    spawns: &["response"],
    effects: READS.union(Effects::CONSUMES),
    counters: &["answered"],
    ..reader(
        "RxL3ICMPNeedsResponse",
        "Has an echo request answered, if it was sent to us alone (RFC 1122 §3.2.2.6).",
        &[PortDoc { name: "drop", doc: "to a broadcast address" }],
        |build| {
            let locals = build.env::<HostState>("the host's state")?.locals.clone();
            Ok(Box::new(NeedsResponse { locals }))
        },
    )
};

struct NeedsResponse {
    locals: Locals,
}

impl Block for NeedsResponse {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let ours = |ip: Ipv4Header<'_>| self.locals.is_ours(ip.dst());
        let answered = tasks_where(burst, input, |packet| {
            Ipv4Header::first(packet.at(packet.meta().l3)).is_some_and(ours)
        });
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
        ports.enable(0, input & !answered);
    }
}
