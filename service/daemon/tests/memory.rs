//! A whole stack over a memory link, with a peer made by hand.

mod common;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::peer::{DISCARD, ECHO, PATIENCE, Peer, config, start, try_start};
use weever_blocks_std::testing::frames::{self, HOST_MAC, PEER, PEER_MAC};
use weever_daemon::config::{Config, Mode, Services};
use weever_daemon::{Stack, StartError};
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Burst, Pool, PoolConfig};
use weever_service_api::{
    Client, Counters, CountersRequest, GraphFormat, GraphRequest, StatusRequest, StopRequest,
};
use weever_wire::arp::ArpView;
use weever_wire::ethernet::HEADER_LEN;
use weever_wire::ipv4::Ipv4View;

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config();
    change(&mut config);
    config
}

/// Waits until the counters satisfy `wanted`.
fn await_counters(stack: &Stack, wanted: impl Fn(&Counters) -> bool) -> Counters {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counters = stack.counters();
        if wanted(&counters) {
            return counters;
        }
        assert!(Instant::now() < deadline, "{counters:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn arp_is_answered() {
    let (stack, mut peer) = start(config());
    peer.send(&frames::arp_request(Ipv4Addr::new(10, 0, 0, 1)));
    let answer = std::iter::repeat_with(|| peer.receive_any(PATIENCE).expect("no answer"))
        .find(|frame| frame[..6] == PEER_MAC.0)
        .unwrap();
    let arp = ArpView::new(&answer[HEADER_LEN..]).unwrap().header();
    assert_eq!((arp.op(), arp.sha(), arp.tpa()), (2, HOST_MAC, PEER));
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn datagrams_are_echoed_and_discarded_in_every_mode() {
    for mode in [Mode::Busy, Mode::Adaptive, Mode::Interrupt] {
        let (stack, mut peer) = start(with(|c| c.mode = mode));
        for length in [0, 1, 64, 1472] {
            // Longer than an idle worker spins, so that it has to be woken.
            std::thread::sleep(Duration::from_millis(20));
            peer.echo(&vec![0x5a; length]);
        }
        peer.send(&frames::udp(4000, DISCARD, b"gone"));
        let counters = await_counters(&stack, |c| c.links[0].rx_packets >= 5);
        assert_eq!(counters.links[0].link, "memory0");
        let report = stack.stop();
        assert_eq!(report.failure, None, "{mode}");
        assert!(report.counters.links[0].tx_packets >= 4);
    }
}

#[test]
fn bad_frames_are_counted_drops_and_nothing_else() {
    let (stack, mut peer) = start(config());
    let good = frames::udp(4000, ECHO, b"payload");
    // Shorter ones no link delivers.
    for length in HEADER_LEN..good.len() {
        peer.send(&good[..length]);
    }
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 1;
    peer.send(&wrong);
    peer.send(&frames::udp(4000, 4711, b"nobody is there"));
    let sent = (good.len() - HEADER_LEN) as u64 + 2;
    let counters = await_counters(&stack, |c| c.links[0].rx_packets >= sent);
    assert_eq!(peer.receive()[HEADER_LEN + 9], 1, "ICMP: nobody is there");
    peer.echo(b"still there");
    let dropped: u64 = counters.drops.iter().map(|d| d.packets).sum();
    assert!(dropped > 10 && counters.drops.iter().all(|d| !d.reason.is_empty()), "{counters:#?}");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_fixed_neighbour_is_not_asked_for() {
    let (_stack, mut peer) = start(with(|c| c.neighbours = vec![(PEER.into(), PEER_MAC)]));
    peer.send(&frames::udp(4000, ECHO, b"hello"));
    loop {
        let frame = peer.receive_any(PATIENCE).expect("no answer");
        match ArpView::new(&frame[HEADER_LEN..]) {
            Ok(arp) => assert_ne!(arp.header().tpa(), PEER, "it asked"),
            Err(_) => break,
        }
    }
}

#[test]
fn inside_a_vlan_only_its_frames_are_answered_and_answers_are_tagged() {
    let fixed = vec![(PEER.into(), PEER_MAC)];
    let (_stack, mut peer) =
        start(with(|c| (c.interfaces[0].vlan, c.neighbours) = (Some(5), fixed)));
    let question = frames::udp(4000, ECHO, b"tagged?");
    peer.send(&question);
    peer.send(&frames::tagged(&question, 6, 0));
    peer.send(&frames::tagged(&question, 5, 0));
    let answer = std::iter::repeat_with(|| peer.receive_any(PATIENCE).expect("no answer"))
        .find(|frame| frame.ends_with(b"tagged?"))
        .unwrap();
    assert_eq!(answer[12..18], [0x81, 0, 0, 5, 8, 0]);
    while let Some(frame) = peer.receive_any(Duration::from_millis(50)) {
        assert!(!frame.ends_with(b"tagged?"), "the others were answered");
    }
}

#[test]
fn a_flood_is_survived_and_accounted_for() {
    let (stack, mut peer) = start(with(|c| c.neighbours = vec![(PEER.into(), PEER_MAC)]));
    let frame = frames::udp(4000, ECHO, &[0; 64]);
    let (mut answers, mut burst) = (0, Burst::new());
    for _ in 0..200 {
        let copies = (0..64).filter_map(|_| peer.cache.alloc());
        let mut packets: std::collections::VecDeque<_> = copies
            .map(|mut buffer| {
                assert!(buffer.append(&frame));
                buffer
            })
            .collect();
        peer.queue.tx(&mut peer.cache, &mut packets).unwrap();
        peer.queue.flush(&mut peer.cache).unwrap();
        packets.drain(..).for_each(|buffer| peer.cache.free(buffer));
        // Taken seldom, so that everything on the way back is full most of the time.
        answers += peer.queue.rx(&mut peer.cache, &mut burst, 8).unwrap();
        (0..8).filter_map(|i| burst.take(i)).for_each(drop);
    }
    while peer.receive_any(Duration::from_millis(200)).is_some() {
        answers += 1;
    }
    peer.send(&frames::udp(4000, ECHO, b"still there"));
    // Behind answers of which a busy machine may still owe some.
    while !peer.receive_any(PATIENCE).expect("no answer").ends_with(b"still there") {
        answers += 1;
    }
    let report = stack.stop();
    assert_eq!(report.failure, None);
    let (received, sent, dropped) = report.totals();
    assert!(answers > 0 && received > 0);
    // Everything that went in came out or was a counted drop (ARP announcements come on top).
    assert!(sent + dropped >= received && sent <= received + 5, "{:#?}", report.counters);
}

#[test]
fn a_running_stack_is_asked_and_stopped_over_its_socket() {
    let (stack, mut peer) = start(config());
    let path = stack.control_path().unwrap().to_owned();
    peer.echo(b"x");
    let mut client = Client::connect(&path).unwrap();
    let status = client.call(&StatusRequest {}).unwrap();
    assert_eq!((status.link.as_str(), status.mode.as_str()), ("memory0", "memory"));
    assert_eq!((status.services.len(), status.workers[0].state.as_str()), (2, "running"));
    let counters = client.call(&CountersRequest {}).unwrap();
    assert!(counters.nodes.iter().any(|n| n.packets > 0), "{counters:#?}");
    let dot = client.call(&GraphRequest::from(GraphFormat::Dot)).unwrap().text;
    assert!(dot.starts_with("digraph") && dot.contains("Queue"), "{dot}");
    client.call(&StopRequest {}).unwrap();
    stack.wait();
    let report = stack.stop();
    assert_eq!(report.failure, None);
    client.wait_closed(PATIENCE).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_link_that_goes_away_ends_the_stack_with_a_reason() {
    let (stack, peer) = start(config());
    drop(peer);
    stack.wait();
    let failure = stack.stop().failure.expect("it went away");
    assert!(failure.contains("memory0"), "{failure}");
}

#[test]
fn a_stack_without_services_answers_that_nobody_is_there() {
    let (stack, mut peer) = start(with(|c| c.services = Services::default()));
    assert!(stack.status().services.is_empty());
    peer.send(&frames::udp(4000, ECHO, b"anybody?"));
    let answer = peer.receive();
    // ICMP destination unreachable, port unreachable (RFC 792).
    let ip = Ipv4View::new(&answer[HEADER_LEN..]).unwrap();
    assert_eq!((ip.header().protocol(), &ip.payload()[..2]), (1, &[3, 3][..]));
}

#[test]
fn two_stacks_cannot_have_one_control_socket() {
    let first = config();
    let second = first.clone();
    let (stack, _peer) = start(first);
    let error = try_start(second).map(drop).unwrap_err();
    assert!(matches!(error, StartError::Control(_)), "{error}");
    assert!(error.to_string().contains("memory0"), "{error}");
    drop(stack);
}

#[test]
fn every_frame_comes_home_when_a_stack_has_stopped() {
    let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    let (ours, mut theirs) = pair(&MemoryConfig::default()).unwrap();
    let queue = theirs.take_queues().remove(0);
    let mut peer = Peer { queue, cache: pool.cache() };
    let stack = Stack::start_on(vec![Box::new(ours)], pool.clone(), config()).unwrap();
    for _ in 0..100 {
        peer.echo(b"there and back");
    }
    drop(stack);
    drop(peer);
    drop(theirs);
    assert_eq!(pool.available(), pool.frames());
}
