//! radvd as the router: it answers solicitations, advertises a prefix, and says when it ends.

use std::net::Ipv6Addr;

use weever_daemon::config::{Interface, Share};
use weever_testbed::{Fixture, require_net_admin};

use super::tool::{Tool, await_that, directory, is_there};
use crate::common::kernel::{await_echo, config, start, udp};
use crate::common::peer::ECHO;

const PREFIX: &str = "fd00:82::";
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x82, 0, 0, 0, 0, 0, 1);
const FAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1);

/// It sends unsolicited advertisements so seldom that an early address proves a solicitation.
const CONFIG: &str = "interface left0 {
    AdvSendAdvert on;
    MinRtrAdvInterval 600;
    MaxRtrAdvInterval 1200;
    AdvLinkMTU 1400;
    prefix fd00:82::/64 { AdvOnLink on; AdvAutonomous on; };
};
";

fn router(net: &Fixture) -> Tool {
    let directory = directory();
    let (file, pid) = (directory.join("radvd.conf"), directory.join("pid"));
    std::fs::write(&file, CONFIG).unwrap();
    let words = ["-n", "-m", "stderr", "-C"].map(String::from);
    let rest = [file.display().to_string(), "-p".into(), pid.display().to_string()];
    Tool::start(&net.left, "radvd", directory, &[&words[..], &rest].concat())
}

/// A kernel at the stack's end that listens to routers too hears the same ones.
#[test]
fn a_router_that_is_asked_gives_an_address_and_a_way_out() {
    require_net_admin!();
    if !is_there("radvd") {
        return;
    }
    for share in [Share::None, Share::Address] {
        let net = Fixture::pair(1).unwrap();
        net.veth.left.speak_ipv6(ROUTER, 64).unwrap();
        net.left.add_address6("left0", FAR, 128, false).unwrap();
        net.left.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
        let mut router = router(&net);
        await_that("a router", || router.directory.join("pid").exists());
        let mut interface = Interface::new("right0", Vec::new());
        (interface.share, interface.slaac) = (share, true);
        let stack = start(&net.right, config(vec![interface]));
        let own = || {
            let all = stack.status().interfaces.remove(0).addresses;
            all.into_iter().find(|address| address.starts_with(PREFIX.trim_end_matches("::")))
        };
        await_that("given an address", || own().is_some());
        let address: Ipv6Addr = own().unwrap().split('/').next().unwrap().parse().unwrap();
        let routes = || stack.status().routes;
        let default = |route: &weever_service_api::RouteStatus| route.to == "::/0";
        assert!(routes().iter().any(|r| default(r) && r.origin == "ra"), "{:?}", routes());
        await_echo(&udp(&net.veth.left, address.into(), ECHO), 2000);
        let far = net.left.run(|| std::net::UdpSocket::bind((FAR, 0))).unwrap();
        far.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        far.connect((address, ECHO)).unwrap();
        await_echo(&far, 100);
        if share == Share::Address {
            the_kernel_beside_hears_it_too(&net);
        }
        // "When a router ceases to be one": with a lifetime of zero (RFC 4861 §6.2.5).
        router.end();
        await_that("without a router", || !routes().iter().any(default));
        assert_eq!(stack.stop().failure, None);
    }
}

/// Its end has a stack of its own, which asks now.
fn the_kernel_beside_hears_it_too(net: &Fixture) {
    net.right.sysctl("net/ipv6/conf/right0/accept_ra", "1").unwrap();
    net.right.speak_ipv6().unwrap();
    let known = || std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
    await_that("heard by the kernel beside", || {
        net.right.run(known).lines().any(|line| line.starts_with("fd00008200000000"))
    });
}
