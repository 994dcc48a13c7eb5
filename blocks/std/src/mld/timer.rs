//! The timer of IPv6 memberships, and the format of their reports.

use std::net::Ipv6Addr;

use weever_block::{BlockType, PortDoc, StateKind};
use weever_graph::Effects;
use weever_net::ipv6::addr::multicast_mac;
use weever_packet::Endpoints;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv6::{HEADER_LEN, next_header};

use crate::groups::timer::{ReportFormat, make};
use crate::periodic::period;

/// The next header, length 8, the router alert option (RFC 2711) of value 0, "MLD", and padding.
const HOP_BY_HOP: [u8; 8] = [next_header::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Sends reports.
pub static TIMER: BlockType = BlockType {
    spawns: &["report", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("50", "milliseconds between two checks for due reports")],
    counters: &["reports"],
    ..BlockType::new(
        "MldTimer",
        "Reports which IPv6 groups the host's interfaces listen to: changes at once, and \
         answers to queriers after a random delay (RFC 3810 §6).",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make::<Ipv6Addr>,
    )
};

impl ReportFormat for Ipv6Addr {
    const HEADER_LEN: usize = HEADER_LEN + HOP_BY_HOP.len();

    /// RFC 3810 §5: a hop limit of 1, and a router alert option in a hop-by-hop header.
    fn header(packet: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
        let [high, low] = ((packet.len() - HEADER_LEN) as u16).to_be_bytes();
        let header = &mut packet[..Self::HEADER_LEN];
        header[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, next_header::HOP_BY_HOP, 1]);
        header[8..24].copy_from_slice(&src.octets());
        header[24..40].copy_from_slice(&dst.octets());
        header[40..].copy_from_slice(&HOP_BY_HOP);
    }

    fn ends(src: Ipv6Addr, dst: Ipv6Addr) -> (u16, Endpoints) {
        let ends = Endpoints {
            local: src.octets(),
            remote: dst.octets(),
            protocol: next_header::ICMPV6,
            next_mac: multicast_mac(dst).0,
            ..Endpoints::default()
        };
        (ethertype::IPV6, ends)
    }
}
