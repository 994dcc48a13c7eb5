//! Errors that others report about packets of ours, or not.

use weever_blocks_api::{Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, bits};
use weever_net::icmp6::{HeardReject, hear};
use weever_net::iface::IfaceId;
use weever_wire::icmpv6::kind;

use super::rx::message;
use crate::check::{network, reader};
use crate::host::StateReader;

/// Reads errors.
pub static ERROR: BlockType = BlockType {
    counters: &["toobig", "unreachable", "timeexceeded", "problem"],
    ..reader(
        "RxL3ICMP6Error",
        "Is it an error about a packet that we sent? Counts the kinds of those that are.",
        &[
            PortDoc { name: "out", doc: "about a packet of ours" },
            PortDoc { name: "foreign", doc: "about a packet that is not from us (RFC 5927 §4.1)" },
            PortDoc { name: "quote", doc: "it quotes too little to tell" },
            PortDoc { name: "tiny", doc: "a path MTU below 1280 (RFC 8201 §4)" },
            PortDoc { name: "unknown", doc: "an error that nobody knows" },
        ],
        |build| Ok(Box::new(Error { state: network(build)?.reader() })),
    )
};

struct Error {
    state: StateReader,
}

impl Block for Error {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let state = self.state.load();
        for task in bits(input) {
            let Some(packet) = burst.get(task) else { continue };
            let iface = IfaceId(packet.meta().iface);
            let port = match hear(message(packet), |ip| state.is_ours6(iface, ip)) {
                Ok(heard) => {
                    count(cx, heard.kind);
                    0
                }
                Err(HeardReject::NotOurs) => 1,
                Err(HeardReject::Quote) => 2,
                Err(HeardReject::TinyMtu) => 3,
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
