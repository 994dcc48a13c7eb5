//! Whether to report an error, and how often.

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, Nanos, ParamDoc, PortDoc,
    Ports, StateKind, bits, tasks_marked,
};
use weever_graph::Effects;
use weever_net::icmp::{Cause, ErrorLimits, may_report};
use weever_net::state::{IcmpRates, NetState};
use weever_packet::Flags;

use crate::host::StateReader;
use crate::kinds::network;

/// How many errors the host may still report; shared by all workers, so that the limit is one of
/// the host. Locked once per burst that has something to report.
#[derive(Debug, Default)]
pub struct IcmpLimits(Mutex<Limits>);

#[derive(Debug, Default)]
struct Limits {
    rates: IcmpRates,
    left: ErrorLimits,
}

impl IcmpLimits {
    /// The tasks of `wanted`, from the first on, that may report their recorded causes now. New
    /// rates start afresh.
    pub(crate) fn grant(&self, rates: IcmpRates, burst: &Burst, wanted: Mask, now: Nanos) -> Mask {
        if wanted == 0 {
            return 0;
        }
        let mut limits = self.lock(rates);
        let cause = |task| Cause::from_bits(burst.get(task)?.meta().entry);
        let mut take = |cause: Cause| limits.left.take(cause.kind(), now);
        let granted = bits(wanted).filter(|task| cause(*task).is_some_and(&mut take));
        granted.fold(0, |all, task| all | 1 << task)
    }

    /// Whether one error may be reported now.
    pub(crate) fn grant_one(&self, rates: IcmpRates, cause: Cause, now: Nanos) -> bool {
        self.grant_kind(rates, cause.kind(), now)
    }

    /// Whether one message of this type may be sent now.
    pub(crate) fn grant_kind(&self, rates: IcmpRates, kind: u8, now: Nanos) -> bool {
        self.lock(rates).left.take(kind, now)
    }

    fn lock(&self, rates: IcmpRates) -> MutexGuard<'_, Limits> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.rates != rates {
            *limits = Limits { rates, left: ErrorLimits::of(rates) };
        }
        limits
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
        doc: "what is reported: `protocol` or `port` unreachable, or `host`, or what was `recorded` as the entry",
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

/// What a node reports; `None`: what the packet says.
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
    let limits = build.env.get_or_default::<IcmpLimits>();
    let Fixed(cause) = build.param("cause")?;
    Ok(Box::new(Report { state, limits, cause }))
}

struct Report {
    state: StateReader,
    limits: Arc<IcmpLimits>,
    cause: Option<Cause>,
}

/// Whether the packet may be reported; records what for.
fn allowed(state: &NetState, packet: &mut Buffer, cause: Option<Cause>) -> bool {
    let meta = packet.meta();
    let group = meta.flags.has(Flags::LINK_BROADCAST);
    let allowed = may_report(packet.at(meta.l3), group, state).is_ok();
    if let Some(cause) = cause {
        packet.meta_mut().entry = cause.to_bits();
    }
    allowed
}

impl Block for Report {
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
