//! Changing a stack while it runs: another graph, other services, other addresses.

mod common;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use common::peer::{ECHO, PATIENCE, Peer, config, start, start_with};
use weever_blocks_std::testing::frames::{self, HOST, PEER, PEER_MAC};
use weever_blocks_std::testing::frames6::{self, HOST6, PEER6};
use weever_daemon::config::{Config, Prefix};
use weever_service_api::settings::TABLE;
use weever_service_api::{
    ApplyRequest, Client, ClientError, CountersRequest, GraphFormat, GraphRequest, SetRequest,
    SettingsRequest, StatusRequest,
};
use weever_wire::MacAddr;
use weever_wire::arp::ArpView;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::ndp::NdpRepr;

fn unprobed() -> Config {
    let mut config = config();
    config.probe = false;
    config
}

fn client(stack: &weever_daemon::Stack) -> Client {
    Client::connect(stack.control_path().unwrap()).unwrap()
}

fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(error)) => error.message,
        other => panic!("not refused: {other:?}"),
    }
}

fn set(client: &mut Client, assignment: &str) -> Result<usize, ClientError> {
    client.call(&assignment.parse::<SetRequest>().unwrap()).map(|changed| changed.steps)
}

#[test]
fn the_graph_that_runs_can_be_changed_and_applied() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    assert_eq!(client.call(&ApplyRequest::new("same.unicorn", &text)).unwrap().steps, 0);
    peer.echo(b"before");
    // A counter between the echo service and its answers.
    let changed = text.replace("port echo[Echo]", "port echo[Count]").replace(
        "node Echo {",
        "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
    );
    let published = client.call(&ApplyRequest::new("counted.unicorn", &changed)).unwrap();
    assert!(published.steps >= 2 && published.epoch == 1, "{published:?}");
    peer.echo(b"after");
    let counters = client.call(&CountersRequest {}).unwrap();
    let packets = |name: &str| counters.nodes.iter().find(|n| n.name == name).map(|n| n.packets);
    assert_eq!((packets("RxL4UDPCount"), packets("RxL4UDPEcho")), (Some(1), Some(2)));
    assert_eq!(client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text, changed);
    client.call(&ApplyRequest::new("host.unicorn", &text)).unwrap();
    peer.echo(b"as it was");
}

#[test]
fn a_graph_that_cannot_run_changes_nothing_and_is_named() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    for (from, to, word) in [
        ("port echo[Echo]", "port echo[Ecko]", "Ecko"),
        ("implementation UdpEcho", "implementation UdpEkko", "RxL4UDPEcho"),
        (
            "attr \"drop drop: UDP echo refused: its answer could loop\"",
            "attr \"x=1\"",
            "RxL4UDPEcho",
        ),
        (
            "node Queue {\n            attr \"source\"",
            "node Kueue {\n            implementation RxQueue\n            attr \"source\"",
            "start at `RxQueue`",
        ),
        ("config Sockets {", "config Socks {", "Sockets"),
    ] {
        assert!(text.contains(from), "{from}");
        let message =
            refusal(client.call(&ApplyRequest::new("mine.unicorn", text.replace(from, to))));
        assert!(message.contains(word), "{from}: {message}");
    }
    let long = "/".repeat(weever_service_api::MAX_MESSAGE);
    assert!(client.call(&ApplyRequest::new("long.unicorn", &long)).is_err());
    let mut client = self::client(&stack);
    assert_eq!(client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text, text);
    peer.echo(b"still there");
}

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
        ("services.echo=70000", "a udp port"),
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
fn ten_operators_at_once_leave_one_graph() {
    let (stack, mut peer) = start(config());
    let path = stack.control_path().unwrap().to_owned();
    std::thread::scope(|scope| {
        for operator in 0..10u16 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect_within(path, PATIENCE).unwrap();
                for round in 0..5 {
                    set(&mut client, &format!("services.discard={}", 100 + operator)).unwrap();
                    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
                    let more = format!("{text}\n// {operator} {round}\n");
                    client.call(&ApplyRequest::new("same.unicorn", &more)).unwrap();
                }
            });
        }
        for _ in 0..50 {
            peer.echo(b"all the while");
        }
    });
    assert_eq!(stack.counters().drops.iter().map(|d| d.packets).sum::<u64>(), 0);
    assert_eq!(stack.stop().failure, None);
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

/// A neighbour that nobody has told the stack of.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const STRANGER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn counted(text: &str) -> String {
    text.replace("port echo[Echo]", "port echo[Count]").replace(
        "node Echo {",
        "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
    )
}

/// The graph with other names for the nodes at which packets wait for their neighbours.
fn renamed(text: &str) -> String {
    let named = |text: String, implementation: &str| {
        let node = format!("node Find{implementation} {{\nimplementation {implementation}");
        text.replacen("node Find {", &node, 1)
    };
    let text = named(named(text.replace("Lookup_", "Find"), "TxL3NDLookup_"), "TxL3ARPLookup_");
    text.replace("node FindTxL3NDLookup_", "node Find")
        .replace("node FindTxL3ARPLookup_", "node Find")
}

/// A stack whose answers to the stranger wait for its address, so many for each family.
fn waiting(answers: u8) -> (weever_daemon::Stack, Peer) {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    config.interfaces[0].addresses.push(Prefix::new(HOST6.into(), 64).unwrap());
    let (stack, mut peer) = start(config);
    let used = |stack: &weever_daemon::Stack| stack.status().interfaces[0].addresses.clone();
    let deadline = Instant::now() + PATIENCE;
    while !used(&stack).contains(&format!("{HOST6}/64")) {
        assert!(Instant::now() < deadline, "{:?}", used(&stack));
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in 0..answers {
        let from = SocketAddrV4::new(STRANGER, 4000);
        let four = frames::udp_datagram(from, SocketAddrV4::new(HOST, ECHO), &[4, number]);
        peer.send(&frames::from_peer(&four));
        let six = frames6::udp6((PEER6, 4000), (HOST6, ECHO), 64, &[6, number]);
        peer.send(&frames6::from_peer6(&six));
    }
    (stack, peer)
}

/// Waits until the stack has asked for both neighbours, without an answer.
fn asked(peer: &mut Peer) {
    let (mut four, mut six) = (false, false);
    while !four || !six {
        let frame = peer.receive_any(PATIENCE).expect("it asks for both");
        let arp = ArpView::new(&frame[14..]);
        four |= arp.is_ok_and(|arp| arp.header().tpa() == STRANGER);
        // A solicitation (RFC 4861 §4.3) for the peer.
        six |= frame[12..14] == [0x86, 0xdd]
            && frame.get(54) == Some(&135)
            && frame.get(62..78) == Some(&PEER6.octets());
    }
}

fn tell(peer: &mut Peer) {
    peer.send(&frames::arp(2, (STRANGER_MAC, STRANGER), (frames::HOST_MAC, HOST)));
    let (router, solicited, overrides, target_link) = (false, true, true, Some(PEER_MAC));
    let advert =
        NdpRepr::NeighbourAdvert { target: PEER6, router, solicited, overrides, target_link };
    peer.send(&frames6::from_peer6(&frames6::ndp(PEER6, HOST6, advert)));
}

/// The payloads of the echoes that come, of either family.
fn echoes(peer: &mut Peer, count: usize) -> Vec<[u8; 2]> {
    let (mut all, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < deadline, "of {count} there came {all:?}");
        let Some(frame) = peer.receive_any(Duration::from_millis(100)) else { continue };
        let udp = match frame[12..14] {
            [8, 0] if frame[23] == 17 => &frame[34..],
            [0x86, 0xdd] if frame[20] == 17 => &frame[54..],
            _ => continue,
        };
        all.push([udp[8], udp[9]]);
    }
    all
}

fn of_family(all: &[[u8; 2]], family: u8) -> Vec<u8> {
    all.iter().filter(|echo| echo[0] == family).map(|echo| echo[1]).collect()
}

fn lost(stack: &weever_daemon::Stack) -> Vec<weever_service_api::DropCounter> {
    let drops = stack.counters().drops.into_iter();
    // A stack that speaks IPv6 hears its own groups' traffic on a link of two.
    drops.filter(|d| d.packets > 0 && !d.node.starts_with("RxL2")).collect()
}

/// \"All without losing a packet\": packets that wait for a neighbour while others are changed, or while
/// their node is renamed, are sent in order when the neighbour is known; packets to known neighbours are
/// served all along.
#[test]
fn packets_that_wait_for_a_neighbour_outlive_changes() {
    const WAITING: u8 = 20;
    let (stack, mut peer) = waiting(WAITING);
    asked(&mut peer);
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    let renamed = renamed(&text);
    let later = |peer: &mut Peer| {
        let from = SocketAddrV4::new(PEER, 4000);
        let to = SocketAddrV4::new(HOST, ECHO);
        peer.send(&frames::from_peer(&frames::udp_datagram(from, to, &[0, 0])));
        assert_eq!(echoes(peer, 1), [[0, 0]], "waiting packets hold up no others");
    };
    for (name, wanted) in [
        ("counted.unicorn", counted(&text)),
        ("renamed.unicorn", renamed.clone()),
        ("both.unicorn", counted(&renamed)),
        ("host.unicorn", text),
    ] {
        let changed = client.call(&ApplyRequest::new(name, &wanted)).unwrap();
        assert!(changed.steps > 0 && changed.notes.is_empty(), "{name}: {changed:?}");
        later(&mut peer);
    }
    tell(&mut peer);
    let all = echoes(&mut peer, 2 * usize::from(WAITING));
    let in_order: Vec<u8> = (0..WAITING).collect();
    assert_eq!((of_family(&all, 4), of_family(&all, 6)), (in_order.clone(), in_order));
    assert_eq!(lost(&stack), []);
    assert_eq!(stack.stop().failure, None);
}

/// A node without a successor is gone, and so are the packets that wait there; they are counted, and the
/// rest goes on.
#[test]
fn packets_that_wait_at_a_node_without_a_successor_are_counted_drops() {
    let (stack, mut peer) = waiting(3);
    asked(&mut peer);
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    // Two that would do for IPv4: nobody knows which one is meant.
    let renamed = renamed(&text);
    let (before, node) = renamed.rsplit_once("node Find {").unwrap();
    let (node, after) = node.split_once("\n            }").unwrap();
    let other = node.replace("waiting Find", "waiting Other");
    let doubled =
        format!("{before}node Find {{{node}\n}}\nnode Other {{{other}\n            }}{after}");
    let doubled = doubled.replace("spawn fragment .L3ARPFind", "spawn fragment .L3ARPOther");
    client.call(&ApplyRequest::new("doubled.unicorn", &doubled)).unwrap();
    let removed = || {
        let drops = lost(&stack).into_iter();
        drops.filter(|d| d.reason == "node was removed").map(|d| d.packets).sum::<u64>()
    };
    let deadline = Instant::now() + PATIENCE;
    while removed() < 3 {
        assert!(Instant::now() < deadline, "{:?}", lost(&stack));
    }
    tell(&mut peer);
    assert_eq!(of_family(&echoes(&mut peer, 3), 6), [0, 1, 2]);
    assert_eq!(removed(), 3);
}

/// Half of a datagram is here when the node that keeps it gets another parameter.
#[test]
fn fragments_outlive_the_change_of_the_node_that_keeps_them() {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peer) = start(config);
    let (from, to) = (SocketAddrV4::new(PEER, 4000), SocketAddrV4::new(HOST, ECHO));
    let payload: Vec<u8> = (0..64).collect();
    let segment = frames::udp_segment(from, to, &payload);
    let piece = |offset: usize, more: bool, bytes: &[u8]| {
        let repr = frames::ipv4_repr(PEER, HOST, 17);
        let flags_frag = u16::from(more) << 13 | (offset / 8) as u16;
        let repr = Ipv4Repr { flags_frag, ..repr };
        frames::from_peer(&frames::ipv4(repr, bytes))
    };
    peer.send(&piece(0, true, &segment[..32]));
    let mut client = client(&stack);
    assert!(set(&mut client, "node.RxL3IPv4Reassemble.period=50").unwrap() > 0);
    peer.send(&piece(32, false, &segment[32..]));
    let answer = peer.receive();
    assert_eq!(answer[42..], payload);
    assert_eq!(lost(&stack), []);
}

/// A parameter of a block that shares its limit with others counts from the change on.
#[test]
fn a_limit_that_is_set_holds() {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peer) = start(config);
    let mut client = client(&stack);
    for limit in ["burst=2", "per_second=1"] {
        set(&mut client, &format!("node.RxL3ICMPNeedsResponse.{limit}")).unwrap();
    }
    for number in 0..20 {
        peer.send(&frames::echo_request(1, number, b"ping"));
    }
    let limited = || {
        let drops = lost(&stack).into_iter();
        drops.filter(|d| d.reason == "too many ICMP echo requests").map(|d| d.packets).sum::<u64>()
    };
    let deadline = Instant::now() + PATIENCE;
    while limited() == 0 {
        assert!(Instant::now() < deadline, "{:?}", lost(&stack));
    }
}

#[test]
fn two_workers_serve_two_queues_and_both_change() {
    let mut config: Config = config();
    config.cores = vec![0, 0];
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peers) = start_with(config, 2);
    assert_eq!(stack.status().workers.len(), 2);
    peers.iter_mut().for_each(|peer: &mut Peer| peer.echo(b"either"));
    set(&mut client(&stack), "services.echo=70").unwrap();
    peers.iter_mut().for_each(|peer| peer.echo_to(70, b"way"));
    let queues: Vec<u64> = stack.stop().counters.links.iter().map(|l| l.rx_packets).collect();
    assert!(queues.len() == 2 && queues.iter().all(|n| *n >= 2), "{queues:?}");
}

#[test]
fn a_link_too_few_is_an_error() {
    let mut config = config();
    let other = weever_daemon::config::Interface::new("memory9", Vec::<Prefix>::new());
    config.interfaces.push(other);
    let error = common::peer::try_start(config).map(drop).unwrap_err().to_string();
    assert!(error.contains("1 links for 2 devices"), "{error}");
}
