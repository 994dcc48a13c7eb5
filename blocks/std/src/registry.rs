//! Every block of this crate.

use weever_block::{BlockType, Registry};

use crate::{
    arp, by_predicate, capture, counter, dhcp, discard, esp, ethernet, foreign, fragment, icmp,
    icmp6, igmp, ipv4, ipv6, loopback, mld, ndp, queue, run, socket, table, tcp, tee, udp,
};

static GENERAL: [&BlockType; 9] = [
    &by_predicate::TYPE,
    &capture::CAPTURE,
    &counter::COUNTER,
    &discard::DISCARD,
    &foreign::FOREIGN,
    &queue::RX_QUEUE,
    &queue::TX_QUEUE,
    &table::TABLE_TYPE,
    &tee::TEE,
];

static ETHERNET: [&BlockType; 5] = [
    &ethernet::CLASSIFIED,
    &ethernet::VALID_VLAN,
    &ethernet::SEND,
    &ethernet::ALLOCATE_HEADER,
    &ethernet::FILL_HEADER,
];

static ARP: [&BlockType; 10] = [
    &arp::IS_PENDING,
    &arp::INIT_RESPONSE,
    &arp::PROCESS_PENDING_RESPONSE,
    &arp::INITIATE_RESPONSE,
    &arp::SEND_REQUEST,
    &arp::SEND_GRATUITOUS,
    &arp::ALLOCATE_HEADER,
    &arp::FILL_HEADER,
    &arp::LOOKUP,
    &arp::TIMER,
];

static IPV4: [&BlockType; 11] = [
    &ipv4::VALID_HEADER_LENGTH,
    &ipv4::VALID_LENGTH,
    &ipv4::VALID_TTL,
    &ipv4::VALID_CHECKSUM,
    &ipv4::VALID_OPTIONS,
    &ipv4::DESTINATION,
    &ipv4::FORWARD,
    &ipv4::VALID_SOURCE,
    &ipv4::ROUTING,
    &ipv4::ALLOCATE_HEADER,
    &ipv4::FILL_HEADER,
];

static ESP: [&BlockType; 1] = [&esp::ENCRYPT];

static FRAGMENT: [&BlockType; 6] = [
    &fragment::FRAGMENT_V4,
    &fragment::REASSEMBLE_V4,
    &fragment::FRAGMENT_OUT_V4,
    &fragment::REASSEMBLE_V6,
    &fragment::FRAGMENT_OUT_V6,
    &fragment::PATH_MTU_V4,
];

static DHCP: [&BlockType; 3] = [&dhcp::RECEIVE, &dhcp::TIMER, &dhcp::WATCH];

static IGMP: [&BlockType; 3] = [&igmp::VALID_CHECKSUM, &igmp::RECEIVE, &igmp::TIMER];

static MLD: [&BlockType; 2] = [&mld::RECEIVE, &mld::TIMER];

static ICMP: [&BlockType; 9] = [
    &icmp::VALID_CHECKSUM,
    &icmp::ERROR,
    &icmp::NEEDS_RESPONSE,
    &icmp::REPORT,
    &icmp::INITIATE_RESPONSE,
    &icmp::FILL_HEADER,
    &icmp::INITIATE_ERROR,
    &icmp::ALLOCATE_HEADER,
    &icmp::FILL_ERROR,
];

static IPV6: [&BlockType; 8] = [
    &ipv6::VALID_LENGTH,
    &ipv6::VALID_EXTENSIONS,
    &ipv6::REPORT,
    &ipv6::FORWARD,
    &ipv6::ROUTING,
    &ipv6::ALLOCATE_HEADER,
    &ipv6::FILL_HEADER,
    &ipv6::FORWARDED,
];

static ICMP6: [&BlockType; 8] = [
    &icmp6::VALID_CHECKSUM,
    &icmp6::NEEDS_RESPONSE,
    &icmp6::ERROR,
    &icmp6::INITIATE_RESPONSE,
    &icmp6::FILL_HEADER,
    &icmp6::INITIATE_ERROR,
    &icmp6::ALLOCATE_HEADER,
    &icmp6::FILL_ERROR,
];

static NDP: [&BlockType; 4] = [&ndp::HANDLE, &ndp::LOOKUP, &ndp::TIMER, &ndp::SEND];

static UDP: [&BlockType; 6] = [
    &udp::VALID_LENGTH,
    &udp::VALID_CHECKSUM,
    &udp::UDP_ECHO,
    &udp::INITIATE_RESPONSE,
    &udp::ALLOCATE_HEADER,
    &udp::FILL_HEADER,
];

static TCP: [&BlockType; 4] = [&tcp::VALID_CHECKSUM, &tcp::DELIVER, &tcp::ERROR, &tcp::ENDPOINT];

static SOCKET: [&BlockType; 6] = [
    &socket::DEMUX,
    &socket::DELIVER,
    &socket::SEND,
    &socket::ERROR,
    &socket::REFUSED,
    &loopback::LOOPBACK,
];

static FAMILIES: [&[&BlockType]; 16] = [
    &GENERAL, &ETHERNET, &ARP, &IPV4, &ESP, &FRAGMENT, &DHCP, &IGMP, &MLD, &ICMP, &IPV6, &ICMP6,
    &NDP, &UDP, &TCP, &SOCKET,
];

/// Every block type of this crate, by name, and the compiler of runs.
pub fn registry() -> Registry {
    let blocks = FAMILIES.into_iter().fold(Registry::new(), Registry::with);
    blocks.with_compiler(&run::Compiler)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weever_block::{Buffer, READS};
    use weever_net::state::NetConfig;

    use super::*;
    use crate::bench::Bench;
    use crate::host::Network;
    use crate::testing::frames::*;

    const MANUAL: &str = concat!(
        include_str!("by_predicate/README.md"),
        include_str!("capture/README.md"),
        include_str!("counter/README.md"),
        include_str!("discard/README.md"),
        include_str!("foreign/README.md"),
        include_str!("queue/README.md"),
        include_str!("table/README.md"),
        include_str!("tee/README.md"),
        include_str!("ethernet/README.md"),
        include_str!("arp/README.md"),
        include_str!("ipv4/README.md"),
        include_str!("esp/README.md"),
        include_str!("fragment/README.md"),
        include_str!("dhcp/README.md"),
        include_str!("igmp/README.md"),
        include_str!("mld/README.md"),
        include_str!("icmp/README.md"),
        include_str!("ipv6/README.md"),
        include_str!("icmp6/README.md"),
        include_str!("ndp/README.md"),
        include_str!("udp/README.md"),
        include_str!("tcp/README.md"),
        include_str!("socket/README.md"),
        include_str!("loopback/README.md"),
    );

    /// The names that the manual's row of a type must contain.
    fn names(block: &BlockType) -> Vec<String> {
        let ports = block.ports.iter().map(|port| port.name);
        let edges = block.spawns.iter().chain(block.notifies).copied();
        let rest = ports.chain(edges).chain(block.counters.iter().copied());
        let params = block
            .params
            .iter()
            .map(|p| format!("`{}` (default `{}`): {}", p.name, p.default, p.doc));
        rest.map(|name| format!("`{name}`")).chain(params).collect()
    }

    #[test]
    fn the_manual_covers_every_block() {
        for block in registry().iter() {
            let start = format!("| `{}` |", block.name);
            let row = MANUAL.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("no row for {}", block.name));
            for name in names(block) {
                assert!(row.contains(&name), "{}: {name} is not in its row", block.name);
            }
        }
    }

    /// A function gets the packet to change, so the compiler does not hold a type to its effects.
    #[test]
    fn blocks_that_only_read_leave_packets_as_they_are() {
        let types = registry();
        let readers: Vec<_> = types.iter().filter(|block| block.effects == READS).collect();
        assert!(readers.len() > 5, "validators and classifiers are among them");
        let frames = [&udp(5000, 7, b"payload"), &echo_request(1, 2, b"data"), &arp_reply()];
        for block in readers {
            let host = Network::new(NetConfig::new());
            let mut bench = Bench::new().providing(Arc::new(host));
            let burst = bench.burst(&frames.map(Vec::as_slice));
            let state = |packet: &Buffer| (packet.data().to_vec(), format!("{:?}", packet.meta()));
            let before = [0, 1, 2].map(|task| burst.get(task).map(state));
            let after = bench.run(block, burst, 0b111).burst;
            assert_eq!([0, 1, 2].map(|task| after.get(task).map(state)), before, "{}", block.name);
        }
    }

    #[test]
    fn no_two_blocks_share_a_name() {
        let listed: usize = FAMILIES.iter().map(|family| family.len()).sum();
        assert_eq!(registry().iter().count(), listed);
    }

    #[test]
    fn false_and_true_come_first() {
        for block in registry().iter() {
            let at = |name| block.ports.iter().position(|port| port.name == name);
            if let (Some(no), Some(yes)) = (at("false"), at("true")) {
                assert_eq!((no, yes), (0, 1), "{}", block.name);
            }
        }
    }
}
