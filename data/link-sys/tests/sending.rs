//! AF_XDP sends: packets and their frames when the device does not take them.

#![expect(
    unsafe_code,
    reason = "a system call is made to fail by the kernel's filters of system calls"
)]

mod common;

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use common::{Opened, PATIENCE, config, open_left, opened, pool};
use libc::{SYS_sendto, c_int};
use weever_link::{Link, LinkError, LinkQueue};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::{Buffer, Burst, PoolCache};
use weever_testbed::{Fixture, require_net_admin};

fn packet(cache: &mut PoolCache) -> Buffer {
    let mut packet = cache.alloc().unwrap();
    assert!(packet.append(&[0xff; 60]));
    packet
}

#[test]
fn packets_from_another_pool_are_sent_too() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let (own, other) = (pool(1024), pool(64));
    let mut link = open_left(&net, &config("left0", &own)).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), own.cache());
    let witness = net.right.run(|| PacketSocket::open("right0", Protocol::EtherType(0x88b5)));
    let mut stranger = other.cache().alloc().unwrap();
    stranger.append(&[0xff; 12]);
    stranger.append(&[0x88, 0xb5, 1, 2, 3]);
    let sent = stranger.data().to_vec();
    queue.tx(&mut cache, &mut [stranger].into()).unwrap();
    queue.flush(&mut cache).unwrap();
    let mut frame = [0; 100];
    let length = witness.unwrap().receive(&mut frame, PATIENCE).unwrap().unwrap();
    assert_eq!(frame[..length], sent);
    assert_eq!(other.available(), 64, "the frame went home");
    assert_eq!(queue.stats().tx_copied, 1);
    // A worker whose own packets are made in another pool receives into the queue's all the same.
    let mut cache = other.cache();
    assert_eq!(queue.rx(&mut cache, &mut Burst::new(), 64).unwrap(), 0);
    assert_eq!((other.available(), queue.stats().bad_returns), (64, 0));
}

#[test]
fn a_device_set_down_drops_what_is_to_be_sent_and_goes_on_when_it_is_up() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let Opened { mut queue, mut cache, .. } = opened(&net, 1024);
    net.left.set_down("left0").unwrap();
    let mut packets = [packet(&mut cache)].into();
    queue.tx(&mut cache, &mut packets).unwrap();
    queue.flush(&mut cache).unwrap();
    assert!(!queue.unsent(), "its worker may sleep");
    let retry = queue.next_deadline().unwrap();
    let mut packets: VecDeque<_> = (0..5).map(|_| packet(&mut cache)).collect();
    assert_eq!(queue.tx(&mut cache, &mut packets).unwrap(), 5);
    assert_eq!((queue.stats().tx_packets, queue.stats().tx_dropped), (1, 5));
    // Not up in time for the next attempt.
    queue.advance(retry);
    queue.flush(&mut cache).unwrap();
    assert!(queue.next_deadline().is_some_and(|next| next > retry));
    net.left.set_up("left0").unwrap();
    queue.advance(queue.next_deadline().unwrap());
    queue.flush(&mut cache).unwrap();
    assert_eq!(queue.next_deadline(), None);
    send_many(&mut *queue, &mut cache, 3);
    assert_eq!((queue.stats().tx_packets, queue.stats().tx_dropped), (4, 5));
}

/// Packets for which the kernel has no room now stay in the ring, of which nothing is counted as lost. A device that
/// is gone ends the queue.
#[test]
fn packets_whose_sending_failed_for_now_stay_in_the_ring_and_are_sent_later() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let Opened { mut queue, mut cache, link: _link, .. } = opened(&net, 1024);
    let witness = net.right.run(|| PacketSocket::open("right0", Protocol::EtherType(0x88b5)));
    let numbered = |cache: &mut PoolCache, number: u8| {
        let mut packet = cache.alloc().unwrap();
        assert!(packet.append(&[0xff; 12]) && packet.append(&[0x88, 0xb5, number]));
        packet
    };
    let mut packets: VecDeque<_> = (0..3).map(|number| numbered(&mut cache, number)).collect();
    assert_eq!(queue.tx(&mut cache, &mut packets).unwrap(), 3);
    for errno in [libc::ENOMEM, libc::ENOBUFS, libc::EAGAIN, libc::EINTR] {
        flush_failing(errno, &mut *queue, &mut cache).unwrap();
        assert!(queue.unsent(), "{errno}");
        assert_eq!(queue.stats().tx_dropped, 0, "{errno}");
    }
    queue.flush(&mut cache).unwrap();
    assert!(!queue.unsent());
    let witness = witness.unwrap();
    for number in 0..3 {
        let mut frame = [0; 100];
        witness.receive(&mut frame, PATIENCE).unwrap().unwrap();
        assert_eq!(frame[14], number);
    }
    let mut packets = [numbered(&mut cache, 3)].into();
    queue.tx(&mut cache, &mut packets).unwrap();
    let gone = flush_failing(libc::ENXIO, &mut *queue, &mut cache);
    assert!(matches!(gone, Err(LinkError::Gone { .. })), "{gone:?}");
}

/// Flushes on a thread whose `sendto` fails with this error.
fn flush_failing(
    errno: c_int,
    queue: &mut dyn LinkQueue,
    cache: &mut PoolCache,
) -> Result<(), LinkError> {
    let flushed = || {
        fail_sendto(errno);
        queue.flush(cache)
    };
    thread::scope(|scope| scope.spawn(flushed).join().unwrap())
}

/// From now on each `sendto` of the calling thread fails.
fn fail_sendto(errno: c_int) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYS_sendto as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: plain numbers; the program and its steps outlive the calls, which only read them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// Sends `n` frames as far as the queue takes them, for no longer than there is patience.
fn send_many(queue: &mut dyn LinkQueue, cache: &mut PoolCache, n: usize) {
    let end = Instant::now() + PATIENCE;
    let mut packets: VecDeque<_> = (0..n).map(|_| packet(cache)).collect();
    while (queue.unsent() || !packets.is_empty()) && Instant::now() < end {
        queue.tx(cache, &mut packets).unwrap();
        queue.flush(cache).unwrap();
    }
    assert!(packets.is_empty() && !queue.unsent(), "{} packets are left", packets.len());
}

/// A device without a carrier refuses every packet: its frame comes back, but the kernel does not
/// say by the transmit ring that it was taken.
#[test]
fn packets_that_the_device_refuses_are_counted_and_lose_no_frame() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let Opened { link, mut queue, pool, mut cache } = opened(&net, 1024);
    net.right.set_down("right0").unwrap();
    send_many(&mut *queue, &mut cache, 300);
    let stats = queue.stats();
    assert_eq!((stats.tx_packets, stats.tx_dropped), (300, 300), "{stats:?}");
    net.right.set_up("right0").unwrap();
    send_many(&mut *queue, &mut cache, 300);
    assert_eq!(queue.stats().tx_packets, 600);
    // Again without a carrier, and dropped before the kernel has reported the packets it took.
    net.right.set_down("right0").unwrap();
    let mut packets: VecDeque<_> = (0..100).map(|_| packet(&mut cache)).collect();
    queue.tx(&mut cache, &mut packets).unwrap();
    queue.flush(&mut cache).unwrap();
    assert!(queue.unsent(), "one call does not throw all of them away");
    drop((queue, link, cache, packets));
    assert_eq!(pool.available(), pool.frames());
    let mut cache = pool.cache();
    let all: Vec<_> = std::iter::from_fn(|| cache.alloc()).collect();
    let indices: std::collections::HashSet<_> = all.iter().map(Buffer::index).collect();
    assert_eq!(indices.len(), pool.frames(), "each frame once");
}

#[test]
fn what_a_device_that_is_down_cannot_send_is_not_given_to_others() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let Opened { link, mut queue, pool, mut cache } = opened(&net, 1024);
    net.left.set_down("left0").unwrap();
    let mut packets = [packet(&mut cache)].into();
    queue.tx(&mut cache, &mut packets).unwrap();
    drop((queue, link, cache));
    assert_eq!(pool.available(), pool.frames() - 1, "the one that is not known to be free");
}
