//! Whether to report an error, and how often.

use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, Nanos, ParamDoc, PortDoc,
    Ports, StateKind, bits, tasks_marked,
};
use weever_graph::Effects;
use weever_net::icmp::{Cause, may_report};
use weever_net::limit::ErrorLimits;
use weever_net::random::Key;
use weever_net::state::{IcmpRates, NetState};
use weever_packet::Flags;
use weever_wire::ipv4::Ipv4Header;

use crate::host::StateReader;
use crate::kinds::network;

/// Its name, for the error of a graph without it.
pub(crate) const LIMITS: &str = "the host's budget of ICMP errors";

/// The budget of ICMP errors of a host, shared by all workers without a lock.
#[derive(Debug)]
pub struct IcmpLimits(ErrorLimits);

impl IcmpLimits {
    /// A full budget; `key` is a secret.
    pub fn new(key: Key) -> IcmpLimits {
        IcmpLimits(ErrorLimits::new(key))
    }

    /// The tasks of `wanted` that may report their recorded causes now.
    pub(crate) fn grant(&self, rates: IcmpRates, burst: &Burst, wanted: Mask, now: Nanos) -> Mask {
        let granted = bits(wanted).filter(|task| {
            let Some(packet) = burst.get(*task) else { return false };
            let budget = Cause::from_bits(packet.meta().entry).and_then(Cause::budget);
            let header = Ipv4Header::first(packet.at(packet.meta().l3));
            header.is_some_and(|ip| self.take(rates, budget, ip.src(), now))
        });
        granted.fold(0, |all, task| all | 1 << task)
    }

    /// Whether one message of this [budget](weever_net::icmp::budget) may go to `to` now.
    pub(crate) fn take(
        &self,
        rates: IcmpRates,
        budget: Option<usize>,
        to: Ipv4Addr,
        now: Nanos,
    ) -> bool {
        self.0.take(rates, budget, to.into(), now)
    }
}

/// Has an error reported to a datagram's sender.
pub static REPORT: BlockType = BlockType {
    spawns: &["error"],
    effects: MARKS.union(Effects::CONSUMES).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[ParamDoc {
        name: "cause",
        default: "recorded",
        doc: "the reported error: `protocol` or `port` unreachable, or `host`, or the cause `recorded` \
              as the entry",
    }],
    counters: &["reported"],
    ..BlockType::new(
        "IcmpReport",
        "Has a datagram reported to its sender, if that is allowed and not too frequent (RFC 1122 \
         §3.2.2, RFC 1812 §4.3.2.7, §4.3.2.8).",
        &[
            PortDoc { name: "silent", doc: "an error about it must not be sent" },
            PortDoc { name: "limited", doc: "too many errors were sent lately" },
        ],
        make,
    )
};

/// The cause that a node reports; `None`: the packet's own.
struct Fixed(Option<Cause>);

impl FromStr for Fixed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Fixed, Self::Err> {
        match text {
            "recorded" => Ok(Fixed(None)),
            "protocol" => Ok(Fixed(Some(Cause::ProtocolUnreachable))),
            "port" => Ok(Fixed(Some(Cause::PortUnreachable))),
            "host" => Ok(Fixed(Some(Cause::HostUnreachable))),
            _ => Err("use recorded, protocol, port or host"),
        }
    }
}

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let state = network(build)?.reader();
    let limits = build.env::<IcmpLimits>(LIMITS)?;
    let Fixed(cause) = build.param("cause")?;
    Ok(Box::new(IcmpReport { state, limits, cause }))
}

struct IcmpReport {
    state: StateReader,
    limits: Arc<IcmpLimits>,
    cause: Option<Cause>,
}

/// Whether the packet may be reported; records the cause.
fn allowed(state: &NetState, packet: &mut Buffer, cause: Option<Cause>) -> bool {
    let meta = packet.meta();
    let group = meta.flags.has(Flags::LINK_BROADCAST);
    let allowed = may_report(packet.at(meta.l3), group, state).is_ok();
    if let Some(cause) = cause {
        packet.meta_mut().entry = cause.to_bits();
    }
    allowed
}

impl Block for IcmpReport {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, cause) = (self.state.load(), self.cause);
        let allowed = tasks_marked(burst, input, |packet| allowed(state, packet, cause));
        let granted = self.limits.grant(state.settings().icmp, burst, allowed, cx.now);
        cx.count(0, granted.count_ones().into());
        cx.spawn(0, granted);
        ports.enable(0, input & !allowed);
        ports.enable(1, allowed & !granted);
    }
}
