//! A kernel that sends to another one through weever, though both are on one link, is told so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weever_daemon::config::{Interface, Route, Share};
use weever_testbed::{Namespace, Veth, VethEnd, require_net_admin};

use super::tool::{await_that, is_there, run};
use crate::common::kernel::{config, prefix, start, udp};

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 3);
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);

fn six(net: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host)
}

/// The other kernel, as routers are named.
const OTHER_LL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x33);

/// A switch with weever, the kernel that sends, and the other one.
fn network(stack: &Namespace) -> (Namespace, VethEnd, VethEnd) {
    let lan = Namespace::new().unwrap();
    run(&lan, "ip link add br0 type bridge mcast_snooping 0");
    run(&lan, "ip link set br0 up");
    let mut ends = Vec::new();
    for (name, at, link) in [
        ("port0", stack, "right0"),
        ("port1", &Namespace::new().unwrap(), "host0"),
        ("port2", &Namespace::new().unwrap(), "host0"),
    ] {
        ends.push(Veth::create(&lan, name, at, link, 1).unwrap().right);
        run(&lan, &format!("ip link set {name} master br0"));
    }
    let (other, near) = (ends.pop().unwrap(), ends.pop().unwrap());
    for (end, v4, v6) in [(&near, NEAR, six(0x83, 2)), (&other, OTHER, six(0x83, 3))] {
        end.add_address(v4, 24).unwrap();
        end.speak_ipv6(v6, 64).unwrap();
    }
    other.add_address(BEHIND, 32).unwrap();
    other.namespace().add_address6("host0", six(0x84, 1), 128, false).unwrap();
    other.namespace().add_address6("host0", OTHER_LL, 64, false).unwrap();
    let kernel = near.namespace();
    kernel.add_route(Ipv4Addr::UNSPECIFIED, 0, ROUTER).unwrap();
    for setting in [
        "ipv4/conf/all/accept_redirects",
        "ipv4/conf/host0/accept_redirects",
        "ipv6/conf/host0/accept_redirects",
    ] {
        kernel.sysctl(&format!("net/{setting}"), "1").unwrap();
    }
    (lan, near, other)
}

#[test]
fn a_kernel_learns_who_is_nearer() {
    require_net_admin!();
    if !is_there("ip") {
        return;
    }
    let inside = Namespace::new().unwrap();
    let (_lan, near, other) = network(&inside);
    let own = vec![prefix(ROUTER, 24), prefix(six(0x83, 1), 64)];
    let mut interface = Interface::new("right0", own);
    interface.share = Share::None;
    let mut config = config(vec![interface]);
    config.forwarding = true;
    let via = |to, via: IpAddr| Route { to, via: Some(via), interface: Some("right0".into()) };
    config.routes.push(via(prefix(Ipv4Addr::new(10, 84, 0, 0), 16), OTHER.into()));
    config.routes.push(via(prefix(six(0x84, 0), 32), OTHER_LL.into()));
    let stack = start(&inside, config);
    // The kernel takes redirects from its router only, which it knows by the link-local address.
    let link_local = || {
        let all = stack.status().interfaces.remove(0).addresses;
        all.iter().find_map(|one| {
            one.strip_suffix("/64").filter(|ip| ip.starts_with("fe80")).map(str::to_owned)
        })
    };
    await_that("named", || link_local().is_some());
    let router = link_local().unwrap();
    run(near.namespace(), &format!("ip -6 route add default via {router} dev host0"));
    let heard = other.namespace().run(|| std::net::UdpSocket::bind(("::", 4000))).unwrap();
    heard.set_nonblocking(true).unwrap();
    for (to, nearer) in
        [(IpAddr::V4(BEHIND), OTHER.to_string()), (six(0x84, 1).into(), OTHER_LL.to_string())]
    {
        let socket = udp(&near, to, 4000);
        // A kernel takes redirects about IPv6 packets of sockets that say by which device they send.
        socket2::SockRef::from(&socket).bind_device(Some(b"host0")).unwrap();
        let route = || {
            let output = run(near.namespace(), &format!("ip route get {to}"));
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(!route().contains(&format!("via {nearer} ")), "{}", route());
        await_that("told of the nearer one", || {
            socket.send(b"on and on").unwrap();
            route().contains(&format!("via {nearer} "))
        });
        await_that("heard there", || {
            socket.send(b"straight").unwrap();
            heard.recv(&mut [0; 99]).is_ok()
        });
    }
    assert_eq!(stack.stop().failure, None);
}
