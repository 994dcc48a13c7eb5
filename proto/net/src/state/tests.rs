use super::*;
use crate::addr::{Cidr, Locals};
use crate::addr::{Destination, Martian};
use crate::iface::Interface;
use crate::route::{Kind, Origin, Route, Way};
use alloc::sync::Arc;
use core::net::Ipv4Addr;
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
    config.remove_route_from(Cidr::ALL, Origin::Static).unwrap();
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
            ["10.0.0.9", "192.168.0.9", "8.8.8.8"].map(|src| state.reverse_path(LAN, ip(src)));
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
    assert!(config.remove_route_from(Cidr::ALL, Origin::Static).is_err());
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
    config.remove_route_from(to, Origin::Dhcp).unwrap();
    assert_eq!(next(&config, "172.16.0.1").unwrap().2, ip("10.0.0.3"));
}

#[test]
fn groups() {
    let mut config = router();
    let group = ip("239.1.2.3");
    config.join(WAN, group).unwrap();
    config.join(WAN, group).unwrap();
    let joined = state(&config);
    assert!(joined.is_member(WAN, group) && !joined.is_member(LAN, group));
    assert!(joined.is_member(LAN, ip("224.0.0.1")), "the group of all hosts");
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

mod v6 {
    use super::*;
    use crate::ipv6::addr::solicited_node;
    use crate::ipv6::{AddrState, Locals6};
    use core::net::Ipv6Addr;
    use std::vec::Vec;

    const LINK: IfaceId = IfaceId(0);

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn config() -> NetConfig {
        let mut config = NetConfig::new();
        let locals = |texts: &[&str]| {
            Locals6::new(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
        };
        for (n, texts) in [["fe80::1/64", "2001:db8:1::1/64"], ["fe80::2/64", "2001:db8:2::1/64"]]
            .iter()
            .enumerate()
        {
            let mac = weever_wire::MacAddr([2, 0, 0, 0, 0, n as u8]);
            let iface = Interface::new(IfaceId(n as u16), std::format!("e{n}"), n as u16, mac);
            config.add_interface(iface.with_v6(locals(texts))).unwrap();
        }
        config
    }

    #[test]
    fn destinations_and_sources() {
        let state = NetState::new(config(), 1);
        let dst = |text| state.destination6(LINK, ip(text));
        assert_eq!(
            (dst("fe80::1"), dst("2001:db8:1::1")),
            (Destination::Local, Destination::Local)
        );
        assert_eq!(dst("2001:db8:2::1"), Destination::Local, "the weak model");
        assert_eq!(
            (dst("fe80::2"), dst("2001:db8:1::9")),
            (Destination::Other, Destination::Other)
        );
        assert_eq!((dst("ff02::1"), dst("ff02::2")), (Destination::Multicast, Destination::Other));
        assert_eq!(state.destination6(LINK, solicited_node(ip("fe80::1"))), Destination::Multicast);
        let ours = |text| state.is_ours6(LINK, ip(text));
        assert_eq!((ours("fe80::2"), ours("fe80::1"), ours("2001:db8:2::1")), (false, true, true));
    }

    #[test]
    fn hops() {
        let mut config = config();
        let default = Route::via("::/0".parse().unwrap(), ip("fe80::99"));
        let error = config.add_route(default).unwrap_err().to_string();
        assert!(error.contains("fe80::99"), "{error}");
        config.add_route(default.by(IfaceId(1))).unwrap();
        assert!(config.add_route(default.by(IfaceId(1))).is_err());
        let state = NetState::new(config, 1);
        let hop = |via, text| state.hop6(IfaceId(via), ip(text)).unwrap();
        assert_eq!((hop(0, "fe80::9").iface, hop(1, "fe80::9").iface), (IfaceId(0), IfaceId(1)));
        assert_eq!(hop(0, "2001:db8:2::9").iface, IfaceId(1));
        let far = hop(0, "2600::1");
        assert_eq!((far.iface, far.neighbour(ip("2600::1"))), (IfaceId(1), ip("fe80::99")));
        assert_eq!(state.source6(far.iface, ip("2600::1")), Some(ip("2001:db8:2::1")));
        assert_eq!(state.source6(LINK, ip("fe80::9")), Some(ip("fe80::1")));
        assert_eq!(hop(0, "::1").kind, Kind::Martian);
        assert_eq!(hop(1, "ff02::5").kind, Kind::Multicast);
    }

    #[test]
    fn what_routers_say_comes_and_goes() {
        let mut config = config();
        let found = |router, on_link: &[&str]| Advertised {
            locals: Locals6::new(&["fe80::1/64".parse().unwrap()]),
            router,
            on_link: on_link.iter().map(|text| text.parse().unwrap()).collect(),
            hop_limit: 9,
            mtu: 1400,
        };
        config.set_advertised(LINK, found(Some(ip("fe80::99")), &["2001:db8:7::/64"])).unwrap();
        assert_eq!(config.routes6().len(), 2);
        let state = NetState::new(config.clone(), 1);
        assert_eq!(state.route6(ip("2001:db8:7::7")).unwrap().gateway, Ipv6Addr::UNSPECIFIED);
        assert_eq!((state.mtu6(LINK), state.mtu6(IfaceId(1))), (1400, 1500));
        config.set_advertised(LINK, found(None, &[])).unwrap();
        assert_eq!(config.routes6(), []);
    }

    #[test]
    fn addresses_are_tentative_and_checked() {
        let mut config = config();
        config.add_address6(LINK, "fd00::1/64".parse().unwrap()).unwrap();
        let own = config.interface(LINK).unwrap().v6.get(ip("fd00::1")).unwrap();
        assert_eq!(own.state, AddrState::Tentative);
        for bad in ["::/0", "::1/128", "ff02::1/64", "::ffff:1.2.3.4/96", "fd00::1/64"] {
            let text: &str = bad;
            assert!(config.add_address6(IfaceId(1), text.parse().unwrap()).is_err(), "{bad}");
        }
        config.add_address6(IfaceId(1), "fe80::1/64".parse().unwrap()).unwrap();
        config.remove_address6(LINK, ip("fd00::1")).unwrap();
        assert!(config.remove_address6(LINK, ip("fd00::1")).is_err());
    }

    #[test]
    fn groups_of_stations() {
        let mut config = config();
        config.join(LINK, ip("ff02::fb")).unwrap();
        assert!(config.join(LINK, ip("fe80::1")).is_err());
        let iface = config.interface(LINK).unwrap();
        for (mac, member) in [
            ("33:33:00:00:00:01", true),
            ("33:33:ff:00:00:01", true),
            ("33:33:00:00:00:fb", true),
            ("33:33:00:00:00:02", false),
            ("01:00:5e:00:00:01", true),
            ("01:00:5e:00:00:02", false),
        ] {
            assert_eq!(iface.hears(mac.parse().unwrap()), member, "{mac}");
        }
        assert!(config.leave(LINK, ip("ff02::fb")).unwrap());
    }
}

/// A change of one family leaves the other's table as it is, the same in memory, and lookups find
/// the same as if all had been made anew.
#[test]
fn a_change_of_one_family_keeps_the_tables_of_the_other() {
    let first = NetConfig::single(MacAddr([2, 0, 0, 0, 0, 1]), &["10.0.0.1/24".parse().unwrap()]);
    let before = NetState::new(first, 1);
    let mut config = before.config().clone();
    config.add_address6(IfaceId(0), "fd00::1/64".parse().unwrap()).unwrap();
    let six = before.next(config.clone());
    assert!(
        Arc::ptr_eq(&before.fibs.v4, &six.fibs.v4) && !Arc::ptr_eq(&before.fibs.v6, &six.fibs.v6)
    );
    config.add_address(IfaceId(0), "10.9.0.1/24".parse().unwrap()).unwrap();
    let four = six.next(config.clone());
    assert!(!Arc::ptr_eq(&six.fibs.v4, &four.fibs.v4) && Arc::ptr_eq(&six.fibs.v6, &four.fibs.v6));
    config.set_mtu(IfaceId(0), 1400).unwrap();
    let neither = four.next(config.clone());
    assert!(
        Arc::ptr_eq(&four.fibs.v4, &neither.fibs.v4)
            && Arc::ptr_eq(&four.fibs.v6, &neither.fibs.v6)
    );
    config.set_up(IfaceId(0), false).unwrap();
    let down = neither.next(config.clone());
    let anew = NetState::new(config, 1);
    for ip in ["10.0.0.1", "10.0.0.7", "10.9.0.7", "10.0.0.255"].map(|ip| ip.parse().unwrap()) {
        assert_eq!(down.route4(ip), anew.route4(ip));
    }
    assert_eq!((neither.generation(), down.generation()), (4, 5));
}

#[test]
fn an_address_is_ours_as_the_routes_say_also_the_first_one() {
    let mut config = router();
    let asked = ["10.0.0.1", "192.168.7.5", "10.0.0.2", "10.0.0.255", "0.0.0.0", "9.9.9.9"].map(ip);
    for round in 0..3 {
        let state = state(&config);
        for ip in asked {
            let routed = state.route4(ip).is_some_and(|hop| hop.kind == Kind::Local);
            assert_eq!(state.is_ours(ip), routed, "{ip} in round {round}");
            let class = state.destination4(LAN, ip);
            assert_eq!(class == Destination::Local, routed, "{ip} in round {round}");
        }
        // The first address is gone in the second round, every one in the third.
        let removed = if round == 0 { LAN } else { WAN };
        config.set_up(removed, false).unwrap();
    }
}
