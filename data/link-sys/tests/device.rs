//! AF_XDP and the kernel on one device: sharing it, and leaving it clean.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use common::{
    Opened, PATIENCE, await_packet, config, open_left, opened, pool, receive, send, stays_away,
};
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{
    AfXdp, AfXdpConfig, Attach, Bare, OpenError, Queues, RingSizes, Share,
};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::{Buffer, Flags, PoolConfig};
use weever_testbed::{Fixture, Namespace, require_net_admin};

const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;

fn bound(namespace: &Namespace, address: Ipv4Addr) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((address, 0))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Whether the kernels at both ends can talk, within the time that a link needs to settle.
fn kernels_talk(net: &Fixture) -> bool {
    let (left, right) = (bound(&net.left, Fixture::LEFT), bound(&net.right, Fixture::RIGHT));
    left.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    right.set_nonblocking(true).unwrap();
    let end = Instant::now() + PATIENCE;
    let mut buffer = [0; 100];
    while Instant::now() < end {
        left.send_to(b"there", right.local_addr().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        while let Ok((_, from)) = right.recv_from(&mut buffer) {
            right.send_to(b"and back", from).unwrap();
        }
        if left.recv_from(&mut buffer).is_ok() {
            return true;
        }
    }
    false
}

fn is_udp_to(packet: &Buffer, address: Ipv4Addr) -> bool {
    let frame = packet.data();
    frame.len() >= 42
        && frame[12..14] == IPV4
        && frame[23] == UDP
        && frame[30..34] == address.octets()
}

fn assigned() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net.veth.right.add_neighbour(Fixture::LEFT, net.veth.left.mac).unwrap();
    net
}

/// The sum of all 16-bit words (RFC 1071), 0xffff if the checksum in it is right.
fn sum(words: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum = words.chunks(2).map(word).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// The pseudo-header of an IPv4 datagram (RFC 768) as a sum.
fn pseudo(ip: &[u8]) -> u32 {
    let length = u16::from_be_bytes([ip[24], ip[25]]).to_be_bytes();
    sum(&[&ip[12..20], &[0, UDP], &length].concat())
}

#[test]
fn datagrams_of_the_kernel_come_with_partial_checksums_and_are_flagged() {
    require_net_admin!();
    let net = assigned();
    let pool = pool(1024);
    let mut link = open_left(&net, &config("left0", &pool)).unwrap();
    assert!(link.info().partial_checksums, "a veth");
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let socket = bound(&net.right, Fixture::RIGHT);
    socket.send_to(&[0xa5; 101], (Fixture::LEFT, 9)).unwrap();
    let wanted = |packet: &Buffer| is_udp_to(packet, Fixture::LEFT);
    let packet = await_packet(&mut *queue, &mut cache, wanted).expect("the datagram");
    assert!(packet.meta().flags.has(Flags::MAY_BE_PARTIAL));
    let ip = &packet.data()[14..];
    assert_eq!(sum(&ip[..20]), 0xffff, "the header's own checksum is complete");
    let carried = u32::from(u16::from_be_bytes([ip[26], ip[27]]));
    assert_eq!(carried, pseudo(ip), "veth leaves it to a device that never comes");
}

#[test]
fn without_sharing_the_kernel_gets_nothing() {
    require_net_admin!();
    let net = assigned();
    let Opened { mut queue, mut cache, .. } = opened(&net, 1024);
    let kernel = bound(&net.left, Fixture::LEFT);
    kernel.set_nonblocking(true).unwrap();
    let socket = bound(&net.right, Fixture::RIGHT);
    socket.send_to(b"x", kernel.local_addr().unwrap()).unwrap();
    let wanted = |packet: &Buffer| is_udp_to(packet, Fixture::LEFT);
    assert!(await_packet(&mut *queue, &mut cache, wanted).is_some());
    assert!(kernel.recv_from(&mut [0; 10]).is_err());
}

#[test]
fn a_shared_device_gives_us_our_address_and_the_kernel_its_own() {
    require_net_admin!();
    let net = assigned();
    let ours = Ipv4Addr::new(10, 77, 0, 50);
    let later = Ipv4Addr::new(10, 77, 0, 51);
    for address in [ours, later] {
        net.veth.right.add_neighbour(address, net.veth.left.mac).unwrap();
    }
    let pool = pool(1024);
    let shared = AfXdpConfig { share: Share::Address(vec![ours.into()]), ..config("left0", &pool) };
    let mut link = open_left(&net, &shared).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    assert!(kernels_talk(&net), "the kernel's own traffic stays its own");
    assert!(receive(&mut *queue, &mut cache).is_empty(), "and none of it came to us");
    let socket = bound(&net.right, Fixture::RIGHT);
    let mut comes = |address: Ipv4Addr, expected: bool| {
        socket.send_to(b"hello", (address, 7)).unwrap();
        let wanted = |packet: &Buffer| is_udp_to(packet, address);
        match expected {
            true => await_packet(&mut *queue, &mut cache, wanted).is_some(),
            false => !stays_away(&mut *queue, &mut cache, wanted),
        }
    };
    assert!(comes(ours, true));
    assert!(!comes(later, false));
    link.steering().add_address(later).unwrap();
    assert!(comes(later, true));
    assert!(link.steering().remove_address(later).unwrap());
    assert!(!comes(later, false));
    let counters = link.steering().counters().unwrap();
    assert!(counters.redirected >= 2 && counters.passed >= 2, "{counters:?}");
}

#[test]
fn a_closed_link_leaves_the_device_to_the_kernel() {
    require_net_admin!();
    let net = assigned();
    let pool = pool(1024);
    for attach in [Attach::Native, Attach::Generic] {
        let how = AfXdpConfig { attach, ..config("left0", &pool) };
        let link = open_left(&net, &how).unwrap();
        let expected = if attach == Attach::Native { "native" } else { "generic" };
        assert_eq!(link.info().mode, format!("AF_XDP {expected}, copy mode"));
        drop(link);
        assert!(kernels_talk(&net));
        assert_eq!(pool.available(), pool.frames());
    }
}

#[test]
fn queues_dropped_under_fire_lose_no_frame() {
    require_net_admin!();
    let net = assigned();
    let pool = pool(1024);
    let socket = bound(&net.right, Fixture::RIGHT);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _refused = socket.send_to(&[0; 64], (Fixture::LEFT, 9));
            }
        });
        for _ in 0..10 {
            let mut link = open_left(&net, &config("left0", &pool)).unwrap();
            let (mut queues, mut cache) = (link.take_queues(), pool.cache());
            let wanted = |packet: &Buffer| is_udp_to(packet, Fixture::LEFT);
            let packet = await_packet(&mut *queues[0], &mut cache, wanted).expect("fire");
            send(&mut *queues[0], &mut cache, packet.data());
            drop((packet, queues, link, cache));
            assert_eq!(pool.available(), pool.frames());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_queue_can_be_waited_on() {
    require_net_admin!();
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let net = assigned();
    let Opened { mut queue, mut cache, .. } = opened(&net, 1024);
    while await_nothing(&mut *queue, &mut cache) {}
    let readable = |queue: &dyn LinkQueue, milliseconds: u64| {
        let fd = queue.fd().unwrap();
        let timeout = Timespec::try_from(Duration::from_millis(milliseconds)).unwrap();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    };
    assert!(!readable(&*queue, 10));
    bound(&net.right, Fixture::RIGHT).send_to(b"x", (Fixture::LEFT, 9)).unwrap();
    assert!(readable(&*queue, 5000));
    assert!(!receive(&mut *queue, &mut cache).is_empty());
}

/// Whether something still came.
fn await_nothing(queue: &mut dyn LinkQueue, cache: &mut weever_packet::PoolCache) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    !receive(queue, cache).is_empty()
}

#[test]
fn an_exhausted_pool_is_counted_by_the_device() {
    require_net_admin!();
    let net = assigned();
    let Opened { mut queue, mut cache, .. } = opened(&net, 128);
    let hoard: Vec<_> = std::iter::from_fn(|| cache.alloc()).collect();
    assert_eq!(hoard.len(), 64, "half of the pool is lent");
    let socket = bound(&net.right, Fixture::RIGHT);
    let mut kept = Vec::new();
    for _ in 0..200 {
        socket.send_to(b"x", (Fixture::LEFT, 9)).unwrap();
        kept.extend(receive(&mut *queue, &mut cache));
    }
    let end = Instant::now() + PATIENCE;
    while queue.stats().fill_empty == 0 && Instant::now() < end {}
    let stats = queue.stats();
    kept.extend(receive(&mut *queue, &mut cache));
    assert_eq!(kept.len(), 64, "{stats:?}");
    assert!(stats.fill_empty > 0 && stats.rx_dropped > 0, "{stats:?}");
    queue.advance(5_000_000_000);
    let relend = queue.next_deadline().expect("a worker that sleeps looks after the device");
    assert!((5_000_000_001..6_000_000_000).contains(&relend), "{relend}");
    drop((hoard, kept));
    let wanted = |packet: &Buffer| is_udp_to(packet, Fixture::LEFT);
    receive(&mut *queue, &mut cache);
    assert_eq!(queue.next_deadline(), None, "it has frames again");
    socket.send_to(b"x", (Fixture::LEFT, 9)).unwrap();
    assert!(await_packet(&mut *queue, &mut cache, wanted).is_some());
}

#[test]
fn queues_without_a_socket_stay_with_the_kernel() {
    require_net_admin!();
    let net = Fixture::pair(3).unwrap();
    let pool = pool(1024);
    let first = Queues::First(2);
    let some = AfXdpConfig { queues: first, ..config("left0", &pool) };
    let mut link = open_left(&net, &some).unwrap();
    assert_eq!((link.info().queues, link.take_queues().len()), (2, 2));
}

fn refusal(net: &Fixture, config: &AfXdpConfig) -> (OpenError, String) {
    let Err(error) = open_left(net, config) else { panic!("opened") };
    let text = error.to_string();
    (error, text)
}

#[test]
fn a_misspelt_interface_is_named_with_the_right_one() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let pool = pool(1024);
    let (error, text) = refusal(&net, &config("lefto", &pool));
    assert!(matches!(error, OpenError::Interface(_)));
    assert!(text.contains("lefto") && text.contains("did you mean left0"), "{text}");
}

#[test]
fn a_large_mtu_is_refused_with_the_remedy() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.veth.set_mtu(9000).unwrap();
    let pool = pool(1024);
    let (error, text) = refusal(&net, &config("left0", &pool));
    assert!(matches!(error, OpenError::Mtu { mtu: 9000, most: 1774, .. }), "{text}");
    assert!(text.contains("ip link set dev left0 mtu 1774"), "{text}");
    net.veth.set_mtu(1774).unwrap();
    drop(open_left(&net, &config("left0", &pool)).unwrap());
}

#[test]
fn large_frames_take_a_larger_mtu() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.veth.set_mtu(3000).unwrap();
    let large = PoolConfig { frames: 1024, frame_size: 4096, ..PoolConfig::default() };
    let pool = weever_packet::Pool::new(large).unwrap();
    let mut link = open_left(&net, &config("left0", &pool)).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let peer = net.right.run(|| PacketSocket::open("right0", Protocol::All)).unwrap();
    let mut frame = vec![0x5a; 3014];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    peer.send(&frame).unwrap();
    let got = await_packet(&mut *queue, &mut cache, |packet| packet.len() == 3014).unwrap();
    assert_eq!(got.data(), frame);
}

#[test]
fn a_device_is_opened_once_at_a_time() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    let pool = pool(1024);
    let impatient = AfXdpConfig { patience: Duration::from_millis(50), ..config("left0", &pool) };
    let first = open_left(&net, &impatient).unwrap();
    let (error, text) = refusal(&net, &impatient);
    assert!(matches!(error, OpenError::QueueBusy { queue: 0, .. }), "{text}");
    assert!(text.contains("left0") && text.contains("queue 0"), "{text}");
    drop(first);
    drop(open_left(&net, &config("left0", &pool)).unwrap());
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn another_xdp_program_is_not_pushed_aside() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let pool = pool(1024);
    let program = weever_ebpf::xdp::pass().unwrap();
    let index = net.veth.left.index;
    let theirs = net.left.run(|| weever_ebpf::sys::XdpLink::attach(&program, index)).unwrap();
    let impatient = AfXdpConfig { patience: Duration::from_millis(50), ..config("left0", &pool) };
    let (error, text) = refusal(&net, &impatient);
    assert!(matches!(error, OpenError::OtherProgram { .. }), "{text}");
    assert!(text.contains("ip link set dev left0 xdp off"), "{text}");
    assert_eq!(pool.available(), pool.frames(), "nothing of the attempt is left");
    // Within its patience it waits for the other one to go.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            drop(theirs);
        });
        drop(open_left(&net, &config("left0", &pool)).unwrap());
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    require_net_admin!();
    let net = Fixture::pair(4).unwrap();
    let small = pool(64);
    let (error, text) = refusal(&net, &config("left0", &small));
    assert!(matches!(error, OpenError::PoolTooSmall { needed: 512, frames: 64, .. }), "{text}");
    let rings = RingSizes { tx: 1000, ..RingSizes::default() };
    let odd = AfXdpConfig { rings, ..config("left0", &pool(1024)) };
    let (error, text) = refusal(&net, &odd);
    assert!(matches!(error, OpenError::RingSize { ring: "tx", size: 1000 }), "{text}");
}

#[test]
fn a_removed_device_is_noticed_by_a_queue_that_is_seldom_polled() {
    require_net_admin!();
    let net = assigned();
    let Opened { mut queue, mut cache, .. } = opened(&net, 1024);
    while await_nothing(&mut *queue, &mut cache) {}
    net.left.delete_link("left0").unwrap();
    let gone = (0..5).any(|_| {
        assert!(queue.fd().is_some(), "as for a wait");
        std::thread::sleep(Duration::from_millis(300));
        queue.rx(&mut cache, &mut weever_packet::Burst::new(), 64).is_err()
    });
    assert!(gone);
}

#[test]
fn without_capabilities_it_says_which_are_needed() {
    require_net_admin!();
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let net = Fixture::pair(1).unwrap();
    let pool = pool(1024);
    let attempt = net.left.run(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        // Of this thread, which ends after it.
        set_capabilities(None, sets).unwrap();
        AfXdp::open(&config("left0", &pool))
    });
    let Err(error) = attempt else { panic!("opened") };
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn what_links_are_measured_against_works() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let pool = pool(256);
    let mut bare = net.left.run(|| Bare::open(&config("left0", &pool))).unwrap();
    let peer = net.right.run(|| PacketSocket::open("right0", Protocol::EtherType(0x88b5))).unwrap();
    let mut frame = [0xff; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let awaited = |step: &mut dyn FnMut() -> usize| {
        let (end, mut seen) = (Instant::now() + PATIENCE, 0);
        while seen < 30 && Instant::now() < end {
            seen += step();
        }
        seen
    };
    // More than there are frames, so that they have to go round.
    for number in 0..20u8 {
        frame[20] = number;
        (0..30).for_each(|_| peer.send(&frame).unwrap());
        assert!(awaited(&mut || bare.receive_and_drop()) >= 30);
        (0..30).for_each(|_| peer.send(&frame).unwrap());
        assert!(awaited(&mut || bare.echo(|packet| packet[21] ^= 0xff)) >= 30);
        let mut back = [0; 100];
        for _ in 0..30 {
            let length = peer.receive(&mut back, PATIENCE).unwrap();
            assert_eq!((length, back[20], back[21]), (Some(60), number, 0));
        }
    }
    drop(bare);
    assert_eq!(pool.available(), pool.frames());
}
