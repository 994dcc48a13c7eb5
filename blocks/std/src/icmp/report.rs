//! Whether to report that nobody listens on a port, and how often.

use std::sync::{Arc, Mutex, PoisonError};

use weever_blocks_api::{
    Block, BlockType, Buffer, Burst, Cx, Mask, Nanos, PortDoc, Ports, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::icmp::{ErrorLimits, kind, may_report};
use weever_net::state::NetState;
use weever_packet::Flags;

use crate::check::{READS, network, reader, tasks_where};
use crate::host::StateReader;

/// How many errors the host may still report; shared by all workers, so that the limit is one of
/// the host. Locked once per burst that has something to report.
#[derive(Debug, Default)]
pub struct IcmpLimits(Mutex<ErrorLimits>);

impl IcmpLimits {
    /// These limits.
    pub fn new(limits: ErrorLimits) -> IcmpLimits {
        IcmpLimits(Mutex::new(limits))
    }

    /// The tasks of `wanted`, from the first on, that may report an error of type `kind` now.
    pub(crate) fn grant(&self, wanted: Mask, kind: u8, now: Nanos) -> Mask {
        if wanted == 0 {
            return 0;
        }
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bits(wanted).take_while(|_| limits.take(kind, now)).fold(0, |all, task| all | 1 << task)
    }
}

/// Reports that nobody listens on a port.
pub static CLOSED_PORT_ACTION: BlockType = BlockType {
    spawns: &["unreachable"],
    effects: READS.union(Effects::CONSUMES).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["reported"],
    ..reader(
        "RxL4UDPClosedPortAction",
        "Has a datagram for a closed port reported to its sender, if that is allowed and not too \
         frequent (RFC 1122 §3.2.2, RFC 1812 §4.3.2.8).",
        &[
            PortDoc { name: "silent", doc: "an error about it must not be sent" },
            PortDoc { name: "limited", doc: "too many errors were sent lately" },
        ],
        |build| {
            let state = network(build)?.reader();
            let limits = build.env.get_or_default::<IcmpLimits>();
            Ok(Box::new(ClosedPortAction { state, limits }))
        },
    )
};

struct ClosedPortAction {
    state: StateReader,
    limits: Arc<IcmpLimits>,
}

fn allowed(state: &NetState, packet: &Buffer) -> bool {
    let meta = packet.meta();
    let group = meta.flags.has(Flags::LINK_BROADCAST);
    may_report(packet.at(meta.l3), group, state).is_ok()
}

impl Block for ClosedPortAction {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        let allowed = tasks_where(burst, input, |packet| allowed(state, packet));
        let granted = self.limits.grant(allowed, kind::UNREACHABLE, cx.now);
        cx.count(0, granted.count_ones().into());
        cx.spawn(0, granted);
        ports.enable(0, input & !allowed);
        ports.enable(1, allowed & !granted);
    }
}
