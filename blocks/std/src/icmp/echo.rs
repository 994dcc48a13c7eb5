//! Which echo requests are answered, and how often.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    READS, StateKind, bits, tasks_where,
};
use weever_graph::Effects;
use weever_net::icmp::RateLimit;
use weever_net::state::NetState;
use weever_wire::ipv4::Ipv4Header;

use crate::host::StateReader;
use crate::kinds::network;

/// How many echo replies the host may still send; shared by all workers, so that the limit is one
/// of the host. Apart from the errors' limits: neither silences the other. Locked once per burst
/// with an echo request.
#[derive(Debug, Default)]
pub(crate) struct EchoLimit(Mutex<Option<Limit>>);

#[derive(Debug)]
struct Limit {
    rates: (u32, u32),
    left: RateLimit,
}

impl EchoLimit {
    /// Sets the limit; another one than before starts afresh.
    pub(crate) fn set(&self, per_second: u32, burst: u32) {
        let rates = (per_second, burst);
        let mut limit = self.lock();
        if limit.as_ref().is_none_or(|limit| limit.rates != rates) {
            *limit = Some(Limit { rates, left: RateLimit::new(per_second, burst) });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Limit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks of `wanted`, from the first on, that may be answered now.
    pub(crate) fn grant(&self, wanted: Mask, now: Nanos) -> Mask {
        if wanted == 0 {
            return 0;
        }
        let mut limit = self.lock();
        let Some(Limit { left, .. }) = &mut *limit else { return wanted };
        bits(wanted).take_while(|_| left.take(now)).fold(0, |all, task| all | 1 << task)
    }
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

/// The parameters that came last hold; all workers run one graph.
fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let state = network(build)?.reader();
    let (per_second, burst) = (build.param("per_second")?, build.param("burst")?);
    let limit = build.env.get_or_default::<EchoLimit>();
    limit.set(per_second, burst);
    Ok(Box::new(NeedsResponse { state, limit }))
}

struct NeedsResponse {
    state: StateReader,
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
        let answered = self.limit.grant(wanted, cx.now);
        cx.count(0, answered.count_ones().into());
        cx.spawn(0, answered);
        ports.enable(0, input & !wanted);
        ports.enable(1, wanted & !answered);
    }
}
