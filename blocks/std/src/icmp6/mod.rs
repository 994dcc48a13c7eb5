#![doc = include_str!("README.md")]

mod error;
mod report;
mod tx;

pub use error::ERROR;
pub use report::Icmp6Limits;
pub(crate) use report::{LIMITS, Verdict};
pub use tx::{ALLOCATE_HEADER, FILL_ERROR, FILL_HEADER, INITIATE_ERROR, INITIATE_RESPONSE};
pub(crate) use tx::{reply, respond};

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, READS,
    StateKind, number_of, tasks_where, validator,
};
use weever_graph::Effects;
use weever_net::iface::IfaceId;
use weever_net::state::Rate;
use weever_wire::icmpv6::{self};
use weever_wire::ipv6::Ipv6Header;

use crate::host::StateReader;
use crate::icmp::{EchoLimit, rate};
use crate::kinds::{between, network};

/// The message, as far as it is there.
#[inline(always)]
fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType = BlockType::validator(
    "RxL3ICMP6ValidChecksum",
    "Is the message's checksum right (RFC 4443 §2.3)?",
    |_| validator(|p| checksum_ok(p)),
);

#[inline]
pub(crate) fn checksum_ok(packet: &Buffer) -> bool {
    let ip = packet.array_at(packet.meta().l3).map(Ipv6Header::of);
    ip.is_some_and(|ip| icmpv6::checksum_ok(message(packet), &ip.addresses()))
}

/// Has the echo answered.
pub static NEEDS_RESPONSE: BlockType = BlockType {
    spawns: &["response"],
    effects: READS.union(Effects::CONSUMES).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[
        ParamDoc {
            name: "per_second",
            default: "10000",
            doc: "echo replies that the host sends in a second, of both families",
        },
        ParamDoc { name: "burst", default: "1000", doc: "echo replies that it sends at once" },
    ],
    counters: &["answered"],
    ..BlockType::new(
        "RxL3ICMP6NeedsResponse",
        "Has an echo request answered, if it was sent to us alone and not too many were.",
        &[
            PortDoc { name: "drop", doc: "to a group" },
            PortDoc { name: "limited", doc: "too many were answered lately" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let (state, limit) = (network(build)?.reader(), build.env.get_or_default());
    Ok(Box::new(NeedsResponse { state, rate: rate(build)?, limit }))
}

struct NeedsResponse {
    state: StateReader,
    rate: Rate,
    limit: Arc<EchoLimit>,
}

impl Block for NeedsResponse {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let wanted = tasks_where(burst, input, |packet| {
            let ip = packet.array_at(packet.meta().l3).map(Ipv6Header::of);
            ip.is_some_and(|ip| state.is_ours6(IfaceId(packet.meta().iface), ip.dst()))
        });
        let answered = self.limit.grant(self.rate, wanted, cx.now);
        cx.count(0, number_of(answered).into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
