//! Changing a stack while it runs: another graph, other services, other addresses.

mod common;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::peer::{PATIENCE, Peer, config, start, start_with};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC};
use weever_daemon::config::{Config, Prefix};
use weever_service_api::{Client, ClientError, GraphFormat};

fn unprobed() -> Config {
    let mut config = config();
    config.probe = false;
    config
}

fn client(stack: &weever_daemon::Stack) -> Client {
    Client::connect(stack.control_path().unwrap()).unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(error)) => error.message,
        other => panic!("not refused: {other:?}"),
    }
}

fn set(client: &mut Client, assignment: &str) -> Result<usize, ClientError> {
    client.set(assignment.parse().unwrap()).map(|changed| changed.steps)
}

#[test]
fn the_graph_that_runs_can_be_changed_and_applied() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.graph(GraphFormat::Unicorn).unwrap().text;
    assert_eq!(client.apply("same.unicorn", &text).unwrap().steps, 0);
    peer.echo(b"before");
    // A counter between the echo service and its answers.
    let changed = text.replace("port echo[Echo]", "port echo[Count]").replace(
        "node Echo {",
        "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
    );
    let published = client.apply("counted.unicorn", &changed).unwrap();
    assert!(published.steps >= 2 && published.epoch == 1, "{published:?}");
    peer.echo(b"after");
    let counters = client.counters().unwrap();
    let packets = |name: &str| counters.nodes.iter().find(|n| n.name == name).map(|n| n.packets);
    assert_eq!((packets("RxL4UDPCount"), packets("RxL4UDPEcho")), (Some(1), Some(2)));
    assert_eq!(client.graph(GraphFormat::Unicorn).unwrap().text, changed);
    client.apply("host.unicorn", &text).unwrap();
    peer.echo(b"as it was");
}

#[test]
fn a_graph_that_cannot_run_changes_nothing_and_is_named() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.graph(GraphFormat::Unicorn).unwrap().text;
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
        let message = refusal(client.apply("mine.unicorn", &text.replace(from, to)));
        assert!(message.contains(word), "{from}: {message}");
    }
    let long = "/".repeat(weever_service_api::MAX_MESSAGE);
    assert!(client.apply("long.unicorn", &long).is_err());
    let mut client = self::client(&stack);
    assert_eq!(client.graph(GraphFormat::Unicorn).unwrap().text, text);
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
    let deadline = Instant::now() + PATIENCE;
    while !interface().tentative.is_empty() {
        assert!(Instant::now() < deadline, "nobody objects, and it is not used");
        std::thread::sleep(Duration::from_millis(20));
    }
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
        ("interface.memory0.mtu=5", "mtu"),
        ("interface.memory0.mtu=9000", "memory0 was opened with an mtu of 1500"),
        ("interface.memory0.mtu=large", "a number of bytes"),
        ("services.echo=70000", "a udp port"),
        ("route.10.9.0.0/16=172.16.0.1", "172.16.0.1"),
        ("route.10.9.0.0/16=none", "no such route"),
        ("route.x=none", "`x`"),
        ("forwarding=maybe", "on or off"),
        ("forwarding=on", "leaves packets for others"),
        ("reverse-path=tight", "strict"),
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
        "interface.memory0.mtu=1400",
        "reverse-path=strict",
    ] {
        set(&mut client, good).unwrap_or_else(|e| panic!("{good}: {e}"));
    }
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
    ] {
        let message = refusal(set(&mut client, assignment)).to_lowercase();
        assert!(message.contains(word), "{assignment}: {message}");
    }
    assert_eq!(stack.status().routes, status.routes, "what is refused changes nothing");
    set(&mut client, "route.fd00::/8=none").unwrap();
    // What the stack made for itself is not the operator's to list.
    set(&mut client, "interface.memory0.addr=10.0.0.7/24").unwrap();
    assert!(!all(&stack).contains(&"2001:db8::7/64".to_owned()), "{:?}", first(&stack));
    let deadline = Instant::now() + PATIENCE;
    while !all(&stack).iter().any(|text| text.starts_with("fe80:")) {
        assert!(Instant::now() < deadline, "{:?}", first(&stack));
        std::thread::sleep(Duration::from_millis(20));
    }
    peer.echo_from(Ipv4Addr::new(10, 0, 0, 7), b"alone");
}

#[test]
fn ten_operators_at_once_leave_one_graph() {
    let (stack, mut peer) = start(config());
    let path = stack.control_path().unwrap().to_owned();
    std::thread::scope(|scope| {
        for operator in 0..10u16 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect(path).unwrap();
                for round in 0..5 {
                    set(&mut client, &format!("services.discard={}", 100 + operator)).unwrap();
                    let text = client.graph(GraphFormat::Unicorn).unwrap().text;
                    let more = format!("{text}\n// {operator} {round}\n");
                    client.apply("same.unicorn", &more).unwrap();
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
                    let services = client.status().unwrap().services;
                    let own = services.iter().find(|s| s.name == service).map(|s| s.port);
                    assert_eq!(own, Some(port), "{service}: nobody else has changed it");
                }
            });
        }
    });
    assert_eq!(stack.stop().failure, None);
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
