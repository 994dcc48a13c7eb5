//! Neighbours, echo and fragments.

use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};

use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket as open};
use weever_testbed::{Fixture, Namespace, require_net_admin};

use super::net::{ECHO, KERNEL, STACK, Up, at, echoes, index, net, socket};

fn config(share: &str, more: &str) -> String {
    let first = format!("dev = \"left0\"\nshare = \"{share}\"\n");
    first + more + "\n[services]\necho = 7\n"
}

/// A raw socket for ICMPv6; the kernel computes the checksum.
pub(crate) fn icmp(namespace: &Namespace) -> UdpSocket {
    let made = namespace.run(|| {
        open(AddressFamily::Inet6, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::IcmpV6)
    });
    let socket: UdpSocket = made.unwrap().into();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket
}

/// Whether an echo request (RFC 4443 §4.1) is answered.
fn pings(socket: &UdpSocket, to: SocketAddrV6, len: usize) -> bool {
    let mut request = vec![128, 0, 0, 0, 0x77, 0x77, 0, 1];
    request.extend(super::net::payload(len));
    (0..10).any(|_| {
        socket.send_to(&request, SocketAddrV6::new(*to.ip(), 0, 0, to.scope_id())).unwrap();
        let (deadline, mut buffer) = (Instant::now() + Duration::from_secs(1), vec![0; 70_000]);
        while Instant::now() < deadline {
            let Ok((n, from)) = socket.recv_from(&mut buffer) else { break };
            if buffer[0] == 129 && buffer[4..n] == request[4..] && from.ip() == *to.ip() {
                return true;
            }
        }
        false
    })
}

/// Everything that a peer can do with an address of the stack's. The longest datagram is that whose
/// packet has 65,535 bytes.
fn talks(net: &Fixture, up: &Up, to: SocketAddrV6, from: Ipv6Addr) {
    let echo = socket(&net.right, from, 0);
    for len in [0, 1, 1452, 1453, 2900, 9000, 30_000, 65_487] {
        assert!(echoes(&echo, to, len), "{to}: {len} bytes: {}", up.tell());
    }
    let raw = icmp(&net.right);
    for len in [0, 56, 1500, 9000] {
        assert!(pings(&raw, to, len), "ping {to}: {len} bytes: {}", up.tell());
    }
}

fn the_kernel_talks_to_a_stack_that_shares(share: &str) {
    let net = net();
    let up = Up::start(&net.left, &config(share, &format!("addr = \"{STACK}/64\"")), &[]);
    up.address("fd77::10");
    talks(&net, &up, at(STACK, ECHO, 0), Ipv6Addr::UNSPECIFIED);
    let link_local = up.address("fe80:");
    talks(&net, &up, at(link_local, ECHO, index(&net.right, "right0")), Ipv6Addr::UNSPECIFIED);
    let status = up.ask(&["status"]);
    assert!(status.contains("fd77::/64 on link by left0"), "{status}");
    assert!(status.contains("fd77::2"), "{status}");
}

#[test]
fn the_kernel_talks_to_a_stack_that_has_the_device() {
    require_net_admin!();
    the_kernel_talks_to_a_stack_that_shares("none");
}

/// And the kernel at the same end keeps its own addresses, which it makes of the same link address.
#[test]
fn the_kernel_talks_to_a_stack_beside_a_kernel() {
    require_net_admin!();
    the_kernel_talks_to_a_stack_that_shares("address");
    let net = net();
    net.left.speak_ipv6().unwrap();
    let beside = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
    net.left.add_address6("left0", beside, 64, false).unwrap();
    let up = Up::start(&net.left, &config("address", &format!("addr = \"{STACK}/64\"")), &[]);
    up.address("fe80:");
    let (near, far) = (socket(&net.left, beside, 0), socket(&net.right, KERNEL, 0));
    far.send_to(b"kernel to kernel", near.local_addr().unwrap()).unwrap();
    assert_eq!(near.recv(&mut [0; 99]).unwrap(), 16);
    near.send_to(b"and back", far.local_addr().unwrap()).unwrap();
    assert_eq!(far.recv(&mut [0; 99]).unwrap(), 8);
    assert!(echoes(&far, at(STACK, ECHO, 0), 9000), "{}", up.tell());
}

/// The stack has no neighbour entry of its peer; the kernel has one of the stack, and asks nothing.
#[test]
fn the_stack_asks_the_kernel() {
    require_net_admin!();
    let net = net();
    let mac = net.left.link("left0").unwrap().mac;
    net.right.add_neighbour6("right0", STACK, mac).unwrap();
    let up = Up::start(&net.left, &config("address", &format!("addr = \"{STACK}/64\"")), &[]);
    up.address("fd77::10");
    assert!(echoes(&socket(&net.right, KERNEL, 0), at(STACK, ECHO, 0), 9000), "{}", up.tell());
    let status = up.status();
    let known = status["neighbours"].as_array().unwrap().iter().find(|n| n["address"] == "fd77::2");
    assert!(known.is_some_and(|n| n["mac"].is_string()), "{status}");
}

/// A stack that comes back with another link address announces its addresses with it (RFC 4861 §7.2.6). The
/// kernel trusts the old one for an hour here: only an announcement has it learn the new one.
#[test]
fn a_new_link_address_is_announced() {
    require_net_admin!();
    let net = net();
    net.right.sysctl("net/ipv6/neigh/right0/base_reachable_time_ms", "3600000").unwrap();
    let echo = socket(&net.right, KERNEL, 0);
    for mac in [[2, 0, 0, 0, 0x77, 1], [2, 0, 0, 0, 0x77, 2]] {
        net.left.set_mac("left0", mac).unwrap();
        let up = Up::start(&net.left, &config("none", &format!("addr = \"{STACK}/64\"")), &[]);
        up.address("fd77::10");
        assert!(echoes(&echo, at(STACK, ECHO, 0), 100), "{mac:02x?}: {}", up.tell());
    }
}

/// An address that the kernel has is not used, and is shown as somebody else's.
fn the_kernels_address_is_not_taken(share: &str) {
    let net = net();
    net.right.add_address6("right0", STACK, 64, false).unwrap();
    let addresses = format!("addr = [\"{STACK}/64\", \"fd77::11/64\"]");
    let up = Up::start(&net.left, &config(share, &addresses), &[]);
    up.wait_for("duplicate", |text| text == "fd77::10/64");
    let other = up.address("fd77::11");
    assert!(echoes(&socket(&net.right, KERNEL, 0), at(other, ECHO, 0), 100), "{}", up.tell());
}

#[test]
fn an_address_that_the_kernel_has_is_not_taken() {
    require_net_admin!();
    the_kernels_address_is_not_taken("none");
    the_kernels_address_is_not_taken("address");
}

/// The flags of an address, as `/proc/net/if_inet6` has them.
fn flags(namespace: &Namespace, address: Ipv6Addr) -> Option<u8> {
    let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6")).unwrap();
    let digits = format!("{:032x}", address.to_bits());
    let line = text.lines().find(|line| line.starts_with(&digits))?;
    u8::from_str_radix(line.split_whitespace().nth(4)?, 16).ok()
}

/// The kernel asks before it takes an address, and the stack says that it is taken.
#[test]
fn the_kernel_does_not_take_an_address_of_the_stacks() {
    require_net_admin!();
    const FAILED: u8 = 0x08;
    for share in ["none", "address"] {
        let net = net();
        let up = Up::start(&net.left, &config(share, &format!("addr = \"{STACK}/64\"")), &[]);
        up.address("fd77::10");
        net.right.add_address6("right0", STACK, 64, true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while flags(&net.right, STACK).is_none_or(|flags| flags & FAILED == 0) {
            assert!(Instant::now() < deadline, "{:?} {}", flags(&net.right, STACK), up.tell());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The kernel's stack is at the other end of a TAP device; it leaves checksums and segmentation to
/// the device.
#[test]
fn the_kernel_talks_to_a_stack_behind_a_tap() {
    require_net_admin!();
    let namespace = Namespace::new().unwrap();
    namespace.speak_ipv6().unwrap();
    let config =
        format!("dev = \"tap0\"\nlink = \"tap\"\naddr = \"{STACK}/64\"\n[services]\necho = 7\n");
    let up = Up::start(&namespace, &config, &[]);
    namespace.add_address6("tap0", KERNEL, 64, false).unwrap();
    up.address("fd77::10");
    let echo = socket(&namespace, KERNEL, 0);
    for len in [1, 1452, 9000, 65_487] {
        assert!(echoes(&echo, at(STACK, ECHO, 0), len), "{len} bytes: {}", up.tell());
    }
    let link_local = at(up.address("fe80:"), ECHO, index(&namespace, "tap0"));
    let anywhere = socket(&namespace, Ipv6Addr::UNSPECIFIED, 0);
    assert!(echoes(&anywhere, link_local, 9000), "{}", up.tell());
}
