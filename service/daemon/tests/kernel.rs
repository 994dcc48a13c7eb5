//! weever and the kernel's stack, protocol by protocol, in both directions.

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use common::kernel::*;
use common::peer::{ECHO, PATIENCE};
use weever_daemon::config::{Interface, Share};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_testbed::{Fixture, Namespace, Veth, VethEnd, require_net_admin};

/// ARP or neighbour discovery, UDP, fragments: the kernel sends, and weever sends the same back.
#[test]
fn datagrams_of_every_kind() {
    require_net_admin!();
    let net = wire();
    let stack = start(&net.right, config(vec![interface()]));
    for to in ALL {
        datagrams(&net.veth.left, to);
    }
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn echo_requests_and_errors() {
    require_net_admin!();
    let net = wire();
    let stack = start(&net.right, config(vec![interface()]));
    for to in ALL {
        pings(&net.veth.left, to);
        errors(&net.veth.left, to);
    }
    assert_eq!(stack.stop().failure, None);
}

/// Whether a frame is a report of IGMPv3 or MLDv2 that names the group.
fn reports(frame: &[u8], group: IpAddr) -> bool {
    let named = |octets: &[u8]| frame.windows(octets.len()).skip(34).any(|w| w == octets);
    match group {
        IpAddr::V4(v4) => frame[12..14] == [8, 0] && frame[23] == 2 && named(&v4.octets()),
        IpAddr::V6(v6) => {
            frame[12..14] == [0x86, 0xdd]
                && frame[20] == 0
                && frame.contains(&143)
                && named(&v6.octets())
        }
    }
}

/// weever reports its groups, and the kernel's packets to one of them arrive: the echo service
/// refuses and counts them, since an answer to a group could loop.
#[test]
fn groups_are_reported_and_heard() {
    require_net_admin!();
    let net = wire();
    let heard = net.left.run(|| PacketSocket::open("left0", Protocol::All)).unwrap();
    let stack = start(&net.right, config(vec![interface()]));
    let mut wanted = vec![IpAddr::V4(GROUP), IpAddr::V6(GROUP6)];
    let (mut buffer, end) = ([0; 2000], Instant::now() + PATIENCE);
    while !wanted.is_empty() {
        assert!(Instant::now() < end, "no report of {wanted:?}");
        if let Some(n) = heard.receive(&mut buffer, Duration::from_millis(100)).unwrap() {
            wanted.retain(|group| n < 50 || !reports(&buffer[..n], *group));
        }
    }
    // By the interface: there is no route to groups.
    let [four, six] = [WEEVER.into(), WEEVER6.into()]
        .map(|to: IpAddr| socket2::Socket::from(udp(&net.veth.left, to, ECHO)));
    four.set_multicast_if_v4(&Fixture::LEFT).unwrap();
    six.set_multicast_if_v6(net.veth.left.index).unwrap();
    for (socket, group) in [(four, IpAddr::V4(GROUP)), (six, IpAddr::V6(GROUP6))] {
        let (before, end) = (reached(&stack, "RxL4UDPEcho"), Instant::now() + PATIENCE);
        while reached(&stack, "RxL4UDPEcho") == before {
            assert!(Instant::now() < end, "{group} is not heard: {:?}", stack.counters().drops);
            socket.send_to(b"all of you", &at(group, ECHO, &net.veth.left).into()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(stack.stop().failure, None);
}

fn reached(stack: &weever_daemon::Stack, node: &str) -> u64 {
    let counters = stack.counters();
    counters.nodes.iter().find(|n| n.name == node).map_or(0, |n| n.packets)
}

/// A third host, behind a narrow link, behind the one that is at the left of `net`.
struct Behind {
    end: VethEnd,
}

const FAR: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x79, 0, 0, 0, 0, 0, 2);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const NEAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x79, 0, 0, 0, 0, 0, 1);
const NARROW: u32 = 1280;

/// The kernel forwards between `net` and it.
fn behind(net: &Fixture) -> Behind {
    let far = Namespace::new().unwrap();
    let veth = Veth::create(&net.left, "narrow0", &far, "far0", 1).unwrap();
    veth.set_mtu(NARROW).unwrap();
    for (end, v4, v6) in [(&veth.left, NEAR, NEAR6), (&veth.right, FAR, FAR6)] {
        end.add_address(v4, 24).unwrap();
        end.speak_ipv6(v6, 64).unwrap();
    }
    far.add_route(Ipv4Addr::UNSPECIFIED, 0, NEAR).unwrap();
    far.add_route6(Ipv6Addr::UNSPECIFIED, 0, NEAR6).unwrap();
    net.left.sysctl("net/ipv4/ip_forward", "1").unwrap();
    for link in ["all", "left0", "narrow0"] {
        net.left.sysctl(&format!("net/ipv6/conf/{link}/forwarding"), "1").unwrap();
    }
    Behind { end: veth.right }
}

/// weever's answer is too long for the way behind the kernel, which says so; the next one fits.
#[test]
fn the_kernel_says_how_narrow_the_way_is() {
    require_net_admin!();
    let net = wire();
    let far = behind(&net);
    let mut config = config(vec![interface()]);
    let via = |to, via| weever_daemon::config::Route { to, via: Some(via), interface: None };
    config.routes.push(via(prefix(Ipv4Addr::new(10, 79, 0, 0), 24), Fixture::LEFT.into()));
    let six = Ipv6Addr::new(0xfd00, 0x79, 0, 0, 0, 0, 0, 0);
    config.routes.push(via(prefix(six, 64), KERNEL6.into()));
    let stack = start(&net.right, config);
    for to in [IpAddr::V4(WEEVER), IpAddr::V6(WEEVER6)] {
        let socket = udp(&far.end, to, ECHO);
        for len in [100, 1400, 4000] {
            await_echo(&socket, len);
        }
    }
    assert_eq!(stack.stop().failure, None);
}

/// weever between two kernels, of both families; its own way to one of them is narrow, and it tells
/// the sender.
#[test]
fn kernels_talk_through_weever() {
    require_net_admin!();
    let (near, middle, far) =
        (Namespace::new().unwrap(), Namespace::new().unwrap(), Namespace::new().unwrap());
    let mut ends = Vec::new();
    let mut interfaces = Vec::new();
    for (number, (namespace, mtu)) in [(&near, 1500), (&far, 1300)].into_iter().enumerate() {
        let n = number as u16 + 1;
        let port = format!("port{n}");
        let end = Veth::create(namespace, "host0", &middle, &port, 1).unwrap().left;
        let v4 = |host| Ipv4Addr::new(10, 80, n as u8, host);
        let v6 = |host| Ipv6Addr::new(0xfd00, 0x80, n, 0, 0, 0, 0, host);
        end.add_address(v4(2), 24).unwrap();
        end.speak_ipv6(v6(2), 64).unwrap();
        namespace.add_route(Ipv4Addr::UNSPECIFIED, 0, v4(1)).unwrap();
        namespace.add_route6(Ipv6Addr::UNSPECIFIED, 0, v6(1)).unwrap();
        let mut interface = Interface::new(port, vec![prefix(v4(1), 24), prefix(v6(1), 64)]);
        (interface.share, interface.mtu) = (Share::None, Some(mtu));
        interfaces.push(interface);
        ends.push((end, [IpAddr::V4(v4(2)), IpAddr::V6(v6(2))]));
    }
    let mut config = config(interfaces);
    config.forwarding = true;
    let stack = start(&middle, config);
    let [(near, near_ips), (far, far_ips)] = &ends[..] else { unreachable!("there are two") };
    for (from, at, to) in [(near, far, far_ips), (far, near, near_ips)] {
        for to in to {
            through(from, at, *to);
        }
    }
    assert_eq!(stack.stop().failure, None);
}
