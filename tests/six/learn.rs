//! A host learns from routers.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{setsockopt, sockopt};
use weever_testbed::{Namespace, Veth, require_net_admin};

use super::host::icmp;
use super::net::{ECHO, STACK, Up, at, echoes, index, net, socket};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A router advertisement (RFC 4861 §4.2): a router for half an hour, and a prefix (§4.6.2) that is
/// on link and makes addresses, for as long.
fn advertisement(prefix: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([3, 4, 64, 0xc0, 0, 0, 0x07, 0x08, 0, 0, 0x07, 0x08, 0, 0, 0, 0]);
    message.extend(prefix.octets());
    message
}

/// An address of the router's prefix, and a way to everybody through the router.
fn an_advertisement_makes_an_address_and_a_route(share: &str) {
    let net = net();
    let far = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
    let prefix = Ipv6Addr::new(0xfd88, 0, 0, 0, 0, 0, 0, 0);
    net.right.add_address6("right0", far, 128, false).unwrap();
    net.right.add_address6("right0", Ipv6Addr::from_bits(prefix.to_bits() | 2), 64, false).unwrap();
    let config =
        format!("dev = \"left0\"\nshare = \"{share}\"\nslaac = true\n[services]\necho = 7\n");
    let up = Up::start(&net.left, &config, &[]);
    up.address("fe80:");
    let router = icmp(&net.right);
    setsockopt(&router, sockopt::Ipv6MulticastHops, &255).unwrap();
    let send =
        || router.send_to(&advertisement(prefix), at(ALL_NODES, 0, index(&net.right, "right0")));
    // As routers do, again and again: the kernel's own link-local address, from which it sends, may
    // still be probed, and the device may not hand over packets for all nodes yet.
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let _ = send();
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
        });
        let made = up.address("fd88:");
        done.store(true, Ordering::Relaxed);
        made
    });
    let status = up.ask(&["status"]);
    assert!(status.contains("::/0 via fe80:") && status.contains("fd88::/64"), "{status}");
    assert!(echoes(&socket(&net.right, far, 0), at(made, ECHO, 0), 9000), "{}", up.tell());
}

#[test]
fn an_advertisement_makes_an_address() {
    require_net_admin!();
    an_advertisement_makes_an_address_and_a_route("none");
    an_advertisement_makes_an_address_and_a_route("address");
}

/// A kernel is the router, and its second link takes less: it says so, and the stack cuts its
/// answers accordingly.
#[test]
fn the_stack_learns_what_a_path_takes() {
    require_net_admin!();
    let [left, middle, right] = [(); 3].map(|()| Namespace::new().unwrap());
    let _one = Veth::create(&left, "left0", &middle, "port0", 1).unwrap();
    let _two = Veth::create(&middle, "port1", &right, "right0", 1).unwrap();
    for (namespace, link) in [(&middle, "port1"), (&right, "right0")] {
        namespace.set_mtu(link, 1280).unwrap();
    }
    let ip = |net: u16, host| Ipv6Addr::new(net, 0, 0, 0, 0, 0, 0, host);
    middle.speak_ipv6().unwrap();
    right.speak_ipv6().unwrap();
    middle.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    middle.add_address6("port0", ip(0xfd77, 1), 64, false).unwrap();
    middle.add_address6("port1", ip(0xfd78, 1), 64, false).unwrap();
    right.add_address6("right0", ip(0xfd78, 2), 64, false).unwrap();
    right.add_route6(Ipv6Addr::UNSPECIFIED, 0, ip(0xfd78, 1)).unwrap();
    let config = format!(
        "dev = \"left0\"\naddr = \"{STACK}/64\"\ngateway = \"fd77::1\"\n[services]\necho = 7\n"
    );
    let up = Up::start(&left, &config, &[]);
    up.address("fd77::10");
    let far = socket(&right, ip(0xfd78, 2), 0);
    for len in [100, 1400, 9000] {
        assert!(echoes(&far, at(STACK, ECHO, 0), len), "{len} bytes: {}", up.tell());
    }
}
