//! How much goes.

use weever_graph::nic::FlowType;

use super::super::*;
use super::rules::{Asked, configured};

fn of_queue(asked: &[Asked], queue: u32) -> Arrival {
    let found = arrivals(&nic(), &configured(asked, &[0]));
    found.into_iter().find(|a| a.queue == queue).expect("something arrives there")
}

fn udp_to_7() -> Arrival {
    let keys = vec![(Field::L4Dst, 7)];
    of_queue(&[Asked { flow_type: FlowType::Udp4, keys, queue: 1 }], 1)
}

fn arp_and_icmp() -> Arrival {
    let arp = vec![(Field::EthType, 0x0806)];
    let icmp = vec![(Field::Ip4Proto, 1)];
    let asked = [
        Asked { flow_type: FlowType::Ether, keys: arp, queue: 2 },
        Asked { flow_type: FlowType::Ip4, keys: icmp, queue: 2 },
    ];
    of_queue(&asked, 2)
}

fn everything() -> Arrival {
    of_queue(&[], 0)
}

fn show(what: &str, report: &SimplifyReport) {
    let line = |s: weever_plan::simplify::Size| {
        format!("{} nodes, {} steps, depth {}", s.nodes, s.steps, s.depth)
    };
    println!(
        "{what}: {} -> {}; {} folded, {} foreign ports",
        line(report.before),
        line(report.after),
        report.folded.len(),
        report.foreign.len()
    );
}

fn names(of: &Simplified) -> Vec<&str> {
    of.graph.iter().map(|(_, n)| n.name.as_str()).collect()
}

#[test]
fn a_queue_of_one_port_knows_neither_arp_nor_icmp() {
    for foreign in [ForeignPackets::Never, ForeignPackets::HandOver(HandOver::default())] {
        let simplified = at_worker(&udp_to_7(), foreign.clone());
        show(&format!("UDP to port 7, {foreign:?}"), &simplified.report);
        let left = names(&simplified);
        let gone =
            ["RxL3ARP", "RxL3ICMP", "RxL3IPv6", "RxL3NDP", "RxL4UDPClosedPort", "RxL4UDPDiscard"];
        let stays =
            |name: &&&str| gone.iter().any(|g| name.starts_with(g)) && **name != "RxL3ICMPReport";
        assert_eq!(left.iter().filter(stays).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert!(left.contains(&"RxL4UDPEcho") && left.contains(&"TxL3ARPLookup_"));
        verify(simplified.graph).unwrap();
    }
}

#[test]
fn a_queue_of_arp_and_icmp_knows_no_udp() {
    for foreign in [ForeignPackets::Never, ForeignPackets::HandOver(HandOver::default())] {
        let simplified = at_worker(&arp_and_icmp(), foreign.clone());
        show(&format!("ARP and ICMP, {foreign:?}"), &simplified.report);
        let left = names(&simplified);
        assert!(
            !left.iter().any(|n| n.starts_with("RxL4UDP") || n.starts_with("RxL3IPv6")),
            "{left:?}"
        );
        assert!(left.contains(&"RxL3ARPInitResponse") && left.contains(&"RxL3ICMPNeedsResponse"));
        verify(simplified.graph).unwrap();
    }
}

#[test]
fn a_queue_of_everything_keeps_everything() {
    let simplified = simplified_for(&everything(), ForeignPackets::HandOver(HandOver::default()));
    show("everything", &simplified.report);
    assert!(simplified.report.foreign.is_empty(), "{:?}", simplified.report.foreign);
    // No socket of DHCP, so no packet gets to its client.
    assert_eq!(simplified.report.removed, ["RxL4UDPDhcp"]);
}
