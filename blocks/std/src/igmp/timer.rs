//! The timer of IPv4 memberships, and the format of their reports.

use std::net::Ipv4Addr;

use weever_block::{BlockType, PortDoc, StateKind};
use weever_graph::Effects;
use weever_net::ipv4::multicast_mac;
use weever_packet::Endpoints;
use weever_wire::checksum;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;

use crate::groups::timer::{ReportFormat, make};
use crate::periodic::period;

/// RFC 3376 §4: "Internetwork Control" precedence.
const TOS: u8 = 0xc0;

/// Sends reports.
pub static TIMER: BlockType = BlockType {
    spawns: &["report", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("50", "milliseconds between two checks for due reports")],
    counters: &["reports"],
    ..BlockType::new(
        "IgmpTimer",
        "Reports which groups the host's interfaces listen to: changes at once, and answers to \
         queriers after a random delay (RFC 3376 §5).",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make::<Ipv4Addr>,
    )
};

impl ReportFormat for Ipv4Addr {
    const HEADER_LEN: usize = 24;

    /// RFC 3376 §4: a time to live of 1, and a router alert option (RFC 2113).
    fn header(packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) {
        let [high, low] = (packet.len() as u16).to_be_bytes();
        let header = &mut packet[..Self::HEADER_LEN];
        let fixed = [0x46, TOS, high, low, 0, 0, 0x40, 0, 1, protocol::IGMP, 0, 0];
        header[..12].copy_from_slice(&fixed);
        header[12..16].copy_from_slice(&src.octets());
        header[16..20].copy_from_slice(&dst.octets());
        header[20..24].copy_from_slice(&[148, 4, 0, 0]);
        let check = checksum::finish(checksum::sum(header));
        header[10..12].copy_from_slice(&check.to_be_bytes());
    }

    fn ends(src: Ipv4Addr, dst: Ipv4Addr) -> (u16, Endpoints) {
        let ends = Endpoints {
            local: Endpoints::mapped(src.to_bits()),
            remote: Endpoints::mapped(dst.to_bits()),
            protocol: protocol::IGMP,
            next_mac: multicast_mac(dst).0,
            ..Endpoints::default()
        };
        (ethertype::IPV4, ends)
    }
}
