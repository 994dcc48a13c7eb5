//! Reporting faults in the headers of a packet (RFC 4443 §3.4, RFC 8200 §4).

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, ParamDoc, PortDoc, Ports,
    StateKind, bits,
};
use weever_graph::Effects;
use weever_net::fragment::Piece;
use weever_net::icmp6::Cause;
use weever_net::iface::IfaceId;
use weever_net::ipv6::Chain;

use weever_net::state::NetState;

use super::{header, whole};
use crate::host::StateReader;
use crate::icmp6::{Icmp6Limits, LIMITS, Verdict};
use crate::kinds::network;

/// Reports a fault in a packet's headers to its sender.
pub static REPORT: BlockType = BlockType {
    spawns: &["report"],
    effects: MARKS.union(Effects::CONSUMES).union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[ParamDoc {
        name: "cause",
        default: "chain",
        doc: "the reported fault: `chain`, extension headers that cannot be followed, or `unknown`, \
              an unknown protocol, or `port`, a closed port, or \
              `fragment`, one that cannot be part of a packet, or `neighbour`, one that does not \
              answer",
    }],
    counters: &["reported"],
    ..BlockType::new(
        "ReportIPv6",
        "Reports a fault in a packet's headers to its sender, if that is allowed and \
         not too frequent (RFC 4443 §2.4).",
        &[
            PortDoc { name: "silent", doc: "it must not be reported, or need not be" },
            PortDoc { name: "limited", doc: "too many errors were sent lately" },
        ],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let limits = build.env::<Icmp6Limits>(LIMITS)?;
    let cause: String = build.param("cause")?;
    let of: fn(&Buffer) -> Option<Cause> = match cause.as_str() {
        "chain" => fault_of,
        "unknown" => unknown_of,
        "port" => |_| Some(Cause::PortUnreachable),
        "fragment" => fragment_of,
        "neighbour" => |_| Some(Cause::AddressUnreachable),
        other => {
            let remedy = "use chain, unknown, port, fragment or neighbour";
            return Err(build.bad_param("cause", other, remedy));
        }
    };
    Ok(Box::new(Icmp6Report { state: network(build)?.reader(), limits, of }))
}

struct Icmp6Report {
    state: StateReader,
    limits: Arc<Icmp6Limits>,
    of: fn(&Buffer) -> Option<Cause>,
}

fn fault_of(packet: &Buffer) -> Option<Cause> {
    Chain::walk(whole(packet)).err().and_then(Cause::of_chain)
}

fn unknown_of(packet: &Buffer) -> Option<Cause> {
    let chain = Chain::walk(whole(packet)).ok()?;
    Some(Cause::NextHeader { pointer: chain.pointer as u32 })
}

fn fragment_of(packet: &Buffer) -> Option<Cause> {
    let reject = Piece::v6(whole(packet), packet.meta().iface).err()?;
    Cause::of_fragment(reject, whole(packet))
}

/// Whether it is our own packet, about which no error is sent.
fn is_from_us(state: &NetState, packet: &Buffer) -> bool {
    let iface = IfaceId(packet.meta().iface);
    header(packet).is_some_and(|ip| state.is_ours6(iface, ip.src()))
}

impl Block for Icmp6Report {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (mut told, state): (Mask, _) = (0, self.state.load());
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let cause = (self.of)(packet).filter(|_| !is_from_us(state, packet));
            match cause.map_or(Verdict::Silent, |cause| self.limits.judge(packet, cause, cx.now)) {
                Verdict::Tell => told |= 1 << task,
                Verdict::Silent => ports.enable(0, 1 << task),
                Verdict::Limited => ports.enable(1, 1 << task),
            }
        }
        cx.count(0, told.count_ones().into());
        cx.spawn(0, told);
    }
}
