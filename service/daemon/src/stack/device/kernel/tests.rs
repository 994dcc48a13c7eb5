use std::net::Ipv4Addr;

use weever_net::iface::Interface;
use weever_net::route::{Origin, Way};

use super::*;

const DEVICE: u32 = 7;
const LAN: IfaceId = IfaceId(0);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn kernel(borrowed: bool) -> (Kernel, NetConfig) {
    let mut network = NetConfig::new();
    let iface = Interface::new(LAN, "eth0", 0, MacAddr(MAC));
    network.add_interface(Interface { borrowed, ..iface }).unwrap();
    let (id, device, down) = (LAN, DEVICE, false);
    let attached = Attached { id, device, borrowed, opened: 1500, wanted: 1500, mtu: 1500, down };
    (Kernel { attached: vec![attached], ..Kernel::default() }, network)
}

fn link(mtu: u32, running: bool) -> Event {
    let name = "eth0".into();
    Event::Link(LinkState { interface: DEVICE, name, mac: MAC, mtu, up: true, running })
}

fn address(text: &str, prefix: u8) -> Address {
    Address { interface: DEVICE, address: text.parse().unwrap(), prefix, usable: true }
}

fn route(network: &str, prefix: u8, gateway: Option<&str>) -> Route {
    Route {
        interface: DEVICE,
        network: network.parse().unwrap(),
        prefix,
        gateway: gateway.map(|text| text.parse().unwrap()),
        source: None,
        metric: 100,
        mtu: None,
    }
}

impl Kernel {
    fn tell(&mut self, events: impl IntoIterator<Item = Event>, network: &mut NetConfig) {
        for event in events {
            assert_eq!(self.learn(event), None);
        }
        assert!(self.is_news);
        self.shape(network);
        assert!(!self.is_news);
    }
}

#[test]
fn an_interface_follows_its_device_as_far_as_no_operator_says_otherwise() {
    let (mut kernel, mut network) = kernel(false);
    let seen = |network: &NetConfig| {
        let iface = network.interface(LAN).unwrap();
        (iface.mtu, iface.up)
    };
    kernel.tell([link(1280, true)], &mut network);
    assert_eq!(seen(&network), (1280, true));
    kernel.tell([link(9000, false)], &mut network);
    assert_eq!(seen(&network), (1500, false), "the link was opened for no more");
    kernel.tell([link(1500, true)], &mut network);
    assert_eq!(seen(&network), (1500, true));
    network.set_mtu(LAN, 1400).unwrap();
    network.set_up(LAN, false).unwrap();
    kernel.tell([link(1450, false)], &mut network);
    kernel.tell([link(1450, true)], &mut network);
    assert_eq!(seen(&network), (1400, false), "an operator has said so");
    network.set_up(LAN, true).unwrap();
    kernel.tell([link(1300, true)], &mut network);
    assert_eq!(seen(&network), (1300, true));
}

/// The configuration holds until an operator changes it, and applies again when the device comes
/// back.
#[test]
fn an_mtu_of_the_configuration_caps_the_devices_and_not_the_operators() {
    let (mut kernel, mut network) = kernel(false);
    network.set_mtu(LAN, 1400).unwrap();
    (kernel.attached[0].wanted, kernel.attached[0].mtu) = (1400, 1400);
    let seen = |network: &NetConfig| network.interface(LAN).unwrap().mtu;
    for (device, mtu) in [(1500, 1400), (1300, 1300), (1500, 1400)] {
        kernel.tell([link(device, true)], &mut network);
        assert_eq!(seen(&network), mtu, "configured as 1400 on a device of {device}");
    }
    network.set_mtu(LAN, 1500).unwrap();
    for (device, mtu) in [(1500, 1500), (1450, 1450), (9000, 1500)] {
        kernel.tell([link(device, true)], &mut network);
        assert_eq!(seen(&network), mtu, "set to 1500 on a device of {device}");
    }
}

/// IPv4 needs 68 bytes (RFC 791 §3.2).
#[test]
fn an_mtu_that_cannot_be_is_not_taken_for_an_operators() {
    let (mut kernel, mut network) = kernel(false);
    for (device, mtu) in [(60, 1500), (1300, 1300), (60, 1300), (1500, 1500)] {
        kernel.tell([link(device, true)], &mut network);
        assert_eq!(network.interface(LAN).unwrap().mtu, mtu, "on a device of {device}");
    }
}

#[test]
fn addresses_and_routes_are_borrowed_and_nothing_else_is_touched() {
    let (mut kernel, mut network) = kernel(true);
    let told = [
        link(1500, true),
        Event::Address(address("10.0.0.1", 24)),
        Event::Address(address("2001:db8::1", 64)),
        Event::Address(Address { usable: false, ..address("2001:db8::2", 64) }),
        Event::Route(route("10.0.0.0", 24, None)),
        Event::Route(route("0.0.0.0", 0, Some("10.0.0.9"))),
        Event::Route(route("::", 0, Some("fe80::9"))),
        // A host route, and one over a router of the other family (RFC 5549), which the stack does
        // not support.
        Event::Route(route("198.51.100.7", 32, Some("fe80::9"))),
    ];
    kernel.tell(told, &mut network);
    let own: Vec<String> =
        network.interface(LAN).unwrap().v4.iter().map(|c| c.to_string()).collect();
    assert_eq!(own, ["10.0.0.1/24"]);
    let six = network.interface(LAN).unwrap().v6.clone();
    assert!(six.iter().all(|own| own.is_used()) && six.iter().count() == 1);
    assert_eq!((network.routes4().len(), network.routes6().len()), (2, 1));
    let default = network.routes4()[0];
    assert_eq!(default.way, Way::Via(Ipv4Addr::new(10, 0, 0, 9)));
    assert_eq!((default.iface, default.origin, default.metric), (Some(LAN), Origin::Kernel, 100));
    network.add_route("192.0.2.0/24=10.0.0.9".split_once('=').map(operators).unwrap()).unwrap();

    let told = [
        Event::AddressGone(address("10.0.0.1", 24)),
        Event::Address(address("10.0.0.1", 16)),
        Event::RouteGone(route("0.0.0.0", 0, Some("10.0.0.9"))),
        Event::AddressGone(address("2001:db8::1", 64)),
    ];
    kernel.tell(told, &mut network);
    let iface = network.interface(LAN).unwrap();
    assert_eq!(iface.v4.iter().next().unwrap().prefix_len(), 16);
    assert_eq!(iface.v6.iter().count(), 0);
    let origins: Vec<Origin> = network.routes4().iter().map(|route| route.origin).collect();
    assert_eq!(origins, [Origin::Static, Origin::Kernel]);
}

/// The kernel reports a route again when it has changed, and reports its removal with its last
/// values.
#[test]
fn a_route_that_is_told_again_takes_its_own_place() {
    let (mut kernel, mut network) = kernel(true);
    let first = route("192.0.2.0", 24, Some("10.0.0.9"));
    let second = Route { source: Some("10.0.0.1".parse().unwrap()), ..first.clone() };
    let other = Route { metric: 200, ..first.clone() };
    let lan = Event::Address(address("10.0.0.1", 24));
    let told = [&first, &other, &second].map(|route| Event::Route(route.clone()));
    kernel.tell([link(1500, true), lan].into_iter().chain(told), &mut network);
    let seen = |network: &NetConfig| -> Vec<(u32, Option<Ipv4Addr>)> {
        network.routes4().iter().map(|route| (route.metric, route.source)).collect()
    };
    assert_eq!(seen(&network), [(100, Some(Ipv4Addr::new(10, 0, 0, 1))), (200, None)]);
    kernel.tell([Event::RouteGone(second)], &mut network);
    assert_eq!(seen(&network), [(200, None)], "the one that was told first is gone with it");
    kernel.tell([Event::RouteGone(first), Event::RouteGone(other)], &mut network);
    assert_eq!(seen(&network), []);
}

/// An address may get a new prefix before it loses the old one.
#[test]
fn an_address_keeps_the_prefix_that_is_left() {
    let (mut kernel, mut network) = kernel(true);
    let told = [address("10.0.0.1", 24), address("10.0.0.1", 16)].map(Event::Address);
    kernel.tell([link(1500, true)].into_iter().chain(told), &mut network);
    kernel.tell([Event::AddressGone(address("10.0.0.1", 24))], &mut network);
    let own: Vec<String> =
        network.interface(LAN).unwrap().v4.iter().map(|c| c.to_string()).collect();
    assert_eq!(own, ["10.0.0.1/16"]);
}

fn operators((to, via): (&str, &str)) -> weever_net::route::Route<Ipv4Addr> {
    weever_net::route::Route::via(to.parse().unwrap(), via.parse().unwrap())
}

#[test]
fn neighbours_are_heard_of_where_they_are_borrowed() {
    let (mut kernel, _) = kernel(true);
    let ip: IpAddr = "10.0.0.2".parse().unwrap();
    let neighbour = |mac, interface| weever_link_sys::mirror::Neighbour {
        interface,
        address: ip,
        mac,
        failed: false,
        permanent: false,
    };
    let heard = |mac| Some(Heard { iface: LAN, ip, mac });
    let mac = [2, 0, 0, 0, 0, 2];
    assert_eq!(kernel.learn(Event::Neighbour(neighbour(Some(mac), 8))), None, "another device");
    let known = heard(Some(MacAddr(mac)));
    assert_eq!(kernel.learn(Event::Neighbour(neighbour(Some(mac), DEVICE))), known);
    assert_eq!(kernel.find(LAN, ip), Some((DEVICE, Some(MacAddr(mac)))));
    assert_eq!(kernel.known(), Vec::from_iter(known));
    assert_eq!(kernel.learn(Event::Neighbour(neighbour(None, DEVICE))), heard(None));
    let group = Some([1, 0, 0x5e, 0, 0, 1]);
    assert_eq!(kernel.learn(Event::Neighbour(neighbour(group, DEVICE))), heard(None));
    assert_eq!(kernel.find(LAN, ip), Some((DEVICE, None)));
    assert_eq!(kernel.find(IfaceId(1), ip), None);
    assert!(!kernel.is_news && kernel.known().is_empty());
}

#[test]
fn what_is_asked_twice_is_asked_once_and_the_end_is_the_end() {
    let questions = follower::Questions::new().unwrap();
    let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
    for last in [1, 2, 1] {
        questions.ask(LAN, ip(last));
    }
    assert_eq!(questions.take(), Some([(LAN, ip(1)), (LAN, ip(2))].into()));
    assert_eq!(questions.take(), Some([].into()));
    for host in 0..5000u32 {
        questions.ask(LAN, Ipv4Addr::from_bits(host).into());
    }
    assert_eq!(questions.take().unwrap().len(), 1024, "there is an end to it");
    questions.end();
    assert_eq!(questions.take(), None);
}
