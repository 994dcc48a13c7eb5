use super::*;
use crate::addr::{Cidr, Locals};
use crate::iface::Interface;
use crate::route::{Origin, Route, Way};
use std::string::ToString;
use weever_wire::MacAddr;

const LAN: IfaceId = IfaceId(0);
const WAN: IfaceId = IfaceId(1);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

/// 10.0.0.1/24 on link 0, 192.168.7.5/16 in VLAN 5 of link 1.
fn router() -> NetConfig {
    let mut config = NetConfig::single(mac(1), &[cidr("10.0.0.1/24")]);
    let v4 = Locals::new(&[cidr("192.168.7.5/16")]);
    let wan = Interface::new(WAN, "wan", 1, mac(2)).in_vlan(5).with_v4(v4);
    config.add_interface(wan).unwrap();
    config
}

fn state(config: &NetConfig) -> NetState {
    NetState::new(config.clone(), 1)
}

fn next(config: &NetConfig, dst: &str) -> Option<(Kind, IfaceId, Ipv4Addr, Ipv4Addr)> {
    let hop = state(config).route4(ip(dst)).copied();
    hop.map(|hop| (hop.kind, hop.iface, hop.neighbour(ip(dst)), hop.source))
}

#[test]
fn neighbours_gateways_and_nowhere() {
    let mut config = router();
    assert_eq!(next(&config, "8.8.8.8"), None);
    config.add_route(Route::via(Cidr::ALL, ip("10.0.0.254"))).unwrap();
    config.add_route(Route::via(cidr("172.16.0.0/12"), ip("192.168.0.1"))).unwrap();
    for (dst, iface, neighbour, source) in [
        ("10.0.0.9", LAN, "10.0.0.9", "10.0.0.1"),
        ("192.168.200.1", WAN, "192.168.200.1", "192.168.7.5"),
        ("172.31.0.1", WAN, "192.168.0.1", "192.168.7.5"),
        ("8.8.8.8", LAN, "10.0.0.254", "10.0.0.1"),
    ] {
        let wanted = Some((Kind::Unicast, iface, ip(neighbour), ip(source)));
        assert_eq!(next(&config, dst), wanted, "{dst}");
    }
    config.remove_route(Cidr::ALL).unwrap();
    assert_eq!(next(&config, "8.8.8.8"), None);
}

#[test]
fn what_an_address_means() {
    let mut config = router();
    config.add_route(Route::via(Cidr::ALL, ip("10.0.0.254"))).unwrap();
    config.add_route(Route::new(cidr("10.66.0.0/16"), Way::Prohibited)).unwrap();
    config.add_route(Route::new(cidr("10.67.0.0/16"), Way::Unreachable)).unwrap();
    config.add_route(Route::new(cidr("10.68.0.0/16"), Way::Blackhole)).unwrap();
    let state = state(&config);
    for (dst, wanted) in [
        ("10.0.0.1", Kind::Local),
        ("192.168.7.5", Kind::Local),
        ("10.0.0.255", Kind::Broadcast),
        ("192.168.255.255", Kind::Broadcast),
        ("255.255.255.255", Kind::Broadcast),
        ("10.0.0.0", Kind::Martian),
        ("0.0.0.1", Kind::Martian),
        ("127.0.0.1", Kind::Martian),
        ("240.0.0.1", Kind::Martian),
        ("224.0.0.9", Kind::Multicast),
        ("10.0.0.2", Kind::Unicast),
        ("10.66.1.1", Kind::Prohibited),
        ("10.67.1.1", Kind::Unreachable),
        ("10.68.1.1", Kind::Blackhole),
        ("1.1.1.1", Kind::Unicast),
    ] {
        assert_eq!(state.route4(ip(dst)).map(|hop| hop.kind), Some(wanted), "{dst}");
    }
    use Destination::{Broadcast, Local, Multicast, Other};
    for (iface, dst, wanted) in [
        (WAN, "10.0.0.1", Local),
        (LAN, "10.0.0.255", Broadcast),
        (WAN, "10.0.0.255", Other),
        (WAN, "255.255.255.255", Broadcast),
        (LAN, "224.0.0.1", Multicast),
        (LAN, "10.0.0.2", Other),
    ] {
        assert_eq!(state.destination4(iface, ip(dst)), wanted, "{dst} by {iface}");
    }
}

#[test]
fn sources_that_cannot_be() {
    let mut config = router();
    for (src, wanted) in [
        ("10.0.0.2", Ok(())),
        ("8.8.8.8", Ok(())),
        ("0.0.0.0", Err(Martian::ThisNetwork)),
        ("127.0.0.1", Err(Martian::Loopback)),
        ("224.0.0.1", Err(Martian::Group)),
        ("255.255.255.255", Err(Martian::Group)),
        ("192.168.7.5", Err(Martian::Own)),
        ("10.0.0.255", Err(Martian::SubnetBroadcast)),
    ] {
        assert_eq!(state(&config).check_source4(ip(src)), wanted, "{src}");
    }
    for (check, near, other, nowhere) in [
        (ReversePath::None, true, true, true),
        (ReversePath::Loose, true, true, false),
        (ReversePath::Strict, true, false, false),
    ] {
        config.settings.reverse_path = check;
        let state = state(&config);
        let found =
            ["10.0.0.9", "192.168.0.9", "8.8.8.8"].map(|src| state.reverse_path4(LAN, ip(src)));
        assert_eq!(found, [near, other, nowhere], "{check:?}");
    }
}

#[test]
fn an_interface_that_is_down_is_not_there() {
    let mut config = router();
    config.add_route(Route::via(cidr("172.16.0.0/12"), ip("192.168.0.1"))).unwrap();
    assert_eq!(state(&config).member(1, 5), Some(WAN));
    config.set_up(WAN, false).unwrap();
    let down = state(&config);
    assert_eq!(down.member(1, 5), None);
    for dst in ["192.168.7.5", "192.168.0.1", "172.16.0.1"] {
        assert_eq!(down.route4(ip(dst)), None, "{dst}");
    }
    config.set_up(WAN, true).unwrap();
    assert_eq!(next(&config, "172.16.0.1").unwrap().2, ip("192.168.0.1"), "the route was kept");
}

#[test]
fn members_are_links_and_vlans() {
    let mut config = router();
    let port = |vlan| Interface::new(config.free_id(), "port", 1, mac(2)).in_vlan(vlan);
    let (taken, wrong) = (port(5), port(4095));
    let wide = Interface::new(IfaceId(7), "wide", 1, mac(2)).with_mtu(9000);
    let message = config.add_interface(taken).unwrap_err().to_string();
    assert!(message.contains("interface wan"), "{message}");
    assert!(matches!(config.add_interface(wrong), Err(StateError::BadVlan { .. })));
    config.add_interface(wide).unwrap();
    let state = state(&config);
    assert_eq!([state.member(0, 0), state.member(1, 0)], [Some(LAN), Some(IfaceId(7))]);
    assert_eq!(
        [state.member(0, 5), state.member(1, 5), state.member(1, 6)],
        [None, Some(WAN), None]
    );
    assert_eq!(state.interface(IfaceId(7)).unwrap().mtu, 9000);
    assert_eq!(state.interface(IfaceId(3)), None);
}

#[test]
fn addresses_come_and_go() {
    let mut config = router();
    let taken = config.add_address(WAN, cidr("10.0.0.1/8")).unwrap_err();
    assert!(taken.to_string().contains("interface link0"), "{taken}");
    for text in ["127.0.0.1/8", "224.0.0.1/4", "0.0.0.0/0", "10.1.0.255/24", "10.1.0.0/24"] {
        let refused = config.add_address(LAN, cidr(text));
        assert!(matches!(refused, Err(StateError::UnfitAddress { .. })), "{text}");
    }
    config.add_tentative(LAN, cidr("10.1.0.1/24")).unwrap();
    assert_eq!(next(&config, "10.1.0.1"), None, "it is not used yet");
    config.confirm_address(LAN, ip("10.1.0.1")).unwrap();
    assert_eq!(next(&config, "10.1.0.1").unwrap().0, Kind::Local);
    assert_eq!(next(&config, "10.1.0.9").unwrap().3, ip("10.1.0.1"));
    config.remove_address(LAN, ip("10.1.0.1")).unwrap();
    assert_eq!(next(&config, "10.1.0.9"), None);
    assert!(config.remove_address(LAN, ip("10.1.0.1")).is_err());
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let mut config = router();
    let before = config.clone();
    let clash = Locals::new(&[cidr("10.9.0.1/24"), cidr("10.0.0.1/24")]);
    let iface = Interface::new(IfaceId(2), "third", 2, mac(3)).with_v4(clash);
    assert!(config.add_interface(iface).is_err());
    let gateway = ip("172.16.0.1");
    let off_link = config.add_route(Route::via(Cidr::ALL, gateway)).unwrap_err();
    assert_eq!(off_link, StateError::GatewayOffLink { gateway: gateway.to_string() });
    assert!(config.add_route(Route::new(Cidr::ALL, Way::OnLink)).is_err());
    assert!(config.set_mtu(LAN, 67).is_err());
    assert!(config.set_mtu(IfaceId(9), 1500).is_err());
    assert!(config.join(LAN, ip("10.0.0.1")).is_err());
    assert!(config.set_mac(LAN, MacAddr::BROADCAST).is_err());
    assert!(config.remove_route(Cidr::ALL).is_err());
    assert_eq!(config, before);
}

#[test]
fn the_lowest_metric_counts_then_who_said_it() {
    let mut config = router();
    let to = cidr("172.16.0.0/12");
    let via = |last: &str| Route::via(to, ip(last));
    config.add_route(via("10.0.0.3").with_metric(9)).unwrap();
    config.add_route(via("10.0.0.4").with_metric(4).from(Origin::Dhcp)).unwrap();
    assert!(matches!(
        config.add_route(via("10.0.0.5").with_metric(4)),
        Err(StateError::RouteExists { .. })
    ));
    assert_eq!(next(&config, "172.16.0.1").unwrap().2, ip("10.0.0.4"));
    config.remove_routes_from(Origin::Dhcp);
    assert_eq!(next(&config, "172.16.0.1").unwrap().2, ip("10.0.0.3"));
}

#[test]
fn groups() {
    let mut config = router();
    let group = ip("239.1.2.3");
    config.join(WAN, group).unwrap();
    config.join(WAN, group).unwrap();
    let joined = state(&config);
    assert!(joined.is_member4(WAN, group) && !joined.is_member4(LAN, group));
    assert!(joined.is_member4(LAN, ip("224.0.0.1")), "the group of all hosts");
    assert_eq!((config.leave(WAN, group), config.leave(WAN, group)), (Ok(true), Ok(false)));
    config.add_route(Route::new(cidr("239.0.0.0/8"), Way::OnLink).by(WAN)).unwrap();
    let hop = next(&config, "239.1.1.1").unwrap();
    assert_eq!((hop.0, hop.1, hop.3), (Kind::Multicast, WAN, ip("192.168.7.5")));
    assert_eq!(next(&config, "224.0.0.251").unwrap().1, LAN);
}

#[test]
fn an_interface_takes_its_routes_along() {
    let mut config = router();
    config.add_route(Route::new(cidr("172.16.0.0/12"), Way::OnLink).by(WAN)).unwrap();
    assert_eq!(config.remove_interface(WAN).unwrap().name, "wan");
    assert_eq!((config.routes4().len(), config.free_id()), (0, WAN));
    assert_eq!(state(&config).source4(WAN, ip("9.9.9.9")), Some(ip("10.0.0.1")));
}
