//! Frames for every station, which the kernel receives and the stack hears.

mod common;

use std::time::{Duration, Instant};

use common::{config, pool, receive};
use nix::poll::{PollFd, PollFlags, poll};
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, Share};
use weever_link_sys::overhear::overhear;
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::PoolCache;
use weever_testbed::{Fixture, require_net_admin};

const ALL_NODES: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const ALL_HOSTS: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
const PATIENCE: Duration = Duration::from_secs(10);

/// A frame of an experimental EtherType, which no kernel answers.
fn frame(to: [u8; 6], tag: &[u8], number: u8) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 9], tag, &[0x88, 0xb5], &[number; 60]].concat()
}

/// The next frame of the experimental EtherType.
fn next(queue: &mut dyn LinkQueue, cache: &mut PoolCache, now: &mut u64) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        *now += 10_000_000;
        queue.advance(*now);
        for packet in receive(queue, cache) {
            let frame = packet.data().to_vec();
            let (meta, head) = (*packet.meta(), packet.head());
            cache.free(packet);
            if frame.windows(2).any(|pair| pair == [0x88, 0xb5]) {
                assert_eq!((meta.l2, meta.queue), (head, 0));
                return frame;
            }
        }
    }
    panic!("nothing was heard")
}

#[test]
fn what_is_for_all_is_heard_by_the_kernel_and_by_the_stack() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    // Otherwise the tag goes past an XDP program, beside the frame.
    net.right.set_feature("right0", "tx-vlan-hw-insert", false).unwrap();
    let pool = pool(1024);
    let share = Share::Address(vec!["10.0.0.1".parse().unwrap()]);
    let settings = AfXdpConfig { share, ..config("left0", &pool) };
    let mut link = net.left.run(|| overhear(AfXdp::open(&settings).unwrap())).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let kernel = net.left.run(|| PacketSocket::open("left0", Protocol::All)).unwrap();
    let peer = net.right.run(|| PacketSocket::open("right0", Protocol::All)).unwrap();
    let mut now = 0;
    let others = [[0x33, 0x33, 0, 0, 0, 2], [1, 0, 0x5e, 0, 0, 2], [0xff; 6], [2, 0, 0, 0, 0, 1]];
    let sent = [
        frame(ALL_NODES, &[], 1),
        frame(ALL_HOSTS, &[], 2),
        frame(ALL_NODES, &[0x81, 0, 0, 5], 3),
        frame(ALL_NODES, &[], 4),
    ];
    for one in &sent {
        // First the frames that are not for all: they would arrive first.
        others.iter().for_each(|to| peer.send(&frame(*to, &[], 9)).unwrap());
        peer.send(one).unwrap();
        assert_eq!(next(&mut *queue, &mut cache, &mut now), *one);
    }
    let (mut seen, mut room) = (0, [0; 2000]);
    while let Some(n) = kernel.receive(&mut room, Duration::from_millis(200)).unwrap() {
        seen += usize::from(room[..n].ends_with(&[4; 60]) && room[..6] == ALL_NODES);
    }
    assert_eq!(seen, 1, "the kernel has not got it");
    assert_eq!(queue.stats().rx_packets, 4);
}

/// A thread that sleeps on the queue's descriptor wakes for overheard frames.
#[test]
fn it_can_be_waited_for() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let pool = pool(1024);
    let settings = AfXdpConfig { share: Share::Address(Vec::new()), ..config("left0", &pool) };
    let mut link = net.left.run(|| overhear(AfXdp::open(&settings).unwrap())).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let peer = net.right.run(|| PacketSocket::open("right0", Protocol::All)).unwrap();
    let sent = frame(ALL_NODES, &[], 1);
    peer.send(&sent).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let fd = queue.fd().unwrap();
        assert_eq!(poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], 10_000u16).unwrap(), 1);
        // Without a word about the time.
        let got: Vec<Vec<u8>> = receive(&mut *queue, &mut cache)
            .into_iter()
            .map(|packet| {
                let frame = packet.data().to_vec();
                cache.free(packet);
                frame
            })
            .collect();
        if got.contains(&sent) {
            return;
        }
        assert!(Instant::now() < end);
    }
}
