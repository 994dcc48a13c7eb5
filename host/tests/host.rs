//! Hosts over links in memory, driven by hand and on threads.

use std::time::{Duration, Instant};

use weever_blocks_std::testing::frames::{
    HOST, HOST_MAC, PEER, PEER_MAC, arp, echo_request, ethernet, from_peer, ipv4, ipv4_repr, udp,
};
use weever_host::{
    HostBuilder, HostError, InterfaceConfig, Prefix, Relieved, Route, Service, allowed_cores,
};
use weever_link::memory::{MemoryConfig, MemoryLink, pair};
use weever_link::{Link, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host as host_graph};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};
use weever_wire::arp::op;
use weever_wire::checksum::Pseudo;
use weever_wire::ethernet::ethertype;
use weever_wire::tcp::fill_checksum;

const MILLIS: u64 = 1_000_000;

fn pool() -> Pool {
    let config = PoolConfig { frames: 1024, huge_pages: HugePages::Never, ..PoolConfig::default() };
    Pool::new(config).unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// The far end of the cable.
struct Peer {
    frames: PoolCache,
    queue: Box<dyn LinkQueue>,
}

impl Peer {
    fn new(mut link: MemoryLink) -> Peer {
        Peer { frames: pool().cache(), queue: link.take_queues().remove(0) }
    }

    fn send(&mut self, frame: &[u8]) {
        let mut packet = self.frames.alloc().unwrap();
        assert!(packet.append(frame));
        self.queue.tx(&mut self.frames, &mut [packet].into()).unwrap();
        self.queue.flush(&mut self.frames).unwrap();
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        let received = self.queue.rx(&mut self.frames, &mut burst, 64).unwrap();
        let packets = (0..received).filter_map(|slot| burst.take(slot));
        packets.map(|packet| packet.data().to_vec()).collect()
    }
}

/// A host that answers on UDP port 7 at 10.0.0.1/24, and its peer.
fn host() -> (HostBuilder, Peer) {
    let config = MemoryConfig { waitable: true, ..MemoryConfig::default() };
    let (ours, theirs) = pair(&config).unwrap();
    let mut builder = HostBuilder::new(pool());
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address(prefix("10.0.0.1/24"));
    builder.interface(eth0).unwrap();
    builder.serve(Service::Echo, 7);
    (builder, Peer::new(theirs))
}

#[test]
fn driven_by_hand_it_answers_a_datagram_once_it_knows_the_neighbour() {
    let (builder, mut peer) = host();
    let mut host = builder.build(0).unwrap();
    peer.send(&udp(4000, 7, b"over to you"));
    while host.step(MILLIS) {}
    let asked = peer.receive();
    assert!(asked.iter().all(|frame| frame[12..14] == ethertype::ARP.to_be_bytes()), "{asked:?}");
    peer.send(&arp(op::REPLY, (PEER_MAC, PEER), (HOST_MAC, [10, 0, 0, 1].into())));
    while host.step(2 * MILLIS) {}
    assert!(peer.receive().iter().any(|frame| frame.ends_with(b"over to you")));
    assert_eq!(host.handle().failure(), None);
    assert!(host.next_deadline().is_some(), "the neighbour ages");
}

#[test]
fn a_seed_makes_every_run_the_same_and_others_differ() {
    // The times and contents of announcements and probes depend on randomness.
    let run = |seed: u64| {
        let (mut builder, mut peer) = host();
        builder.secret(seed);
        let mut wanted = InterfaceConfig::new("eth0.5", 0);
        (wanted.vlan, wanted.dhcp, wanted.slaac) = (Some(5), true, true);
        builder.interface(wanted).unwrap();
        let mut host = builder.build(0).unwrap();
        let mut seen = Vec::new();
        for now in (0..4000).map(|n| n * MILLIS) {
            while host.step(now) {}
            seen.extend(peer.receive().into_iter().map(|frame| (now, frame)));
        }
        seen
    };
    assert!(run(1).len() > 3);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn on_threads_it_answers_and_gives_its_links_back() {
    let (mut builder, mut peer) = host();
    builder.neighbour(PEER.into(), PEER_MAC);
    builder.workers(2);
    let running = builder.start().unwrap();
    peer.send(&echo_request(1, 1, b"are you there"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !peer.receive().iter().any(|frame| frame.ends_with(b"are you there")) {
        assert!(Instant::now() < deadline, "no answer: {:?}", running.handle().readings());
        std::thread::sleep(Duration::from_millis(1));
    }
    running.handle().stopper.stop();
    running.wait();
    let handle = running.handle().clone();
    let stopped = running.stop();
    assert_eq!((stopped.failure, stopped.links.len(), handle.workers.len()), (None, 1, 2));
    assert_eq!(stopped.frames.lent, []);
    drop((stopped.links, peer));
    assert!(handle.pool.census().is_complete(), "{}", handle.pool.census());
}

#[test]
fn a_link_that_fails_ends_it_with_the_reason() {
    let (builder, peer) = host();
    let running = builder.start().unwrap();
    drop(peer);
    running.wait();
    let failure = running.stop().failure.expect("its only link has gone");
    assert!(failure.contains("memory0"), "{failure}");
}

#[test]
fn a_core_that_it_may_not_use_is_refused_with_those_that_it_may() {
    let (mut builder, _peer) = host();
    builder.cores(&[100_000]);
    let error = builder.start().unwrap_err().to_string();
    let last = allowed_cores().unwrap().pop().unwrap().to_string();
    assert!(error.contains("core 100000") && error.ends_with(&last), "{error}");
}

#[test]
fn each_step_checks_what_it_is_given_and_leaves_the_rest_alone() {
    let (mut builder, _peer) = host();
    let nowhere = InterfaceConfig::new("eth1", 1);
    let error = builder.interface(nowhere).unwrap_err();
    assert_eq!(error.to_string(), "interface eth1: there is no link 1; add the link first");
    let twin = InterfaceConfig::new("eth1", 0).address(prefix("10.0.0.1/8"));
    let twin = InterfaceConfig { vlan: Some(9), ..twin };
    assert!(matches!(builder.interface(twin).unwrap_err(), HostError::Network(_)));
    let off_link = Route::via(prefix("0.0.0.0/0"), "10.9.0.1".parse().unwrap());
    let error = builder.route(&off_link).unwrap_err().to_string();
    assert!(error.starts_with("route to 0.0.0.0/0: ") && error.contains("10.9.0.1"), "{error}");
    let mixed = Route::via(prefix("::/0"), "10.0.0.2".parse().unwrap());
    assert!(matches!(builder.route(&mixed), Err(HostError::RouteFamily { .. })));
    let by = Route { interface: Some("eth7".into()), ..off_link };
    let error = builder.route(&by).unwrap_err().to_string();
    assert!(error.contains("eth7"), "{error}");
    assert_eq!(builder.network().interfaces().len(), 1);
    assert!(builder.network().routes4().is_empty());
    builder.neighbour([10, 9, 0, 1].into(), PEER_MAC);
    let error = builder.build(0).unwrap_err().to_string();
    assert_eq!(error, "neighbour 10.9.0.1: no interface leads there");
}

#[test]
fn sockets_that_clash_are_refused() {
    let (mut builder, _peer) = host();
    builder.serve(Service::Discard, 7);
    let error = builder.build(0).unwrap_err().to_string();
    assert!(error.contains("two sockets on UDP port 7"), "{error}");
}

#[test]
fn without_queues_the_caller_moves_the_packets() {
    let (ours, _theirs) = pair(&MemoryConfig::default()).unwrap();
    let mut builder = HostBuilder::new(pool());
    let link = builder.queues_of(ours.info().clone(), Vec::new());
    let eth0 = InterfaceConfig::new("eth0", link).address(prefix("10.0.0.1/24"));
    builder.interface(eth0).unwrap();
    let mut host = builder.build(0).unwrap();
    let engine = host.worker(0).engine();
    let (mut burst, mut packet) = (Burst::new(), engine.pool().alloc().unwrap());
    let request = arp(op::REQUEST, (PEER_MAC, PEER), (HOST_MAC, [10, 0, 0, 1].into()));
    assert!(packet.append(&request) && request.len() > ethernet(HOST_MAC, PEER_MAC, 0, &[]).len());
    packet.meta_mut().l2 = packet.head();
    burst.put(0, packet);
    let entry = engine.entry("RxQueue").unwrap();
    engine.inject(entry, &mut burst, 1, 0);
    engine.run(0, 64);
    let (pool, sent) = engine.transmit(link);
    assert!(sent.iter().any(|packet| packet.data()[..6] == PEER_MAC.0), "{sent:?}");
    sent.drain(..).for_each(|packet| pool.free(packet));
}

/// A worker whose only device queue fails has a connection; the other worker's queue goes on.
#[test]
fn a_worker_without_a_device_gives_its_flows_to_one_that_has_one() {
    let config = MemoryConfig { waitable: true, queues: 2, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&config).unwrap();
    let mut builder = HostBuilder::new(pool());
    builder.workers(2);
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address(prefix("10.0.0.1/24"));
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let graph = host_graph(&HostConfig { tcp_echo: Some(7), ..HostConfig::default() }).unwrap();
    builder.graph(graph, HOST_SOURCE);
    let running = builder.start().unwrap();
    let handle = running.handle();
    let owners = handle.publisher.flow_owners("RxL4TCPEndpoint").unwrap();
    let mut queues = theirs.take_queues();
    let mut second = Peer { frames: pool().cache(), queue: queues.remove(1) };
    second.send(&syn(4000, 7));
    let until = |done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "{:?}", handle.readings());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(&|| owners.of_worker(1).len() == 1);
    assert_eq!(handle.relieve(Duration::from_secs(60)), [], "its device is there");
    drop(second);
    until(&|| handle.workers[1].lost_queues() == 1);
    let relieved = handle.relieve(Duration::from_secs(60));
    let [Relieved { worker, by, flows }] = relieved.as_slice() else { panic!("{relieved:?}") };
    assert_eq!((worker.as_str(), by.as_str(), flows.moved), ("worker-1", "worker-0", 1));
    assert_eq!((owners.of_worker(0).len(), owners.of_worker(1).len()), (1, 0));
    assert_eq!(handle.relieve(Duration::from_secs(60)), [], "once");
    drop((running, queues));
}

/// The first segment of a connection (RFC 9293 §3.1).
fn syn(src_port: u16, dst_port: u16) -> Vec<u8> {
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&src_port.to_be_bytes());
    segment[2..4].copy_from_slice(&dst_port.to_be_bytes());
    (segment[12], segment[13], segment[14]) = (5 << 4, 2, 0xff);
    let addresses = [PEER.octets(), HOST.octets()].concat();
    fill_checksum(&mut segment, Pseudo::v4(addresses.first_chunk().unwrap(), 6, 20));
    from_peer(&ipv4(ipv4_repr(PEER, HOST, 6), &segment))
}
