//! Networks that behave, and networks that do not.

use std::collections::HashSet;
use std::net::SocketAddr;

use weever_engine::CounterKind;
use weever_link::fault::Faults;
use weever_net::addr::Cidr;
use weever_net::route::{Origin, Route};
use weever_sim::{CableId, HostId, MILLIS, SECOND, Sim, Topology};

/// Two hosts with a router between them: `a` asks, `b` echoes.
struct Routed {
    a: HostId,
    router: HostId,
    left: CableId,
    right: CableId,
}

const B: &str = "10.2.0.1:7";

fn routed(seed: u64, faults: Faults) -> (Topology, Routed) {
    let mut net = Topology::new(seed);
    let [a, router, b] = ["a", "router", "b"].map(|name| net.host(name));
    let left = net.cable(a, "10.1.0.1/24", router, "10.1.0.254/24");
    let right = net.cable(router, "10.2.0.254/24", b, "10.2.0.1/24");
    net.faults(left, faults);
    net.faults(right, faults);
    net.forwarding(router);
    net.route(a, "0.0.0.0/0", [10, 1, 0, 254]);
    net.route(b, "0.0.0.0/0", [10, 2, 0, 254]);
    net.listen(a, 5000);
    net.echo(b, 7);
    (net, Routed { a, router, left, right })
}

fn to(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Sends numbered datagrams, one every ten milliseconds; the numbers that came back.
fn exchange(sim: &mut Sim, from: HostId, count: u32) -> Vec<u32> {
    for number in 0..count {
        sim.send(from, 5000, to(B), &number.to_be_bytes()).unwrap();
        sim.run_for(10 * MILLIS);
    }
    sim.run_for(5 * SECOND);
    let received = sim.received(from);
    received.iter().map(|d| u32::from_be_bytes(d.payload[..].try_into().unwrap())).collect()
}

#[test]
fn a_minute_over_a_router_loses_nothing_on_good_cables() {
    let (net, hosts) = routed(1, Faults { delay: 3 * MILLIS, ..Faults::default() });
    let mut sim = net.start().unwrap();
    let came = exchange(&mut sim, hosts.a, 6000);
    assert_eq!(came, (0..6000).collect::<Vec<_>>());
    assert_eq!(sim.now(), 65 * SECOND);
    let drops = sim.drops(hosts.router);
    assert!(drops.iter().all(|(node, ..)| node.contains("ARP")), "{drops:?}");
    sim.finish();
}

#[test]
fn the_delay_of_the_cables_is_the_delay_of_the_path() {
    let (net, hosts) = routed(1, Faults { delay: 3 * MILLIS, ..Faults::default() });
    let mut sim = net.start().unwrap();
    sim.send(hosts.a, 5000, to(B), b"resolves").unwrap();
    sim.run_for(SECOND);
    let sent = sim.now();
    sim.send(hosts.a, 5000, to(B), b"measures").unwrap();
    sim.run_for(SECOND);
    let last = sim.received(hosts.a).pop().unwrap();
    assert_eq!((last.at - sent, last.from), (12 * MILLIS, to(B)));
}

#[test]
fn bad_cables_lose_some_and_a_seed_always_the_same() {
    let bad = Faults {
        loss: 0.05,
        duplicate: 0.05,
        corrupt: 0.02,
        reorder: 0.1,
        reorder_depth: 3,
        delay: MILLIS,
        jitter: MILLIS,
        ..Faults::default()
    };
    let run = |seed| {
        let (net, hosts) = routed(seed, bad);
        let mut sim = net.start().unwrap();
        let came = exchange(&mut sim, hosts.a, 500);
        let vanished = sim.vanished(hosts.left) + sim.vanished(hosts.right);
        sim.finish();
        (came, vanished)
    };
    let (came, vanished) = run(42);
    let distinct: HashSet<u32> = came.iter().copied().collect();
    assert!(distinct.len() > 300 && distinct.len() < 500, "{} of 500", distinct.len());
    assert!(came.len() > distinct.len(), "some came twice");
    assert!(vanished > 20, "{vanished}");
    assert_eq!(run(42), (came, vanished));
    assert_ne!(run(43).0, run(42).0);
}

#[test]
fn a_cable_that_is_pulled_and_plugged_in_again() {
    let (net, hosts) = routed(1, Faults::default());
    let mut sim = net.start().unwrap();
    assert_eq!(exchange(&mut sim, hosts.a, 3).len(), 3);
    sim.set_down(hosts.right, true);
    assert_eq!(exchange(&mut sim, hosts.a, 3), [0u32; 0]);
    // Long enough for every neighbour to be forgotten.
    sim.run_for(600 * SECOND);
    sim.set_down(hosts.right, false);
    let came = exchange(&mut sim, hosts.a, 100);
    assert!(came.contains(&99), "{came:?}");
    sim.finish();
}

fn sent_by(sim: &mut Sim, host: HostId) -> u64 {
    let readings = sim.readings(host);
    let queue = readings.iter().find(|r| &*r.node == "TxQueue" && r.kind == CounterKind::Packets);
    queue.map_or(0, |r| r.value)
}

#[test]
fn a_route_changes_while_it_is_used() {
    let mut net = Topology::new(1);
    let [a, one, two, b] = ["a", "one", "two", "b"].map(|name| net.host(name));
    net.cable(a, "10.1.0.1/24", one, "10.1.0.254/24");
    net.cable(a, "10.3.0.1/24", two, "10.3.0.254/24");
    net.cable(one, "10.2.0.253/24", b, "10.2.0.1/24");
    net.cable(two, "10.4.0.254/24", b, "10.4.0.1/24");
    for router in [one, two] {
        net.forwarding(router);
    }
    net.route(a, "10.2.0.0/24", [10, 1, 0, 254]);
    net.route(two, "10.2.0.0/24", [10, 4, 0, 1]);
    net.route(b, "10.1.0.0/24", [10, 2, 0, 253]);
    net.route(b, "10.3.0.0/24", [10, 4, 0, 254]);
    net.listen(a, 5000);
    net.echo(b, 7);
    let mut sim = net.start().unwrap();
    assert_eq!(exchange(&mut sim, a, 5).len(), 5);
    let before = sent_by(&mut sim, one);
    let destination: Cidr = "10.2.0.0/24".parse().unwrap();
    let changed = sim.network(a).update(|network| {
        network.remove_route_from(destination, Origin::Static)?;
        network.add_route(Route::via(destination, [10, 3, 0, 254].into()))
    });
    changed.unwrap();
    assert_eq!(exchange(&mut sim, a, 5).len(), 5);
    assert!(sent_by(&mut sim, two) >= 10);
    assert!(sent_by(&mut sim, one) <= before + 4, "nothing but neighbours' questions");
    sim.finish();
}

#[test]
fn what_makes_no_sense_is_refused_with_the_hosts_name() {
    let mut net = Topology::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    net.cable(a, "10.0.0.1", b, "10.0.0.2/24");
    let error = net.start().unwrap_err().to_string();
    assert!(error.starts_with("host a: `10.0.0.1`"), "{error}");
    let mut net = Topology::new(1);
    let (a, b) = (net.host("a"), net.host("b"));
    net.cable(a, "10.0.0.1/24", b, "10.0.0.2/24");
    let mut sim = net.start().unwrap();
    let error = sim.send(a, 1, to("192.0.2.1:9"), b"x").unwrap_err().to_string();
    assert!(error.contains("host a has no route to 192.0.2.1"), "{error}");
    let error = sim.send(a, 1, to("10.0.0.2:9"), &[0; 5000]).unwrap_err().to_string();
    assert!(error.contains("5000 bytes"), "{error}");
}

#[test]
fn ipv6_over_a_router_with_fragments_on_the_way() {
    let mut net = Topology::new(3);
    let [a, router, b] = ["a", "router", "b"].map(|name| net.host(name));
    let near = net.cable(a, "fd01::1/64", router, "fd01::fe/64");
    let far = net.cable(router, "fd02::fe/64", b, "fd02::1/64");
    net.faults(far, Faults { delay: MILLIS, ..Faults::default() });
    for cable in [near, far] {
        net.mtu(cable, 1280);
    }
    net.forwarding(router);
    let via = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
    net.route(a, "::/0", via("fd01::fe"));
    net.route(b, "::/0", via("fd02::fe"));
    net.listen(a, 5000);
    net.echo(b, 7);
    let mut sim = net.start().unwrap();
    // Until the addresses are known to be nobody else's.
    sim.run_for(3 * SECOND);
    for len in [0, 1, 1400] {
        sim.send(a, 5000, to("[fd02::1]:7"), &vec![7; len]).unwrap();
        sim.run_for(SECOND);
        let received = sim.received(a);
        assert_eq!(received.iter().map(|d| d.payload.len()).collect::<Vec<_>>(), [len]);
        assert_eq!(received[0].from, to("[fd02::1]:7"));
    }
    sim.finish();
}

#[test]
fn a_clock_that_jumps_ahead_costs_what_was_on_its_way_and_no_more() {
    let (net, hosts) = routed(1, Faults { delay: MILLIS, ..Faults::default() });
    let mut sim = net.start().unwrap();
    assert_eq!(exchange(&mut sim, hosts.a, 5).len(), 5);
    // An hour, a day, three years: every timer is due at once, and every neighbour is old.
    for jump in [3600, 86_400, 100_000_000] {
        sim.send(hosts.a, 5000, to(B), b"\0\0\0\0").unwrap();
        sim.jump(jump * SECOND);
        sim.run_for(5 * SECOND);
        sim.received(hosts.a);
        let came = exchange(&mut sim, hosts.a, 5);
        assert_eq!(came, [0, 1, 2, 3, 4], "after {jump} s");
    }
    sim.finish();
}
