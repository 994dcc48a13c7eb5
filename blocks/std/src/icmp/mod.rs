#![doc = include_str!("README.md")]

mod report;
#[cfg(test)]
mod tests;
mod tx;

pub(crate) use report::LIMITS;
pub use report::{IcmpLimits, REPORT};
pub use tx::{ALLOCATE_HEADER, FILL_ERROR, FILL_HEADER, INITIATE_ERROR, INITIATE_RESPONSE};
pub(crate) use tx::{reply, respond};

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    READS, StateKind, bits, number_of, tasks_where, validator,
};
use weever_graph::Effects;
use weever_net::icmp::check_error;
use weever_net::limit::SharedLimit;
use weever_net::state::{NetState, Rate};
use weever_wire::checksum;
use weever_wire::icmpv4::kind;
use weever_wire::ipv4::Ipv4Header;

use crate::host::StateReader;
use crate::kinds::{between, network, network_classifier};

#[inline(always)]
pub(crate) fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType =
    BlockType::validator("RxL3ICMPValidChecksum", "Is the message's checksum right?", |_| {
        validator(|p| checksum_ok(p))
    });

#[inline]
pub(crate) fn checksum_ok(packet: &Buffer) -> bool {
    checksum::is_valid(checksum::sum(message(packet)))
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

/// The budget of echo replies of a host, shared by all workers without a lock. Apart from that of
/// errors: neither silences the other.
#[derive(Debug, Default)]
pub(crate) struct EchoLimit(SharedLimit);

impl EchoLimit {
    /// The tasks of `wanted`, from the first on, that may be answered now.
    pub(crate) fn grant(&self, rate: Rate, wanted: Mask, now: Nanos) -> Mask {
        let granted = bits(wanted).take_while(|_| self.0.take(rate, 1, now));
        granted.fold(0, |all, task| all | 1 << task)
    }
}

/// The rate that a block's parameters set.
pub(crate) fn rate(build: &Build<'_>) -> Result<Rate, BuildError> {
    Ok(Rate { per_second: build.param("per_second")?, burst: build.param("burst")? })
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
            doc: "echo replies that the host sends in a second",
        },
        ParamDoc { name: "burst", default: "1000", doc: "echo replies that it sends at once" },
    ],
    counters: &["answered"],
    ..BlockType::new(
        "RxL3ICMPNeedsResponse",
        "Has an echo request answered, if it was sent to us alone (RFC 1122 §3.2.2.6) and not too \
         many were.",
        &[
            PortDoc { name: "drop", doc: "to a broadcast address" },
            PortDoc { name: "limited", doc: "too many were answered lately" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let state = network(build)?.reader();
    Ok(Box::new(NeedsResponse { state, rate: rate(build)?, limit: build.env.get_or_default() }))
}

struct NeedsResponse {
    state: StateReader,
    rate: Rate,
    limit: Arc<EchoLimit>,
}

fn is_for_us(state: &NetState, packet: &Buffer) -> bool {
    let header = Ipv4Header::first(packet.at(packet.meta().l3));
    header.is_some_and(|ip| state.is_ours(ip.dst()))
}

impl Block for NeedsResponse {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let wanted = tasks_where(burst, input, |packet| is_for_us(state, packet));
        let answered = self.limit.grant(self.rate, wanted, cx.now);
        cx.count(0, number_of(answered).into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
