//! A device shared by port: the address is the kernel's, some of its ports are ours.

mod common;

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::time::Duration;

use common::{
    Ends, PATIENCE, await_packet, config, open_left, partial_datagram, pool, receive, stays_away,
};
use weever_link::Link;
use weever_link_sys::af_xdp::{AfXdpConfig, Port, Share};
use weever_link_sys::mirror::{Event, Mirror};
use weever_packet::{Buffer, Flags};
use weever_testbed::{Fixture, Namespace, require_net_admin};

const OURS: u16 = 7000;
const LATER: u16 = 7001;
const KERNELS: u16 = 7002;

fn bound(namespace: &Namespace, address: std::net::Ipv4Addr, port: u16) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((address, port))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn is_udp_to(packet: &Buffer, port: u16) -> bool {
    let frame = packet.data();
    frame.len() >= 42 && frame[23] == 17 && frame[36..38] == port.to_be_bytes()
}

#[test]
fn our_ports_are_ours_and_everything_else_stays_with_the_kernel() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let pool = pool(1024);
    let share = Share::Ports(vec![Fixture::LEFT.into()], vec![Port::udp(OURS)]);
    let shared = AfXdpConfig { share, ..config("left0", &pool) };
    let mut link = open_left(&net, &shared).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let kernel = bound(&net.left, Fixture::LEFT, KERNELS);
    let client = bound(&net.right, Fixture::RIGHT, OURS);

    // The kernel answers ARP for its address: the client has no entry for it.
    client.send_to(b"kernel", (Fixture::LEFT, KERNELS)).unwrap();
    let mut buffer = [0; 2000];
    assert_eq!(kernel.recv(&mut buffer).unwrap(), 6);
    let mut comes = |port: u16, expected: bool| {
        client.send_to(b"weever", (Fixture::LEFT, port)).unwrap();
        let wanted = |packet: &Buffer| is_udp_to(packet, port);
        if !expected {
            return !stays_away(&mut *queue, &mut cache, wanted);
        }
        let found = await_packet(&mut *queue, &mut cache, wanted);
        found.map(|packet| cache.free(packet)).is_some()
    };
    assert!(comes(OURS, true) && !comes(LATER, false));
    link.steering().add_port(Port::udp(LATER)).unwrap();
    assert!(comes(LATER, true));
    assert!(link.steering().remove_port(Port::udp(LATER)).unwrap());
    assert!(!comes(LATER, false));

    // Fragments stay with the kernel, for our port as well.
    client.send_to(&[7; 1900], (Fixture::LEFT, OURS)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(receive(&mut *queue, &mut cache).is_empty());
}

/// A link that shares ports answers without an address resolution of its own.
#[test]
fn an_answer_goes_to_the_neighbour_that_the_kernel_knows() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let share = Share::Ports(vec![Fixture::LEFT.into()], vec![Port::udp(OURS)]);
    let pool = pool(1024);
    let mut link = open_left(&net, &AfXdpConfig { share, ..config("left0", &pool) }).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    let mut mirror = net.left.run(|| Mirror::open([net.veth.left.index])).unwrap();
    mirror.poll(|_| {}).unwrap();
    mirror.resolve(net.veth.left.index, Fixture::RIGHT.into()).unwrap();
    let mut neighbour = None;
    let end = std::time::Instant::now() + PATIENCE;
    while neighbour.is_none() && std::time::Instant::now() < end {
        let found = |event| match event {
            Event::Neighbour(n) if n.address == Fixture::RIGHT => neighbour = n.mac.or(neighbour),
            _ => {}
        };
        mirror.poll(found).unwrap();
    }
    let mac = neighbour.expect("the kernel has found it");
    let client = bound(&net.right, Fixture::RIGHT, OURS);
    let from = (net.veth.left.mac, Fixture::LEFT);
    let ends = Ends { from, to: (mac, Fixture::RIGHT), port: OURS };
    let mut packet = cache.alloc().unwrap();
    assert!(packet.append(&partial_datagram(&ends, b"found")));
    packet.meta_mut().flags = Flags::PARTIAL_CHECKSUM;
    queue.tx(&mut cache, &mut VecDeque::from([packet])).unwrap();
    while queue.unsent() {
        queue.flush(&mut cache).unwrap();
    }
    if !link.info().offload.tx_checksum {
        return println!("skipped: needs a kernel with AF_XDP transmit metadata");
    }
    let mut buffer = [0; 100];
    let (n, from) = client.recv_from(&mut buffer).expect("the answer");
    assert_eq!((&buffer[..n], from.ip()), (&b"found"[..], Fixture::LEFT.into()));
}
