//! How the kernel's own stack sends, seen from the other end.

use std::io::Read;
use std::net::UdpSocket;
use std::time::Duration;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use weever_testbed::{Fixture, pin_to, require_net_admin};

const QUEUES: u32 = 4;

/// Accepts only packets that came through the given queue (classic BPF's "queue" extension).
fn only_from_queue(queue: u32) -> [SockFilter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const QUEUE_EXTENSION: u32 = 0xffff_f000 + 24;
    [
        SockFilter::new(LOAD_WORD, 0, 0, QUEUE_EXTENSION),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, queue),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// How many of 64 flows arrive through each queue, all sent from one core.
fn flows_per_queue(net: &Fixture) -> Vec<usize> {
    (0..QUEUES).map(|queue| flows_through(net, queue)).collect()
}

fn flows_through(net: &Fixture, queue: u32) -> usize {
    let receiver = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0)).unwrap());
    SockRef::from(&receiver).attach_filter(&only_from_queue(queue)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let to = receiver.local_addr().unwrap();
    net.left.run(|| {
        pin_to(0).unwrap();
        for port in 20_000..20_064 {
            UdpSocket::bind((Fixture::LEFT, port)).unwrap().send_to(b"x", to).unwrap();
        }
    });
    std::iter::from_fn(|| receiver.recv(&mut [0; 8]).ok()).count()
}

#[test]
fn the_kernel_spreads_flows_over_all_queues_by_itself() {
    require_net_admin!();
    let net = Fixture::pair(QUEUES).unwrap();
    net.assign_addresses().unwrap();
    let flows = flows_per_queue(&net);
    assert!(flows.iter().all(|&count| count > 0), "{flows:?}");
}

/// Everything IPv4 that arrives in the namespace of the calling thread.
fn sniffer() -> Socket {
    const ETH_P_IP: u16 = 0x0800;
    let protocol = Protocol::from(i32::from(ETH_P_IP.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

/// The checksum field of one datagram sent by the kernel, the sum over its pseudo-header, and
/// whether it is right.
fn udp_checksum(net: &Fixture) -> (u16, u16, bool) {
    const IP: usize = 14;
    const UDP: usize = IP + 20;
    let mut sniffer = net.right.run(sniffer);
    let sender = net.left.run(|| UdpSocket::bind((Fixture::LEFT, 5000)).unwrap());
    sender.send_to(b"checksummed", (Fixture::RIGHT, 9)).unwrap();
    let mut frame = [0; 256];
    let length = sniffer.read(&mut frame).unwrap();
    let mut pseudo = frame[IP + 12..IP + 20].to_vec();
    pseudo.extend([0, 17, frame[UDP + 4], frame[UDP + 5]]);
    let field = u16::from_be_bytes([frame[UDP + 6], frame[UDP + 7]]);
    let whole = [&pseudo, &frame[UDP..length]].concat();
    (field, ones_complement_sum(&pseudo), ones_complement_sum(&whole) == 0xffff)
}

#[test]
fn checksums_are_left_to_the_device_until_that_is_switched_off() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let (field, pseudo, right) = udp_checksum(&net);
    assert!(field == pseudo && !right, "partial: {field:04x}, pseudo-header {pseudo:04x}");
    net.veth.left.set_checksum_offload(false).unwrap();
    let (field, _, right) = udp_checksum(&net);
    assert!(right, "complete: {field:04x}");
    net.veth.left.set_checksum_offload(true).unwrap();
    assert!(!udp_checksum(&net).2);
}

#[test]
fn an_unknown_offload_is_an_error_that_names_it() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let error = net.left.set_feature("left0", "no-such-offload", false).unwrap_err();
    assert!(error.to_string().contains("no-such-offload of link left0 off"), "{error}");
    let error = net.left.set_feature("gone0", "rx-gro", false).unwrap_err();
    assert!(error.to_string().contains("gone0"), "{error}");
}
