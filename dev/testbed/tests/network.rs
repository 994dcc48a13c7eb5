//! The testbed itself: traffic between namespaces, and the kernel's report of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use weever_testbed::{Error, Fixture, Namespace, Veth, require_net_admin};

/// A bound socket that gives up instead of hanging the test.
fn socket(namespace: &Namespace, address: Ipv4Addr) -> UdpSocket {
    namespace.run(|| {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    })
}

/// One datagram there, the same one back.
fn ping_pong(near: &UdpSocket, far: &UdpSocket, payload: &[u8]) {
    let mut buffer = [0; 2048];
    near.send_to(payload, far.local_addr().unwrap()).unwrap();
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    far.send_to(&buffer[..length], from).unwrap();
    let (length, from) = near.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (payload, far.local_addr().unwrap()));
}

fn ping_pong_over_a_pair(queues: u32) {
    let net = Fixture::pair(queues).unwrap();
    net.assign_addresses().unwrap();
    let left = socket(&net.left, Fixture::LEFT);
    let right = socket(&net.right, Fixture::RIGHT);
    for length in [0, 1, 64, 1472] {
        ping_pong(&left, &right, &vec![0x5a; length]);
    }
    let counters = net.veth.left.info().unwrap().counters;
    assert!(counters.tx_packets >= 4 && counters.rx_packets >= 4, "{counters:?}");
    assert!(counters.tx_bytes > 1472 && counters.rx_bytes > 1472, "{counters:?}");
}

#[test]
fn datagrams_cross_a_single_queue_pair() {
    require_net_admin!();
    ping_pong_over_a_pair(1);
}

#[test]
fn many_pairs_with_the_same_names_and_addresses_live_side_by_side() {
    require_net_admin!();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| ping_pong_over_a_pair(4));
        }
    });
}

#[test]
fn both_ends_have_the_queues_that_were_asked_for() {
    require_net_admin!();
    let net = Fixture::pair(4).unwrap();
    for end in [&net.veth.left, &net.veth.right] {
        let info = end.info().unwrap();
        assert_eq!((info.rx_queues, info.tx_queues), (4, 4), "{}", end.name);
        assert_eq!((info.index, info.mac), (end.index, end.mac));
        assert!(info.up && info.running);
        assert_ne!(info.mac, [0; 6]);
        assert_eq!(info.mac[0] & 1, 0, "a unicast address");
    }
}

#[test]
fn mtu_and_hardware_address_can_be_set() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.veth.set_mtu(3000).unwrap();
    net.left.set_mac("left0", [2, 0, 0, 0, 0, 7]).unwrap();
    let left = net.veth.left.info().unwrap();
    assert_eq!((left.mtu, left.mac), (3000, [2, 0, 0, 0, 0, 7]));
    assert_eq!(net.veth.right.info().unwrap().mtu, 3000);
}

#[test]
fn a_link_of_a_rate_carries_no_more() {
    require_net_admin!();
    const OCTETS: usize = 1 << 20;
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net.left.set_rate("left0", 40).unwrap();
    let listener = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let started = Instant::now();
    let sender = net
        .left
        .spawn("sender", move || TcpStream::connect(to).unwrap().write_all(&[1; OCTETS]).unwrap())
        .unwrap();
    let mut arrived = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut arrived).unwrap();
    sender.join().unwrap();
    assert_eq!(arrived.len(), OCTETS);
    // All but the first burst needs its time: 200 ms for a megaoctet at 5 MB/s.
    assert!(started.elapsed() > Duration::from_millis(190), "{:?}", started.elapsed());
    for (name, rate) in [("left0", 0), ("left0", 40_000), ("absent", 1)] {
        let error = net.left.set_rate(name, rate).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_link_that_was_set_down_takes_the_peers_carrier_away() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.left.set_down("left0").unwrap();
    assert!(!net.veth.left.info().unwrap().up);
    assert!(!net.veth.right.info().unwrap().running);
}

#[test]
fn a_deleted_cable_takes_both_ends_with_it() {
    require_net_admin!();
    let Fixture { left, right, veth } = Fixture::pair(1).unwrap();
    veth.delete().unwrap();
    for (namespace, name) in [(left, "left0"), (right, "right0")] {
        let error = namespace.link(name).unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_static_neighbour_makes_the_kernel_send_without_asking() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let nobody = Ipv4Addr::new(10, 77, 0, 99);
    net.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX).unwrap();
    let before = net.veth.right.info().unwrap().counters;
    net.veth.left.add_neighbour(nobody, net.veth.right.mac).unwrap();
    net.veth.left.add_neighbour(nobody, net.veth.right.mac).unwrap();
    socket(&net.left, Fixture::LEFT).send_to(&[0; 100], (nobody, 9)).unwrap();
    let after = net.veth.right.info().unwrap().counters;
    assert_eq!(after.rx_packets - before.rx_packets, 1, "the datagram, and no ARP request");
    assert_eq!(after.rx_bytes - before.rx_bytes, 14 + 20 + 8 + 100);
}

#[test]
fn a_route_leads_to_a_network_behind_the_peer() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let behind = Ipv4Addr::new(192, 0, 2, 1);
    net.right.add_address("lo", behind, 32).unwrap();
    let left = socket(&net.left, Fixture::LEFT);
    let right = socket(&net.right, behind);
    let refused = left.send_to(b"x", right.local_addr().unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable);
    net.left.add_route(Ipv4Addr::new(192, 0, 2, 0), 24, Fixture::RIGHT).unwrap();
    ping_pong(&left, &right, b"over there");
}

#[test]
fn loopback_works_from_the_start() {
    require_net_admin!();
    let namespace = Namespace::new().unwrap();
    let (a, b) = (socket(&namespace, Ipv4Addr::LOCALHOST), socket(&namespace, Ipv4Addr::LOCALHOST));
    ping_pong(&a, &b, b"self");
}

#[test]
fn a_thread_outside_stays_outside() {
    require_net_admin!();
    let inode = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let namespace = Namespace::new().unwrap();
    let outside = inode();
    let inside = namespace.run(inode);
    assert_ne!(inside, outside);
    assert_eq!(inode(), outside);
    assert_eq!(namespace.clone().spawn("inside", inode).unwrap().join().unwrap(), inside);
}

#[test]
fn a_panic_inside_comes_out() {
    require_net_admin!();
    let namespace = Namespace::new().unwrap();
    let caught = std::panic::catch_unwind(|| namespace.run(|| panic!("from within")));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "from within");
}

#[test]
fn errors_name_the_culprit() {
    require_net_admin!();
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let too_long = Veth::create(&a, "a-name-beyond-fifteen", &b, "b0", 1).unwrap_err();
    assert!(too_long.to_string().contains("a-name-beyond-fifteen"), "{too_long}");
    Veth::create(&a, "a0", &b, "b0", 1).unwrap();
    let taken = Veth::create(&a, "a0", &b, "b1", 1).unwrap_err();
    assert!(taken.to_string().contains("create veth a0"), "{taken}");
    assert!(a.sysctl("net/no/such/thing", "1").unwrap_err().to_string().contains("no/such"));
    a.sysctl("net/ipv4/icmp_ratelimit", "0").unwrap();
}

/// IPv6 is silent until it is asked for, and then works at once.
#[test]
fn a_link_speaks_ipv6_when_told_to() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let address = std::net::Ipv6Addr::LOCALHOST;
    assert!(net.left.add_address6("left0", address, 64, false).is_err(), "it speaks no IPv6 yet");
    let ends = [(&net.veth.left, "fd00::1"), (&net.veth.right, "fd00::2")];
    let sockets = ends.map(|(end, address)| {
        let address: std::net::Ipv6Addr = address.parse().unwrap();
        end.speak_ipv6(address, 64).unwrap();
        let socket = end.namespace().run(|| UdpSocket::bind((address, 0)).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    });
    ping_pong(&sockets[0], &sockets[1], &[6; 1000]);
    let [there, via] =
        ["fd01::", "fd00::2"].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap());
    net.left.add_route6(there, 64, via).unwrap();
    assert!(net.left.add_route6(there, 64, via).is_err(), "it is there");
}
