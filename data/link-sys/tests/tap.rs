//! TAP interfaces against the kernel's own stack at the other end of the cable.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_link::conformance::{ETHERTYPE, Peer, Setup, suite};
use weever_link::{Link, LinkError, LinkQueue};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_link_sys::tap::{Tap, TapConfig, TapError};
use weever_packet::{Buffer, Burst, Flags, Pool, PoolCache, PoolConfig};
use weever_testbed::{Namespace, require_net_admin};

mod common;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
const PORT: u16 = 4000;

/// The kernel's end: a packet socket on the interface.
struct KernelEnd {
    socket: PacketSocket,
    namespace: Namespace,
    buffer: Vec<u8>,
}

impl Peer for KernelEnd {
    fn send(&mut self, _: u16, frame: &[u8]) -> bool {
        self.socket.send(frame).is_ok()
    }

    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)> {
        let length = self.socket.receive(&mut self.buffer, Duration::from_millis(100)).unwrap()?;
        Some((None, self.buffer[..length].to_vec()))
    }

    fn leave(&mut self) -> bool {
        self.namespace.delete_link("tap0").unwrap();
        true
    }
}

fn in_namespace(config: TapConfig) -> (Namespace, Tap) {
    let namespace = Namespace::new().unwrap();
    let tap = namespace.run(|| Tap::open(&config)).unwrap();
    (namespace, tap)
}

#[test]
fn tap_conforms() {
    require_net_admin!();
    suite(|| {
        let (namespace, tap) = in_namespace(TapConfig::new("tap0"));
        let open = || PacketSocket::open("tap0", Protocol::EtherType(ETHERTYPE));
        let socket = namespace.run(open).unwrap();
        socket.set_receive_buffer(8 << 20).unwrap();
        let peer = KernelEnd { socket, namespace, buffer: vec![0; 65536] };
        Setup { link: Box::new(tap), pool: common::pool(1024), peer: Box::new(peer) }
    });
}

/// A TAP with addresses at the kernel's end, where our end is a known neighbour.
struct Host {
    namespace: Namespace,
    tap: Tap,
    queues: Vec<Box<dyn LinkQueue>>,
    pool: Pool,
    cache: PoolCache,
}

fn host(config: TapConfig) -> Host {
    let (namespace, mut tap) = in_namespace(config);
    let name = tap.info().name.clone();
    namespace.add_address(&name, KERNEL, 24).unwrap();
    namespace.add_neighbour(&name, OURS, tap.info().mac).unwrap();
    let pool = common::pool(1024);
    Host { namespace, queues: tap.take_queues(), tap, cache: pool.cache(), pool }
}

impl Host {
    fn socket(&self, port: u16) -> UdpSocket {
        self.namespace.run(|| UdpSocket::bind((KERNEL, port))).unwrap()
    }

    /// Waits for `n` UDP packets on any queue, and says on which each came.
    fn await_udp(&mut self, n: usize) -> Vec<(usize, Buffer)> {
        let (mut found, end) = (Vec::new(), Instant::now() + Duration::from_secs(5));
        while found.len() < n && Instant::now() < end {
            for (index, queue) in self.queues.iter_mut().enumerate() {
                let mut burst = Burst::new();
                let got = queue.rx(&mut self.cache, &mut burst, 64).unwrap();
                for packet in (0..got).filter_map(|slot| burst.take(slot)) {
                    let frame = packet.data();
                    if frame.len() >= 42 && frame[12..14] == [8, 0] && frame[23] == 17 {
                        found.push((index, packet));
                    }
                }
            }
        }
        assert_eq!(found.len(), n, "datagrams that arrived");
        found
    }

    /// A datagram from us to the kernel's port, its checksum partial.
    fn datagram(&self, pool: &Pool, payload: &[u8]) -> Buffer {
        let from = (self.tap.info().mac, OURS);
        let to = (self.tap.interface().mac, KERNEL);
        let frame = common::partial_datagram(&common::Ends { from, to, port: PORT }, payload);
        let mut packet = pool.alloc().unwrap();
        assert!(packet.append(&frame));
        packet.meta_mut().flags = Flags::PARTIAL_CHECKSUM;
        packet
    }

    fn send(&mut self, packet: Buffer) {
        let mut packets = VecDeque::from([packet]);
        self.queues[0].tx(&mut self.cache, &mut packets).unwrap();
        self.queues[0].flush(&mut self.cache).unwrap();
    }
}

fn payload_of(packet: &Buffer) -> Vec<u8> {
    let frame = packet.data();
    let length = u16::from_be_bytes([frame[38], frame[39]]) as usize;
    frame[42..34 + length].to_vec()
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

#[test]
fn datagrams_go_both_ways_with_partial_checksums() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap%d"));
    assert_eq!(host.tap.info().name, "tap0", "the first free number");
    let socket = host.socket(PORT);
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for len in [0, 1, 100, 1472] {
        socket.send_to(&bytes(len), (OURS, PORT)).unwrap();
        let (_, packet) = host.await_udp(1).remove(0);
        assert_eq!(payload_of(&packet), bytes(len));
        assert!(packet.meta().flags.has(Flags::PARTIAL_CHECKSUM), "left to the device");
        host.cache.free(packet);

        let packet = host.datagram(&host.pool, &bytes(len));
        host.send(packet);
        let mut received = [0; 2000];
        let (n, from) = socket.recv_from(&mut received).expect("the kernel completed it");
        assert_eq!((&received[..n], from), (&bytes(len)[..], SocketAddr::from((OURS, PORT))));
    }
}

#[test]
fn a_checksum_that_is_not_partial_has_to_be_right() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    let socket = host.socket(PORT);
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut packet = host.datagram(&host.pool, b"wrong");
    packet.meta_mut().flags = Flags::NONE;
    host.send(packet);
    assert!(socket.recv(&mut [0; 100]).is_err(), "the kernel drops a wrong checksum");
}

/// The data of one call are cut into datagrams of that size.
fn segmented(socket: &UdpSocket, size: i32) {
    use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
    setsockopt(socket, UdpGsoSegment, &size).unwrap();
}

#[test]
fn what_the_kernel_leaves_uncut_is_cut_here() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    assert!(host.tap.info().mode.contains("segments"), "{}", host.tap.info().mode);
    let socket = host.socket(PORT);
    segmented(&socket, 1000);
    let sent = bytes(20_500);
    socket.send_to(&sent, (OURS, PORT)).unwrap();
    let packets = host.await_udp(21);
    let joined: Vec<u8> = packets.iter().flat_map(|(_, packet)| payload_of(packet)).collect();
    assert_eq!(joined, sent);
    for (_, packet) in &packets {
        assert_eq!(
            common::sum(&packet.data()[14..34]),
            0xffff,
            "the IPv4 header's checksum is right"
        );
    }
}

#[test]
fn what_we_leave_uncut_the_kernel_cuts() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    let socket = host.socket(PORT);
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let sent = bytes(20_500);
    let mut packet = host.datagram(&large, &sent);
    packet.meta_mut().segment = 1000;
    host.send(packet);
    let (mut received, mut buffer) = (Vec::new(), [0; 2000]);
    while received.len() < sent.len() {
        let n = socket.recv(&mut buffer).expect("a datagram");
        assert!(n <= 1000, "{n} bytes");
        received.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(received, sent);
    let too_long = host.datagram(&large, &sent);
    host.send(too_long);
    assert_eq!(host.queues[0].stats().tx_dropped, 1, "without a segment it is too long");
}

#[test]
fn flows_spread_over_queues_and_every_queue_sends() {
    require_net_admin!();
    let mut host = host(TapConfig { queues: 4, ..TapConfig::new("tap0") });
    assert_eq!(host.queues.len(), 4);
    let sockets: Vec<_> = (0..64).map(|i| host.socket(5000 + i)).collect();
    for socket in &sockets {
        socket.send_to(b"hello", (OURS, PORT)).unwrap();
    }
    let packets = host.await_udp(64);
    let used: std::collections::BTreeSet<_> = packets.iter().map(|(queue, _)| *queue).collect();
    assert!(used.len() > 1, "64 flows came on queue {used:?} alone");
    assert!(packets.iter().all(|(queue, packet)| packet.meta().queue as usize == *queue));
    let receiver = host.socket(PORT);
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for queue in 0..4 {
        let mut packets = VecDeque::from([host.datagram(&host.pool, &[queue as u8])]);
        host.queues[queue].tx(&mut host.cache, &mut packets).unwrap();
        host.queues[queue].flush(&mut host.cache).unwrap();
        let mut byte = [0];
        receiver.recv(&mut byte).unwrap();
        assert_eq!(byte[0] as usize, queue);
    }
}

#[test]
fn a_wait_ends_when_a_packet_comes() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    let socket = host.socket(PORT);
    let mut burst = Burst::new();
    while host.queues[0].rx(&mut host.cache, &mut burst, 64).unwrap() > 0 {
        burst = Burst::new();
    }
    socket.send_to(b"wake up", (OURS, PORT)).unwrap();
    let fd = host.queues[0].fd().expect("a TAP can be waited on");
    let timeout = Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap(), 1);
}

#[test]
fn an_interface_that_is_down_drops_and_one_that_is_gone_says_so() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    host.namespace.set_down("tap0").unwrap();
    let packet = host.datagram(&host.pool, b"nobody hears");
    host.send(packet);
    assert_eq!((host.queues[0].stats().tx_packets, host.queues[0].stats().tx_dropped), (0, 1));
    host.namespace.set_up("tap0").unwrap();
    host.namespace.delete_link("tap0").unwrap();
    let gone = host.queues[0].rx(&mut host.cache, &mut Burst::new(), 64).unwrap_err();
    assert!(matches!(gone, LinkError::Gone { .. }), "{gone}");
}

#[test]
fn mtu_owner_persistence_and_carrier() {
    require_net_admin!();
    let stays = TapConfig {
        mtu: Some(1280),
        persistent: Some(true),
        owner: Some(0),
        mac: Some([2, 3, 4, 5, 6, 7]),
        ..TapConfig::new("keep0")
    };
    let (namespace, tap) = in_namespace(stays.clone());
    assert_eq!((tap.info().mtu, tap.info().mac), (1280, [2, 3, 4, 5, 6, 7]));
    for plugged_in in [false, true] {
        tap.set_carrier(plugged_in).unwrap();
        assert_eq!(namespace.link("keep0").unwrap().running, plugged_in);
    }
    let again = namespace.run(|| Tap::open(&stays)).unwrap_err();
    assert!(matches!(again, TapError::Busy { .. }), "{again}");
    drop(tap);
    assert!(namespace.link("keep0").is_ok(), "it stays");
    let goes = TapConfig { persistent: Some(false), mtu: None, ..stays };
    let tap = namespace.run(|| Tap::open(&goes)).unwrap();
    assert_eq!(tap.info().mtu, 1280, "as it was left");
    drop(tap);
    assert!(namespace.link("keep0").is_err(), "it goes");
}

#[test]
fn what_cannot_be_had_is_explained() {
    require_net_admin!();
    let namespace = Namespace::new().unwrap();
    let text = |config: TapConfig| namespace.run(|| Tap::open(&config)).unwrap_err().to_string();
    assert!(text(TapConfig::new("a/b")).contains("no name for an interface"));
    assert!(text(TapConfig::new("much-too-long-a-name")).contains("no name for an interface"));
    let none = TapConfig { queues: 0, ..TapConfig::new("tap0") };
    assert!(text(none).contains("1 to 256"));
    let lo = text(TapConfig::new("lo"));
    assert!(lo.contains("no TAP interface"), "{lo}");
}

/// IPv6 segments, which differ by more than their length field.
#[test]
fn datagrams_of_the_other_family_are_cut_too() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    let (ours, group) = (host.tap.info().mac, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x99));
    // The testbed's namespaces are without IPv6 until asked.
    for (setting, value) in [("accept_dad", "0"), ("disable_ipv6", "0")] {
        host.namespace.sysctl(&format!("net/ipv6/conf/tap0/{setting}"), value).unwrap();
    }
    let index = host.namespace.link("tap0").unwrap().index;
    let socket = host.namespace.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    segmented(&socket, 1200);
    let sent = bytes(6_000);
    let to = std::net::SocketAddrV6::new(group, PORT, 0, index);
    let end = Instant::now() + Duration::from_secs(5);
    // The link-local address is tentative for a while.
    while let Err(error) = socket.send_to(&sent, to) {
        assert!(Instant::now() < end, "no link-local address for {ours:?}: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut joined = Vec::new();
    while joined.len() < sent.len() {
        assert!(Instant::now() < end, "{} bytes came", joined.len());
        for packet in common::receive(&mut *host.queues[0], &mut host.cache) {
            let frame = packet.data();
            if frame[12..14] == [0x86, 0xdd] && frame[20] == 17 {
                assert_eq!(frame.len() - 54, u16::from_be_bytes([frame[18], frame[19]]) as usize);
                joined.extend_from_slice(&frame[62..]);
            }
            host.cache.free(packet);
        }
    }
    assert_eq!(joined, sent);
}

/// A segment of ours in an established connection, its checksum partial.
fn segment(host: &Host, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&host.tap.interface().mac[..], &host.tap.info().mac, &[8, 0]].concat();
    frame.extend([0x45, 0]);
    frame.extend(((40 + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(OURS.octets());
    frame.extend(KERNEL.octets());
    let ip = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = ip.sum::<u32>();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame.extend([0x30, 0x39, 0, 80]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

#[test]
fn segments_that_follow_each_other_are_one_packet_for_the_kernel() {
    require_net_admin!();
    let mut host = host(TapConfig::new("tap0"));
    let open = || PacketSocket::open("tap0", Protocol::EtherType(0x0800));
    let socket = host.namespace.run(open).unwrap();
    let payload = bytes(4000);
    let sent = |host: &mut Host, flags: Flags| {
        let before = host.queues[0].stats().tx_packets;
        let mut packets = VecDeque::new();
        for (number, part) in payload.chunks(1400).enumerate() {
            let mut packet = host.pool.alloc().unwrap();
            assert!(packet.append(&segment(host, 1400 * number as u32, part)));
            packet.meta_mut().flags = flags;
            packets.push_back(packet);
        }
        host.queues[0].tx(&mut host.cache, &mut packets).unwrap();
        host.queues[0].flush(&mut host.cache).unwrap();
        assert_eq!(host.queues[0].stats().tx_packets - before, 3);
        let mut buffer = vec![0; 65536];
        let mut lengths = Vec::new();
        while lengths.iter().sum::<usize>() < payload.len() {
            let wait = Duration::from_secs(5);
            let Some(len) = socket.receive(&mut buffer, wait).unwrap() else { break };
            // Answers of the kernel, which knows nothing of the connection, have no payload.
            if buffer[26..30] == OURS.octets() {
                lengths.push(len - 54);
            }
        }
        lengths
    };
    assert_eq!(sent(&mut host, Flags::PARTIAL_CHECKSUM), [4000]);
    // What nobody vouches for is not summed up by the kernel.
    assert_eq!(sent(&mut host, Flags::NONE), [1400, 1400, 1200]);
}
