//! A stack with the kernel of another namespace as its peer, and their exchanges.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Prefix, Share};
use weever_testbed::{Fixture, Namespace, VethEnd};

use super::peer::{ECHO, PATIENCE};
use super::temporary_path;

/// Nobody listens there.
pub(crate) const CLOSED: u16 = 4999;
pub(crate) const WEEVER: Ipv4Addr = Fixture::RIGHT;
pub(crate) const WEEVER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);
pub(crate) const WEEVER_LL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x77, 2);
pub(crate) const KERNEL6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
pub(crate) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
pub(crate) const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 7, 7);
/// Every address of weever's, as the kernel talks to it.
pub(crate) const ALL: [IpAddr; 3] =
    [IpAddr::V4(WEEVER), IpAddr::V6(WEEVER6), IpAddr::V6(WEEVER_LL)];

pub(crate) fn prefix(ip: impl Into<IpAddr>, len: u8) -> Prefix {
    Prefix::new(ip.into(), len).unwrap()
}

/// The kernel at the left end, which speaks both families.
pub(crate) fn wire() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX).unwrap();
    net.veth.left.speak_ipv6(KERNEL6, 64).unwrap();
    net
}

/// weever's interface at the right end, all of it.
pub(crate) fn interface() -> Interface {
    let addresses = [prefix(WEEVER, 24), prefix(WEEVER6, 64), prefix(WEEVER_LL, 64)];
    let mut interface = Interface::new("right0", addresses.into());
    interface.share = Share::None;
    interface.groups = vec![GROUP.into(), GROUP6.into()];
    interface
}

pub(crate) fn config(interfaces: Vec<Interface>) -> Config {
    let mut config = Config::of(interfaces);
    config.services.echo = Some(ECHO);
    config.control = Some(temporary_path());
    config.pool.frames = 4096;
    config.probe = false;
    config
}

pub(crate) fn start(namespace: &Namespace, config: Config) -> Stack {
    let stack = namespace.run(|| Stack::start(config)).unwrap();
    assert!(stack.status().pid > 0);
    stack
}

/// Where a port of an address is, from this end of the wire.
pub(crate) fn at(to: IpAddr, port: u16, from: &VethEnd) -> SocketAddr {
    match to {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, from.index).into()
        }
        _ => SocketAddr::new(to, port),
    }
}

fn any(to: IpAddr) -> IpAddr {
    if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// A UDP socket of the kernel's, connected to a port of `to`.
pub(crate) fn udp(from: &VethEnd, to: IpAddr, port: u16) -> UdpSocket {
    let socket = from.namespace().run(|| UdpSocket::bind((any(to), 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.connect(at(to, port, from)).unwrap();
    socket
}

pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

/// Sends until an echo comes: the first packets may be spent on addresses that are still tentative,
/// neighbours that are sought, and ways that are narrower than expected.
pub(crate) fn await_echo(socket: &UdpSocket, len: usize) {
    let (sent, mut buffer, end) = (payload(len), vec![0; 70_000], Instant::now() + PATIENCE);
    loop {
        let result = socket.send(&sent).and_then(|_| socket.recv(&mut buffer));
        if matches!(result, Ok(n) if buffer[..n] == sent) {
            return;
        }
        assert!(Instant::now() < end, "no echo of {len} bytes from {socket:?}: {result:?}");
    }
}

/// Datagrams of one frame and of several, there and back.
pub(crate) fn datagrams(from: &VethEnd, to: IpAddr) {
    let socket = udp(from, to, ECHO);
    for len in [0, 1, 18, 1000, 1452, 1453, 1472, 1473, 2960, 9000, 30_000, 65_000] {
        await_echo(&socket, len);
    }
}

/// ICMP echo requests of one frame and of several, and their replies.
pub(crate) fn pings(from: &VethEnd, to: IpAddr) {
    await_echo(&udp(from, to, ECHO), 10);
    let (domain, protocol, kinds) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, [8, 0]),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, [128, 129]),
    };
    // A "ping socket" of the kernel's fills in the identifier and the checksum, and hands over
    // replies to its own requests only.
    from.namespace().sysctl("net/ipv4/ping_group_range", "0 2147483647").unwrap();
    let socket = from.namespace().run(|| Socket::new(domain, Type::DGRAM, Some(protocol))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.connect(&at(to, 0, from).into()).unwrap();
    for (number, len) in [0usize, 1, 56, 1452, 1472, 4000, 20_000].into_iter().enumerate() {
        let body = payload(len);
        let message = [&[kinds[0], 0, 0, 0, 0, 0, 0, number as u8], &body[..]].concat();
        let (mut buffer, end) = (vec![0; 30_000], Instant::now() + PATIENCE);
        // A kernel whose core is busy loses pieces; a late answer is of an earlier number.
        let n = loop {
            assert!(Instant::now() < end, "{to}, {len} bytes: no reply");
            socket.send(&message).unwrap();
            match (&socket).read(&mut buffer) {
                Ok(n) if buffer[7] == number as u8 => break n,
                _ => {}
            }
        };
        assert_eq!(buffer[0], kinds[1], "{to}, {len} bytes");
        assert_eq!(buffer[8..n], body, "{to}, {len} bytes");
    }
}

/// The kernel's reaction to weever's ICMP errors: a closed port is a refused connection, and a
/// protocol that it does not speak is an error to a raw socket.
pub(crate) fn errors(from: &VethEnd, to: IpAddr) {
    await_echo(&udp(from, to, ECHO), 10);
    let closed = udp(from, to, CLOSED);
    let (end, mut told) = (Instant::now() + PATIENCE, None);
    // They come at a limited rate.
    while told != Some(ErrorKind::ConnectionRefused) {
        assert!(Instant::now() < end, "{to}: {told:?}");
        let result = closed.send(b"anyone?").and_then(|_| closed.recv(&mut [0; 9]));
        told = result.err().map(|e| e.kind());
    }
    let raw = |protocol: i32| {
        let domain = if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        Socket::new(domain, Type::RAW, Some(Protocol::from(protocol)))
    };
    let unknown = from.namespace().run(|| raw(253)).unwrap();
    unknown.connect(&at(to, 0, from).into()).unwrap();
    let listener = from.namespace().run(|| raw(if to.is_ipv4() { 1 } else { 58 })).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let end = Instant::now() + PATIENCE;
    // Protocol unreachable (RFC 1122 §3.2.2.1), or unrecognized next header (RFC 4443 §3.4).
    let (skip, wanted) = if to.is_ipv4() { (20, [3, 2]) } else { (0, [4, 1]) };
    let mut buffer = [0; 2000];
    loop {
        assert!(Instant::now() < end, "{to}: nothing about an unknown protocol");
        // The send may fail by the error for an earlier datagram: ignored.
        let _ = unknown.send(b"understood?");
        let Ok(n) = (&listener).read(&mut buffer) else { continue };
        if buffer.get(skip..n.min(skip + 2)) == Some(&wanted) {
            return;
        }
    }
}

/// An echo server of the kernel's at one side, and datagrams from the other.
pub(crate) fn through(from: &VethEnd, server: &VethEnd, to: IpAddr) {
    let service = server.namespace().run(|| std::net::UdpSocket::bind((to, 0))).unwrap();
    let port = service.local_addr().unwrap().port();
    let stop = std::sync::atomic::AtomicBool::new(false);
    service.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 10_000];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let Ok((n, back)) = service.recv_from(&mut buffer) else { continue };
                // Longer than the path MTU it has just learned: the next one is fragmented.
                let _ = service.send_to(&buffer[..n], back);
            }
        });
        let socket = udp(from, to, port);
        for len in [0, 100, 1252, 1400, 1472, 5000] {
            await_echo(&socket, len);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
