//! Services, addresses and routes are set while the stack runs.

use std::net::Ipv4Addr;

use weever_blocks_std::testing::frames::PEER;
use weever_service_api::settings::TABLE;
use weever_service_api::{Client, GraphFormat, GraphRequest, SettingsRequest, StatusRequest};

use super::operator::{client, refusal, set, unprobed, until};
use crate::common::peer::{config, start};

#[test]
fn services_come_and_go() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    assert!(set(&mut client, "services.echo=70").unwrap() > 0);
    peer.echo_to(70, b"moved");
    let services = stack.status().services;
    assert_eq!(services.iter().map(|s| s.port).collect::<Vec<_>>(), [70, 9]);
    for (assignment, word) in [
        ("services.echo=9", "another service"),
        ("services.echo=0", "port 0 cannot be bound"),
        ("services.echo=x", "`x`"),
        ("services.ekko=7", "there is no setting"),
        ("services.echo+=7", "no list"),
    ] {
        let message = refusal(set(&mut client, assignment));
        assert!(message.contains(word), "{assignment}: {message}");
    }
    set(&mut client, "services.discard=none").unwrap();
    assert_eq!(stack.status().services.len(), 1);
}

#[test]
fn an_address_is_asked_for_before_it_is_used() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    set(&mut client, "interface.memory0.addr+=10.0.0.7/24").unwrap();
    let interface = || stack.status().interfaces.remove(0);
    assert_eq!(interface().tentative, ["10.0.0.7/24"]);
    let message = refusal(set(&mut client, "interface.memory0.addr+=10.0.0.7/24"));
    assert!(message.contains("10.0.0.7"), "{message}");
    set(&mut client, "interface.memory0.addr=10.0.0.1/24,10.0.0.7/24").unwrap();
    // Nobody objects.
    until(|| interface().tentative.is_empty());
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"nobody has it");
}

#[test]
fn addresses_change_without_a_new_graph() {
    let (stack, mut peer) = start(unprobed());
    let mut client = client(&stack);
    assert_eq!(set(&mut client, "interface.memory0.addr+=10.0.0.7/24").unwrap(), 0);
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"the new one");
    peer.echo(b"the old one");
    set(&mut client, "interface.memory0.addr=10.0.0.7/24").unwrap();
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"alone");
    for (assignment, word) in [
        ("interface.memory1.addr+=10.0.0.8/24", "did you mean memory0"),
        ("interface.memory0.addr-=10.0.0.8/24", "10.0.0.8"),
        ("interface.memory0.colour=red", "no setting"),
        ("interface.memory0.mtu=575", "an mtu of 576"),
        ("interface.memory0.mtu=9000", "memory0 was opened with an mtu of 1500"),
        ("interface.memory0.mtu=large", "a number of bytes"),
        ("services.echo=70000", "a port, 1 to 65535"),
        ("route.10.9.0.0/16=172.16.0.1", "172.16.0.1"),
        ("route.10.9.0.0/16=none", "no such route"),
        ("route.x=none", "`x`"),
        ("forwarding=maybe", "on or off"),
        ("forwarding=on", "leaves packets for others"),
        ("reverse-path=tight", "strict"),
        ("redirects=seldom", "on or off"),
    ] {
        let message = refusal(set(&mut client, assignment)).to_lowercase();
        assert!(message.contains(word), "{assignment}: {message}");
    }
    for good in [
        "route.10.9.0.0/16=10.0.0.2",
        "route.10.9.0.0/16=unreachable",
        "route.10.9.0.0/16=10.0.0.2%memory0",
        "route.10.9.0.0/16=memory0",
        "route.10.9.0.0/16=none",
        "interface.memory0.groups=239.0.0.1,239.0.0.2",
        "interface.memory0.groups-=239.0.0.1",
        "interface.memory0.mtu=1000",
        "reverse-path=strict",
        "redirects=off",
    ] {
        set(&mut client, good).unwrap_or_else(|e| panic!("{good}: {e}"));
    }
    let message = refusal(set(&mut client, "interface.memory0.addr+=2001:db8::7/64"));
    assert!(message.contains("MTU of 1280"), "{message}");
    set(&mut client, "interface.memory0.mtu=1400").unwrap();
}

#[test]
fn the_status_names_the_gateway_that_is_used_now() {
    let (stack, _peer) = start(config());
    let mut client = client(&stack);
    set(&mut client, &format!("route.0.0.0.0/0={PEER}")).unwrap();
    assert_eq!(stack.status().gateway, Some(PEER));
    set(&mut client, "route.0.0.0.0/0=none").unwrap();
    assert_eq!(stack.status().gateway, None);
}

#[test]
fn ipv6_addresses_groups_and_routes_change_beside_the_others() {
    let (stack, mut peer) = start(unprobed());
    let mut client = client(&stack);
    let first = |stack: &weever_daemon::Stack| stack.status().interfaces[0].clone();
    set(&mut client, "interface.memory0.addr+=2001:db8::7/64,10.0.0.7/24").unwrap();
    let all =
        |stack: &weever_daemon::Stack| [first(stack).addresses, first(stack).tentative].concat();
    assert!(all(&stack).contains(&"2001:db8::7/64".to_owned()), "{:?}", first(&stack));
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"of the other family");
    for good in [
        "route.fd00::/8=fe80::1%memory0",
        "route.fd00::/8=2001:db8::1",
        "route.fd00::/8=memory0",
        "route.fd00::/8=unreachable",
        "interface.memory0.groups=ff05::7,239.0.0.1",
        "interface.memory0.groups+=ff05::8",
        "interface.memory0.groups-=239.0.0.1",
    ] {
        set(&mut client, good).unwrap_or_else(|e| panic!("{good}: {e}"));
    }
    // The route of the interface's own network comes with its address, once nobody else has that.
    until(|| first(&stack).addresses.iter().any(|text| text.starts_with("fe80:")));
    let status = stack.status();
    assert_eq!(status.interfaces[0].groups, ["ff05::7", "ff05::8"]);
    let route = |to: &str| status.routes.iter().find(|r| r.to == to).map(|r| r.way.as_str());
    assert_eq!(route("fd00::/8"), Some("unreachable"));
    assert_eq!(route("2001:db8::/64"), Some("on link"));
    for (assignment, word) in [
        ("route.fd00::/8=fe80::1", "fe80::1"),
        ("route.fd00::/8=10.0.0.2", "other family"),
        ("route.10.9.0.0/16=fe80::1%memory0", "`fe80::1`"),
        ("route.fd01::/16=none", "no such route"),
        ("interface.memory0.addr+=ff02::1/64", "ff02::1"),
        ("interface.memory0.addr-=2001:db8::8/64", "2001:db8::8"),
        ("interface.memory0.groups+=2001:db8::8", "2001:db8::8"),
        ("interface.memory0.mtu=1000", "an mtu of 1280"),
    ] {
        let message = refusal(set(&mut client, assignment)).to_lowercase();
        assert!(message.contains(word), "{assignment}: {message}");
    }
    assert_eq!(stack.status().routes, status.routes, "a refused change has no effect");
    set(&mut client, "route.fd00::/8=none").unwrap();
    // The stack's own addresses are not the operator's to list.
    set(&mut client, "interface.memory0.addr=10.0.0.7/24").unwrap();
    assert!(!all(&stack).contains(&"2001:db8::7/64".to_owned()), "{:?}", first(&stack));
    until(|| all(&stack).iter().any(|text| text.starts_with("fe80:")));
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"alone");
}

#[test]
fn settings_that_are_given_back_change_nothing() {
    let (stack, _peer) = start(config());
    let mut client = Client::connect(stack.control_path().unwrap()).unwrap();
    for setting in [
        "services.discard=99",
        "interface.memory0.addr+=10.0.0.7/24",
        "interface.memory0.groups=239.1.2.3",
        "interface.memory0.mtu=1400",
        "route.172.16.0.0/12=10.0.0.254",
        "route.172.31.0.0/16=unreachable",
        "reverse-path=loose",
    ] {
        set(&mut client, setting).unwrap();
    }
    let before = client.call(&SettingsRequest {}).unwrap().settings;
    let texts: Vec<String> = before.iter().map(ToString::to_string).collect();
    for expected in ["services.discard=99", "interface.memory0.mtu=1400", "reverse-path=loose"] {
        assert!(texts.iter().any(|text| text == expected), "{expected} is not in {texts:?}");
    }
    let changeable = TABLE.iter().filter(|setting| !setting.path.is_empty());
    // Links in memory have no queues to share.
    let here = |path: &str| !["node.", "queue."].iter().any(|other| path.starts_with(other));
    for setting in changeable.filter(|setting| here(setting.path)) {
        let path = setting.path.replace("NAME", "memory0").replace("PREFIX", "172.16.0.0/12");
        assert!(before.iter().any(|one| one.path == path), "{path} is not in {texts:?}");
    }
    let graph = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    for text in &texts {
        assert_eq!(set(&mut client, text).map_err(|e| e.to_string()), Ok(0), "{text}");
    }
    assert_eq!(client.call(&SettingsRequest {}).unwrap().settings, before);
    assert_eq!(client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text, graph);
    let address = texts.iter().find(|text| text.starts_with("interface.memory0.addr=")).unwrap();
    assert!(address.contains("10.0.0.7/24") && address.contains(','), "{address}");
    set(&mut client, "route.172.31.0.0/16=none").unwrap();
    let now = client.call(&SettingsRequest {}).unwrap().settings;
    assert_eq!(now.len(), before.len() - 1, "a route that is gone is not listed");
}

#[test]
fn operators_of_different_services_do_not_undo_each_other() {
    let (stack, _peer) = start(config());
    let path = stack.control_path().unwrap().to_owned();
    std::thread::scope(|scope| {
        for (service, first) in [("echo", 1000), ("discard", 2000)] {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect(path).unwrap();
                for port in first..first + 30u16 {
                    set(&mut client, &format!("services.{service}={port}")).unwrap();
                    let services = client.call(&StatusRequest {}).unwrap().services;
                    let own = services.iter().find(|s| s.name == service).map(|s| s.port);
                    assert_eq!(own, Some(port), "{service}: nobody else has changed it");
                }
            });
        }
    });
    assert_eq!(stack.stop().failure, None);
}
