//! Errors that others report about packets of ours, or not.

use std::net::IpAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Burst, Cx, Mask, Nanos, PortDoc, Ports, READS, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::icmp6::{ErrorReject, ReceivedError, check_error};
use weever_net::iface::IfaceId;
use weever_net::pmtu::{SentPacket, TooBig};
use weever_net::state::NetState;
use weever_wire::icmpv6::kind;

use super::message;
use crate::host::{Paths, StateReader};
use crate::kinds::network;

/// Reads errors.
pub static ERROR: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    counters: &["toobig", "unreachable", "timeexceeded", "problem", "learned"],
    ..BlockType::new(
        "RxL3ICMP6Error",
        "Is it an error about a packet that we sent? Counts the kinds of those that are, and learns \
         a path's MTU from a \"packet too big\" that can be believed (RFC 8201).",
        &[
            PortDoc { name: "out", doc: "about a packet of ours" },
            PortDoc { name: "foreign", doc: "about a packet that is not from us (RFC 5927 §4.1)" },
            PortDoc { name: "quote", doc: "it quotes too little to tell" },
            PortDoc { name: "tiny", doc: "a path MTU below 1280 (RFC 8201 §4)" },
            PortDoc { name: "unknown", doc: "an unknown error" },
        ],
        |build| {
            let state = network(build)?.reader();
            Ok(Box::new(Error { state, paths: build.env.get_or_default() }))
        },
    )
};

struct Error {
    state: StateReader,
    paths: Arc<Paths>,
}

impl Block for Error {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        for task in bits(input) {
            let Some(packet) = burst.get(task) else { continue };
            let iface = IfaceId(packet.meta().iface);
            let port = match check_error(message(packet), |ip| state.is_ours6(iface, ip)) {
                Ok(error) => {
                    count(cx, error.kind);
                    let learned = learn(state, &self.paths, iface, &error, cx.now);
                    cx.count(4, learned.is_some().into());
                    0
                }
                Err(ErrorReject::NotOurs) => 1,
                Err(ErrorReject::Quote) => 2,
                Err(ErrorReject::TinyMtu) => 3,
                Err(_) => 4,
            };
            ports.enable(port, 1 << task);
        }
    }
}

fn count(cx: &mut Cx<'_>, said: u8) {
    match said {
        kind::PACKET_TOO_BIG => cx.count(0, 1),
        kind::UNREACHABLE => cx.count(1, 1),
        kind::TIME_EXCEEDED => cx.count(2, 1),
        _ => cx.count(3, 1),
    }
}

/// The path's MTU, if it has become smaller.
fn learn(
    state: &NetState,
    paths: &Paths,
    iface: IfaceId,
    error: &ReceivedError,
    now: Nanos,
) -> Option<u32> {
    if error.kind != kind::PACKET_TOO_BIG {
        return None;
    }
    let hop = state.hop6(iface, error.remote)?;
    let link = state.mtu6(hop.iface).into();
    let packet = SentPacket {
        src: IpAddr::V6(error.local),
        dst: IpAddr::V6(error.remote),
        protocol: error.protocol,
        ports: error.ports?,
        length: error.length,
        fragment: error.fragment,
    };
    let said = TooBig { packet, dont_fragment: true, mtu: error.value };
    paths.learn(said, link, now)
}
