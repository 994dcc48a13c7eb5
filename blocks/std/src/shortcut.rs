//! The path of nearly every packet, in one step: from the Ethernet header to the transport that an
//! IPv4 datagram is for, and to its UDP socket.
//!
//! Written with the same functions as the blocks whose place it takes. It looks at all of a packet
//! before it records anything, so that the packets which it leaves to the blocks are as they came.

use weever_block::{Buffer, Burst, Cx, Mask, Shortcut, ShortcutType, Ways, bits};
use weever_net::iface::IfaceId;
use weever_net::ipv4::{self, Ipv4Header};
use weever_net::state::NetState;
use weever_net::udp::Checksum;
use weever_wire::checksum;
use weever_wire::ethernet::{EthernetHeader, HEADER_LEN, ethertype};
use weever_wire::ipv4::protocol;

use crate::host::StateReader;
use crate::kinds::network;
use crate::{ipv4 as blocks4, udp};

/// A datagram for one of our UDP sockets, one that is forwarded, any other that is for us; and any
/// IPv6 packet, which has only its Ethernet header judged.
const UDP: usize = 0;
const FORWARD: usize = 1;
const LOCAL: usize = 2;
const IPV6: usize = 3;

/// Untagged frames for our link address; IPv4 without options.
pub static RECEIVE: ShortcutType = ShortcutType {
    name: "Receive",
    summary: "Untagged unicast frames with IPv4 without options, and IPv6 as far as Ethernet goes.",
    ways: &[&ways::UDP, &ways::FORWARD, &ways::LOCAL, &ways::IPV6],
    make: |build| Ok(Box::new(Receive { state: network(build)?.reader() })),
};

struct Receive {
    state: StateReader,
}

impl Shortcut for Receive {
    fn run(&mut self, _: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        let state = &**self.state.load();
        for task in bits(input) {
            if let Some(way) = burst.get_mut(task).and_then(|packet| way(state, packet)) {
                ways.take(way, task);
            }
        }
    }
}

#[inline(always)]
fn way(state: &NetState, packet: &mut Buffer) -> Option<usize> {
    let ether = EthernetHeader::first(packet.data())?;
    let link = packet.meta().link;
    let iface = state.member(link, 0)?;
    let ours = ether.dst() == state.interface(iface)?.mac && !ether.dst().is_multicast();
    let next = ether.ethertype();
    if !ours || ether.src().is_multicast() || !matches!(next, ethertype::IPV4 | ethertype::IPV6) {
        return None;
    }
    let l2 = packet.head();
    let l3 = l2 + HEADER_LEN as u16;
    let datagram = match next {
        ethertype::IPV4 => Some(datagram(state, iface, packet, l3)?),
        _ => None,
    };
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.ethertype, meta.vlan, meta.iface) = (l2, l3, next, 0, iface.0);
    let Some(datagram) = datagram else { return Some(IPV6) };
    (meta.l4, meta.end) = (l3 + ipv4::HEADER_LEN as u16, l3 + datagram.len);
    Some(if datagram.is_udp && is_sound(packet) { UDP } else { datagram.way })
}

/// The fields of a sound IPv4 header.
struct Datagram {
    /// Bytes by its own account.
    len: u16,
    way: usize,
    /// For us, and whole.
    is_udp: bool,
}

#[inline(always)]
fn datagram(state: &NetState, iface: IfaceId, packet: &Buffer, l3: u16) -> Option<Datagram> {
    let available = packet.at(l3).len();
    let bytes = packet.array_at::<20>(l3)?;
    let ip = Ipv4Header::of(bytes);
    // Version 4, and no options.
    let plain = bytes[0] == 0x45 && ipv4::total_len_ok(ip, available);
    if !plain || !checksum::is_valid(checksum::sum_array(bytes)) {
        return None;
    }
    if blocks4::source(state, iface, ip.src()) != blocks4::SOURCE_OK {
        return None;
    }
    let way = match blocks4::destination(state, iface, packet.meta().flags, ip) {
        blocks4::TO_LOCAL => LOCAL,
        blocks4::TO_FORWARD => FORWARD,
        _ => return None,
    };
    let is_udp = way == LOCAL && ip.protocol() == protocol::UDP && ipv4::is_whole(ip);
    Some(Datagram { len: ip.total_len() as u16, way, is_udp })
}

/// Whether a UDP header is whole, and its length and checksum are right; later blocks find the
/// metadata recorded here exactly as they would record them. Datagrams without a checksum, or with
/// a partial one, are left to the blocks, which count them.
#[inline(always)]
fn is_sound(packet: &mut Buffer) -> bool {
    udp::valid_length(packet) && udp::verify(packet) == Checksum::Valid
}

mod ways {
    //! The ways, as the blocks' names and ports.

    type Port = (&'static str, &'static str);

    const ETHERNET: [Port; 9] = [
        ("RxL2EtherClassified", "true"),
        ("RxL2EtherValidLength", "true"),
        ("RxL2EtherValidVlan", "true"),
        ("RxL2EtherValidUnicast", "true"),
        ("RxL2EtherValidMulticast", "false"),
        ("RxL2EtherValidBroadcast", "false"),
        ("RxL2EtherValidSrc", "true"),
        ("RxL2EtherValidType", "true"),
        ("RxL2EtherValidLocalMAC", "true"),
    ];

    const IPV4: [Port; 7] = [
        ("RxL2EtherClassifyL3", "ipv4"),
        ("RxL3IPv4ValidHeaderLength", "true"),
        ("RxL3IPv4ValidVersion", "true"),
        ("RxL3IPv4ValidLength", "true"),
        ("RxL3IPv4ValidChecksum", "true"),
        ("RxL3IPv4ValidSource", "true"),
        ("RxL3IPv4ValidOptions", "true"),
    ];

    const TO_UDP: [Port; 7] = [
        ("RxL3IPv4Destination", "local"),
        ("RxL3IPv4ValidTTL", "true"),
        ("RxL3IPv4ValidReassembly", "true"),
        ("RxL3IPv4Classify", "udp"),
        ("RxL4UDPValidHeaderLength", "true"),
        ("RxL4UDPValidLength", "true"),
        ("RxL4UDPValidChecksum", "true"),
    ];

    pub(super) static UDP: [Port; 23] = joined(&[&ETHERNET, &IPV4, &TO_UDP]);
    pub(super) static FORWARD: [Port; 17] =
        joined(&[&ETHERNET, &IPV4, &[("RxL3IPv4Destination", "forward")]]);
    pub(super) static LOCAL: [Port; 17] =
        joined(&[&ETHERNET, &IPV4, &[("RxL3IPv4Destination", "local")]]);
    pub(super) static IPV6: [Port; 10] = joined(&[&ETHERNET, &[("RxL2EtherClassifyL3", "ipv6")]]);

    const fn joined<const N: usize>(parts: &[&[Port]]) -> [Port; N] {
        let mut all = [("", ""); N];
        let (mut part, mut at) = (0, 0);
        while part < parts.len() {
            let mut i = 0;
            while i < parts[part].len() {
                all[at] = parts[part][i];
                (i, at) = (i + 1, at + 1);
            }
            part += 1;
        }
        assert!(at == N, "a way is as long as its parts");
        all
    }
}
