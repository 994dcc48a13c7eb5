//! Several sockets on one device queue: each with a worker of its own, none in the others' way.

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::{PATIENCE, XdpPeer, all_to, config, open_left, pool, receive, send};
use weever_ebpf::xdp::classify::{Field, Rule, Target, Test};
use weever_link::conformance::{ETHERTYPE, Peer};
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, OpenError, Steering};
use weever_packet::{Pool, PoolCache};
use weever_testbed::{Fixture, require_net_admin};

/// A link with sockets on one device queue.
struct Opened {
    queues: Vec<Box<dyn LinkQueue>>,
    steering: Arc<Steering>,
    peer: XdpPeer,
    pool: Pool,
    cache: PoolCache,
    _link: AfXdp,
    net: Fixture,
}

fn opened(sockets: u16) -> Opened {
    opened_with(sockets, 4096)
}

fn opened_with(sockets: u16, frames: u32) -> Opened {
    let (net, pool) = (Fixture::pair(1).unwrap(), pool(frames));
    let config = AfXdpConfig { sockets_per_queue: sockets, ..config("left0", &pool) };
    let mut link = open_left(&net, &config).unwrap();
    assert_eq!(link.info().queues, sockets);
    let (queues, steering) = (link.take_queues(), Arc::clone(link.steering()));
    let (peer, cache) = (XdpPeer::new(&net), pool.cache());
    Opened { queues, steering, peer, pool, cache, _link: link, net }
}

/// A frame of the suite's kind in a VLAN, by which it is sorted.
fn frame(vlan: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x81, 0]);
    frame.extend(vlan.to_be_bytes());
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend([7; 60]);
    frame
}

fn of_vlan(vlan: u16, socket: u32) -> Rule {
    Rule { tests: vec![Test::exact(Field::Vlan, vlan.into())], target: Target::Queue(socket) }
}

impl Opened {
    fn send(&mut self, vlan: u16) {
        let end = Instant::now() + PATIENCE;
        while !self.peer.send(0, &frame(vlan)) {
            assert!(Instant::now() < end, "the peer cannot send");
        }
    }

    /// How many frames of the VLAN one of the sockets gets until it has `n`.
    fn gets(&mut self, socket: usize, vlan: u16, n: usize) -> usize {
        let (end, mut got) = (Instant::now() + PATIENCE, 0);
        while got < n && Instant::now() < end {
            for packet in receive(&mut *self.queues[socket], &mut self.cache) {
                got += usize::from(packet.data()[14..16] == vlan.to_be_bytes());
                self.cache.free(packet);
            }
        }
        got
    }
}

#[test]
fn with_one_socket_for_each_queue_the_device_decides_and_filters_may_still_drop() {
    require_net_admin!();
    let (net, pool) = (Fixture::pair(2).unwrap(), pool(4096));
    let config = AfXdpConfig { classifies: true, ..config("left0", &pool) };
    let mut link = open_left(&net, &config).unwrap();
    assert_eq!(link.info().queues, 2);
    let (queues, steering) = (link.take_queues(), Arc::clone(link.steering()));
    let (peer, cache) = (XdpPeer::new(&net), pool.cache());
    let mut link = Opened { queues, steering, peer, pool, cache, _link: link, net };
    for queue in [0usize, 1, 0] {
        while !link.peer.send(queue as u16, &frame(3)) {}
        assert_eq!(link.gets(queue, 3, 1), 1);
        assert!(receive(&mut *link.queues[1 - queue], &mut link.cache).is_empty());
    }
    let rule = Rule { target: Target::Drop, ..of_vlan(4, 0) };
    link.steering.classifier().unwrap().lock().unwrap().insert(&rule).unwrap();
    for vlan in [4, 5] {
        while !link.peer.send(1, &frame(vlan)) {}
    }
    let end = Instant::now() + PATIENCE;
    let mut got = Vec::new();
    while got.is_empty() && Instant::now() < end {
        got = receive(&mut *link.queues[1], &mut link.cache);
    }
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].data()[14..16], 5u16.to_be_bytes());
    got.into_iter().for_each(|packet| link.cache.free(packet));
}

#[test]
fn a_filter_moves_from_socket_to_socket_and_no_frame_is_lost() {
    require_net_admin!();
    let mut link = opened(2);
    for socket in [1u32, 0, 1] {
        let is_new = link
            .steering
            .classifier()
            .unwrap()
            .lock()
            .unwrap()
            .insert(&of_vlan(5, socket))
            .unwrap();
        for _ in 0..20 {
            link.send(5);
        }
        assert_eq!(link.gets(socket as usize, 5, 20), 20, "new program: {is_new}");
        assert!(receive(&mut *link.queues[1 - socket as usize], &mut link.cache).is_empty());
    }
}

#[test]
fn a_socket_that_nobody_empties_does_not_starve_the_other() {
    require_net_admin!();
    // All that is lent would fit one ring of the size that was asked for.
    let mut link = opened_with(2, 512);
    link.steering.classifier().unwrap().lock().unwrap().insert(&of_vlan(5, 1)).unwrap();
    for _ in 0..2000 {
        link.send(6);
    }
    let before = link.queues[0].stats();
    assert!(before.rx_dropped > 0, "its ring is full: {before:?}");
    for _ in 0..50 {
        for _ in 0..20 {
            link.send(5);
        }
        assert_eq!(link.gets(1, 5, 20), 20);
    }
    assert_eq!(link.queues[1].stats().rx_dropped, 0);
}

#[test]
fn closing_one_leaves_the_others_at_work_and_no_frame_behind() {
    require_net_admin!();
    // The first one has made the rings that all of them use.
    for closed in [0, 1, 2] {
        let mut link = opened(3);
        let frames = link.pool.frames();
        for (socket, queue) in link.queues.iter_mut().enumerate() {
            let peers = frame(socket as u16);
            assert!(send(&mut **queue, &mut link.cache, &peers));
        }
        all_to(&link.steering, closed);
        for _ in 0..20 {
            link.send(9);
        }
        drop(link.queues.remove(usize::from(closed)));
        for (at, socket) in (0u16..3).filter(|socket| *socket != closed).enumerate() {
            all_to(&link.steering, socket);
            // More than the device was ever lent at once.
            for round in 0..20 {
                for _ in 0..20 {
                    link.send(9);
                }
                assert_eq!(link.gets(at, 9, 20), 20, "{closed} closed, {socket} round {round}");
                assert!(send(&mut *link.queues[at], &mut link.cache, &frame(3)));
            }
        }
        let Opened { queues, pool, cache, net, peer, .. } = link;
        drop(queues);
        drop(cache);
        assert_eq!(pool.available(), frames, "all frames are home");
        drop((peer, net));
    }
}

#[test]
fn a_pool_that_is_too_small_for_all_sockets_is_refused() {
    require_net_admin!();
    let (net, pool) = (Fixture::pair(1).unwrap(), pool(256));
    let config = AfXdpConfig { sockets_per_queue: 4, ..config("left0", &pool) };
    let Err(error) = open_left(&net, &config) else { panic!("opened") };
    assert!(matches!(error, OpenError::PoolTooSmall { queues: 4, needed: 512, .. }), "{error}");
}
