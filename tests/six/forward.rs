//! weever as a router of IPv6 between two network namespaces, with the kernel on both sides.

use std::net::{Ipv6Addr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use weever_testbed::{Namespace, Veth, require_net_admin};

use super::net::{Up, at, payload, socket};

const LEFT: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
const LEFT_ROUTER: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
const RIGHT: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2);
const RIGHT_ROUTER: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1);
const PORT: u16 = 4000;

const CONFIG: &str = r#"
dev = "port0"
addr = "fd77::1/64"
share = "none"
forwarding = true

[[interface]]
dev = "port1"
addr = ["fd78::1/64"]
share = "none"
mtu = 1280
"#;

fn network() -> (Namespace, Namespace, Up) {
    let [left, router, right] = [(); 3].map(|()| Namespace::new().unwrap());
    let one = Veth::create(&left, "left0", &router, "port0", 1).unwrap();
    let two = Veth::create(&router, "port1", &right, "right0", 1).unwrap();
    drop((one, two));
    for (namespace, link, own, other, via) in
        [(&left, "left0", LEFT, RIGHT, LEFT_ROUTER), (&right, "right0", RIGHT, LEFT, RIGHT_ROUTER)]
    {
        namespace.speak_ipv6().unwrap();
        namespace.add_address6(link, own, 64, false).unwrap();
        namespace.add_route6(other, 128, via).unwrap();
    }
    let up = Up::start(&router, CONFIG, &[]);
    up.address("fd77::1");
    (left, right, up)
}

/// The first datagrams are spent on neighbours, and longer ones on the path's MTU.
fn arrives(from: &UdpSocket, to: &UdpSocket, len: usize) -> bool {
    let (sent, mut buffer) = (payload(len), vec![0; 70_000]);
    (0..10).any(|_| {
        let _ = from.send_to(&sent, to.local_addr().unwrap());
        matches!(to.recv(&mut buffer), Ok(n) if buffer[..n] == sent)
    })
}

/// A packet too long for the second link is reported to the kernel, which then fragments it.
#[test]
fn two_kernels_talk_through_weever() {
    require_net_admin!();
    let (left, right, up) = network();
    let (near, far) = (socket(&left, LEFT, 0), socket(&right, RIGHT, PORT));
    for len in [0, 1, 512, 1232, 1233, 1452, 9000, 30_000] {
        assert!(arrives(&near, &far, len), "{len} there: {}", up.tell());
        assert!(arrives(&far, &near, len), "{len} back: {}", up.tell());
    }
}

#[test]
fn the_kernel_understands_the_errors() {
    require_net_admin!();
    let (left, right, up) = network();
    let (near, far) = (socket(&left, LEFT, 0), socket(&right, RIGHT, PORT));
    assert!(arrives(&near, &far, 10), "{}", up.tell());
    setsockopt(&near, sockopt::Ipv6RecvErr, &true).unwrap();
    setsockopt(&near, sockopt::Ipv6Ttl, &1).unwrap();
    near.connect((RIGHT, PORT)).unwrap();
    near.send(b"spent").unwrap();
    let error = near.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(nix::libc::EHOSTUNREACH), "{error}");
    let closed = socket(&left, LEFT, 0);
    closed.connect(at(LEFT_ROUTER, 9, 0)).unwrap();
    closed.send(b"anyone?").unwrap();
    let error = closed.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
}
