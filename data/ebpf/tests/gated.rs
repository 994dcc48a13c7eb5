//! A classifier behind a gate: foreign frames stay with the kernel, and ours go to the
//! socket of its software queue.

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;

use common::{XskSocket, arp, ethernet, ipv4, tagged};
use weever_ebpf::sys::{Map, MapKind, XdpAction};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Field, Rule, Sink, Target, Test};
use weever_ebpf::xdp::{Gate, Port, Share, SteerCounters};
use weever_testbed::require_net_admin;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const QUEUES: u32 = 2;

fn classifier(share: Share) -> Classifier {
    let gate = Arc::new(Gate::new(share).unwrap());
    let map = Map::create(MapKind::XskMap, "xsks", 4, 4, QUEUES).unwrap();
    let sink = Sink::Sockets { map, queues: QUEUES };
    let first = Fallback::To(Target::Queue(0));
    Classifier::load_behind(gate, sink, first, 1024).unwrap()
}

/// A datagram to a port.
fn datagram(to: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut frame = ipv4(to, 0);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

fn to_port(port: u16, target: Target) -> Rule {
    Rule { tests: vec![Test::exact(Field::DstPort, port.into())], target }
}

fn action(classifier: &Classifier, frame: &[u8]) -> XdpAction {
    let outcome = classifier.program().run(frame, 1).unwrap();
    assert_eq!(outcome.frame, frame, "sorting changes nothing");
    outcome.action().unwrap()
}

#[test]
fn what_is_ours_goes_to_the_socket_of_its_software_queue() {
    require_net_admin!();
    let mut classifier = classifier(Share::Address);
    let socket = XskSocket::new().unwrap();
    // The second socket only: frames for the first go to the kernel, and are counted apart.
    classifier.set_socket(1, &socket).unwrap();
    classifier.insert(&to_port(7, Target::Queue(1))).unwrap();
    let (seven, eight) = (datagram(OURS, 7), datagram(OURS, 8));
    assert_eq!(action(&classifier, &seven), XdpAction::Pass, "the address is not ours yet");
    assert_eq!(classifier.hits(&to_port(7, Target::Pass)).unwrap(), Some(0));
    classifier.gate().unwrap().add_address(OURS).unwrap();
    assert_eq!(action(&classifier, &seven), XdpAction::Redirect);
    assert_eq!(action(&classifier, &tagged(&seven)), XdpAction::Redirect);
    assert_eq!(action(&classifier, &eight), XdpAction::Pass, "no socket on the first queue");
    assert_eq!(action(&classifier, &datagram(OTHER, 7)), XdpAction::Pass);
    assert_eq!(action(&classifier, &arp(OTHER)), XdpAction::Pass);
    classifier.set_fallback(Fallback::To(Target::Queue(1))).unwrap();
    for frame in [&eight, &arp(OURS)] {
        assert_eq!(action(&classifier, frame), XdpAction::Redirect);
    }
    assert_eq!(classifier.hits(&to_port(7, Target::Pass)).unwrap(), Some(2));
    let counters = classifier.gate().unwrap().counters().unwrap();
    assert_eq!(counters, SteerCounters { redirected: 4, passed: 4, closed: 0 });
    classifier.clear_socket(1).unwrap();
    assert_eq!(action(&classifier, &seven), XdpAction::Pass);
}

#[test]
fn ports_and_whole_devices_have_gates_too() {
    require_net_admin!();
    let socket = XskSocket::new().unwrap();
    let everything = classifier(Share::None);
    everything.set_socket(0, &socket).unwrap();
    for frame in [datagram(OTHER, 7), arp(OTHER), ethernet(0x88b5, &[1; 50])] {
        assert_eq!(action(&everything, &frame), XdpAction::Redirect);
    }
    let mut by_port = classifier(Share::Ports);
    by_port.set_socket(1, &socket).unwrap();
    by_port.set_fallback(Fallback::To(Target::Queue(1))).unwrap();
    let gate = Arc::clone(by_port.gate().unwrap());
    gate.add_address(OURS).unwrap();
    gate.add_port(Port::udp(7)).unwrap();
    assert_eq!(action(&by_port, &datagram(OURS, 7)), XdpAction::Redirect);
    for frame in [datagram(OURS, 8), datagram(OTHER, 7), arp(OURS)] {
        assert_eq!(action(&by_port, &frame), XdpAction::Pass);
    }
    assert_eq!(gate.counters().unwrap(), SteerCounters { redirected: 1, passed: 3, closed: 0 });
}

#[test]
fn flows_within_a_wider_filter_are_counted_if_that_is_asked_for() {
    require_net_admin!();
    let mut classifier = classifier(Share::None);
    let ends = [
        Test::exact(Field::Src4, u32::from(Ipv4Addr::new(192, 0, 2, 1)).into()),
        Test::exact(Field::Dst4, u32::from(OURS).into()),
        Test::exact(Field::SrcPort, 0),
        Test::exact(Field::DstPort, 9),
    ];
    classifier.insert(&Rule { tests: ends.to_vec(), target: Target::Queue(1) }).unwrap();
    classifier.insert(&to_port(7, Target::Queue(1))).unwrap();
    let high = Test::Range { field: Field::DstPort, lo: 1000, hi: 2000 };
    let ordered = Rule { tests: vec![high], target: Target::Queue(0) };
    classifier.set_ordered(vec![ordered]).unwrap();
    let mut ports = |within: bool| {
        match within {
            true => classifier.sample_within_filters(64, 1).unwrap(),
            false => classifier.sample(64, 1).unwrap(),
        }
        for port in [7, 8, 9, 1500] {
            action(&classifier, &datagram(OURS, port));
        }
        let mut ports = Vec::new();
        classifier.take_missed(|flow| ports.push((flow.dst.1, flow.frames))).unwrap();
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(false), [(8, 1)]);
    assert_eq!(ports(true), [(7, 1), (8, 1), (1500, 1)]);
    assert_eq!(classifier.ordered_hits().unwrap(), [2], "the target is unchanged");
}

#[test]
fn a_thousand_ordered_filters_pass_the_verifier_behind_a_gate() {
    require_net_admin!();
    let mut classifier = classifier(Share::Ports);
    let rules = (0..1000).map(|port| to_port(port, Target::Queue(0))).collect();
    classifier.set_ordered(rules).unwrap();
    classifier.sample_within_filters(64, 16).unwrap();
    let socket = XskSocket::new().unwrap();
    assert!(classifier.set_socket(QUEUES, &socket).is_err());
}
