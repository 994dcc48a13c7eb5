//! Which echo requests are answered, and how often.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    READS, StateKind, bits, tasks_where,
};
use weever_graph::Effects;
use weever_net::limit::SharedLimit;
use weever_net::state::{NetState, Rate};
use weever_wire::ipv4::Ipv4Header;

use crate::host::StateReader;
use crate::kinds::network;

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
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
