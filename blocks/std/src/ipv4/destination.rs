//! The destination of a datagram: local, to be forwarded, or neither.

use weever_block::{BlockType, PortDoc};
use weever_net::addr::Destination;
use weever_net::iface::IfaceId;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_wire::ipv4::{Ipv4Header, protocol};

use super::rx::header;
use crate::kinds::network_classifier;

/// The port of datagrams for us.
pub(crate) const LOCAL: usize = 0;
/// The port of datagrams that we forward.
pub(crate) const FORWARD: usize = 1;
const ONE_OF_MANY: usize = 2;
const GROUP: usize = 3;
const MARTIAN: usize = 4;
const OTHER: usize = 5;

/// Is it for us, or to be forwarded?
pub static DESTINATION: BlockType = BlockType::new(
    "RxL3IPv4Destination",
    "Is the destination one of our addresses, a broadcast address of the link or a group that was \
     joined, or does it go on?",
    &[
        PortDoc { name: "local", doc: "it is for us" },
        PortDoc { name: "forward", doc: "for another host, and forwarding is on" },
        PortDoc { name: "one", doc: "of one host, but in a link broadcast (RFC 1122 §3.3.6)" },
        PortDoc { name: "group", doc: "a group that was not joined, or not for this source" },
        PortDoc { name: "martian", doc: "an address that is not a host's (RFC 1812 §5.3.7)" },
        PortDoc { name: "other", doc: "for another host, and forwarding is off" },
    ],
    |build| {
        network_classifier::<6>(build, |state, packet| {
            let Some(header) = header(packet) else { return OTHER };
            destination(state, IfaceId(packet.meta().iface), packet.meta().flags, header)
        })
    },
);

/// A datagram for one host does not come in a link broadcast: RFC 1122 §3.3.6 has it discarded, or
/// one forged frame could have all hosts answer; RFC 1812 §5.3.4 has it not forwarded.
#[inline]
pub(crate) fn destination(
    state: &NetState,
    iface: IfaceId,
    flags: Flags,
    header: Ipv4Header<'_>,
) -> usize {
    let dst = header.dst();
    match state.destination4(iface, dst) {
        Destination::Local if flags.has(Flags::LINK_BROADCAST) => ONE_OF_MANY,
        Destination::Local | Destination::Broadcast => LOCAL,
        Destination::Multicast if is_wanted(state, iface, header) => LOCAL,
        Destination::Multicast => GROUP,
        Destination::Other if state.route4(dst).is_some_and(|h| h.kind == Kind::Martian) => MARTIAN,
        Destination::Other if !state.settings().forwarding => OTHER,
        Destination::Other if flags.has(Flags::LINK_BROADCAST) => ONE_OF_MANY,
        Destination::Other => FORWARD,
    }
}

/// Queries go to the group's own address, for any wanted sources.
#[inline]
fn is_wanted(state: &NetState, iface: IfaceId, header: Ipv4Header<'_>) -> bool {
    match header.protocol() {
        protocol::IGMP => state.is_member4(iface, header.dst()),
        _ => state.accepts4(iface, header.dst(), header.src()),
    }
}
