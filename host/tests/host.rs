//! Hosts over links in memory, driven by hand and on threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_blocks_std::socket::Applications;
use weever_blocks_std::testing::frames::{
    HOST, HOST_MAC, PEER, PEER_MAC, arp, echo_request, ethernet, from_peer, ipv4, ipv4_repr, udp,
};
use weever_graph::Verified;
use weever_host::{
    HostBuilder, HostError, InterfaceConfig, Prefix, Relieved, Route, Service, allowed_cores,
};
use weever_link::memory::{MemoryConfig, MemoryLink, pair};
use weever_link::{Link, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, host as host_graph};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};
use weever_plan::simplify::HandOver;
use weever_sim::idle_part;
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

#[test]
fn a_worker_without_a_device_gives_its_flows_to_one_that_has_one() {
    relieve(2, &[], (1, 0));
}

#[test]
fn a_worker_without_the_node_of_the_flows_is_passed_over() {
    relieve(4, &[1], (2, 3));
}

/// A worker whose only device queue fails has a connection, and another goes on with it: the first that has a
/// device, and the node of connections in its part, unlike those in `idle`. The loss of the worker's applications
/// does not end it.
fn relieve(workers: usize, idle: &'static [u16], (from, taker): (usize, usize)) {
    let config = MemoryConfig { waitable: true, queues: workers as u16, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&config).unwrap();
    let (our_applications, mut applications) = pair(&config).unwrap();
    let mut builder = HostBuilder::new(pool());
    builder.workers(workers);
    let link = builder.link(Box::new(ours));
    let app_link = builder.link(Box::new(our_applications));
    let (tables, streams) = (Vec::new(), Vec::new());
    builder.env().provide(Arc::new(Applications {
        link: app_link,
        tables,
        ephemeral: Default::default(),
        streams,
    }));
    let eth0 = InterfaceConfig::new("eth0", link).address(prefix("10.0.0.1/24"));
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let graph = host_graph(&HostConfig { tcp_echo: Some(7), ..HostConfig::default() }).unwrap();
    builder.graph(HandOver::default().with_entrance(&graph, "RxQueue"), HOST_SOURCE);
    let running = builder.start().unwrap();
    let handle = running.handle();
    let part = move |whole: &Verified, worker| idle.contains(&worker).then(|| idle_part(whole));
    handle.publisher.fit(Some(Arc::new(part))).unwrap();
    let owners = handle.publisher.flow_owners("RxL4TCPEndpoint").unwrap();
    let peer = |queue| Peer { frames: pool().cache(), queue };
    let mut peers: Vec<Option<Peer>> =
        theirs.take_queues().into_iter().map(peer).map(Some).collect();
    let mut first = peers[taker].take().unwrap();
    let mut second = peers[from].take().unwrap();
    let patience = Duration::from_secs(60);
    let deadline = Instant::now() + patience;
    let until = |done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(Instant::now() < deadline, "{:?}", handle.readings());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The sequence number after an answer with this payload.
    let answer = |peer: &mut Peer, payload: &[u8], syn: bool| {
        let mut next = None;
        until(&mut || {
            let mut came = peer.receive().into_iter().filter_map(|frame| answered(&frame, payload));
            next = came.next_back().or(next);
            next.is_some()
        });
        next.unwrap() + u32::from(syn)
    };
    second.send(&segment((99, 0), SYN, b""));
    let next = answer(&mut second, b"", true);
    second.send(&segment((100, next), ACK, b"before"));
    let next = answer(&mut second, b"before", false);
    assert_eq!(owners.of_worker(from as u16).len(), 1);
    let _applications_of_others = {
        let mut queues = applications.take_queues();
        drop(queues.remove(from));
        queues
    };
    until(&mut || handle.workers[from].lost_queues() == [app_link]);
    assert_eq!(handle.relieve(patience), [], "its device is there");
    drop(second);
    until(&mut || handle.workers[from].lost_queues() == [app_link, link]);
    // The first worker, which runs the whole graph, has no device either.
    for worker in (0..taker).filter(|worker| *worker != from && !idle.contains(&(*worker as u16))) {
        drop(peers[worker].take());
        until(&mut || handle.workers[worker].lost_queues() == [link]);
    }
    let relieved = handle.relieve(patience);
    let [Relieved { worker, by, flows }] = relieved.as_slice() else { panic!("{relieved:?}") };
    let names = [from, taker].map(|worker| format!("worker-{worker}"));
    assert_eq!(([worker.clone(), by.clone()], flows.moved), (names, 1));
    let owned = [taker, from].map(|worker| owners.of_worker(worker as u16).len());
    assert_eq!(owned, [1, 0]);
    assert_eq!(handle.relieve(patience), [], "once");
    first.send(&segment((106, next), ACK, b"afterwards"));
    answer(&mut first, b"afterwards", false);
    drop((running, first, peers, applications));
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment to the echo port (RFC 9293 §3.1).
fn segment((seq, ack): (u32, u32), flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = [&[0; 20], payload].concat();
    segment[..2].copy_from_slice(&4000u16.to_be_bytes());
    segment[2..4].copy_from_slice(&7u16.to_be_bytes());
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    segment[8..12].copy_from_slice(&ack.to_be_bytes());
    (segment[12], segment[13], segment[14]) = (5 << 4, flags, 0xff);
    let addresses = [PEER.octets(), HOST.octets()].concat();
    let len = segment.len() as u16;
    fill_checksum(&mut segment, Pseudo::v4(addresses.first_chunk().unwrap(), 6, len));
    from_peer(&ipv4(ipv4_repr(PEER, HOST, 6), &segment))
}

/// The sequence number behind an answer of the echo port with exactly this payload.
fn answered(frame: &[u8], payload: &[u8]) -> Option<u32> {
    let length = usize::from(u16::from_be_bytes(*frame.get(16..18)?.first_chunk()?));
    let (ip, segment) = (frame.get(14..34)?, frame.get(34..14 + length)?);
    let is_tcp = frame[12..14] == [8, 0] && ip[9] == 6;
    let carried = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
    let seq = u32::from_be_bytes(*segment[4..].first_chunk()?);
    (is_tcp && carried == payload).then(|| seq.wrapping_add(payload.len() as u32))
}
