//! A lease from dnsmasq.

use std::net::Ipv4Addr;

use weever_daemon::config::{Interface, Share};
use weever_testbed::{Fixture, require_net_admin};

use super::tool::{Tool, await_that, directory, is_there};
use crate::common::kernel::{await_echo, config, payload, start, udp};
use crate::common::peer::ECHO;

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 50);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

fn server(net: &Fixture) -> Tool {
    let directory = directory();
    let leases = directory.join("leases").display().to_string();
    let pid = directory.join("pid").display().to_string();
    let args = [
        "--keep-in-foreground".into(),
        "--conf-file=/dev/null".into(),
        "--port=0".into(),
        "--user=root".into(),
        "--interface=left0".into(),
        "--bind-interfaces".into(),
        "--dhcp-authoritative".into(),
        "--dhcp-range=10.77.0.50,10.77.0.60,255.255.255.0,2m".into(),
        // The MTU, the default router, and classless routes, which take its place (RFC 3442).
        "--dhcp-option=26,1400".into(),
        "--dhcp-option=3,10.77.0.254".into(),
        "--dhcp-option=121,10.99.0.0/16,10.77.0.1".into(),
        format!("--dhcp-leasefile={leases}"),
        format!("--pid-file={pid}"),
    ];
    Tool::start(&net.left, "dnsmasq", directory, &args)
}

/// Discovered, offered, probed for, used, and given back; with every way of sharing in which an
/// interface may ask.
#[test]
fn a_lease_is_got_used_and_given_back() {
    require_net_admin!();
    if !is_there("dnsmasq") {
        return;
    }
    for share in [Share::None, Share::Address] {
        let net = Fixture::pair(1).unwrap();
        net.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX).unwrap();
        net.veth.left.add_address(FAR, 32).unwrap();
        let server = server(&net);
        let leases =
            || std::fs::read_to_string(server.directory.join("leases")).unwrap_or_default();
        let mut interface = Interface::new("right0", Vec::new());
        (interface.share, interface.dhcp) = (share, true);
        let stack = start(&net.right, config(vec![interface]));
        let now = || stack.status().interfaces.remove(0);
        await_that("given a lease", || !now().addresses.is_empty());
        let address: Ipv4Addr =
            now().addresses[0].strip_suffix("/24").expect("the server's mask").parse().unwrap();
        assert!((FIRST..=Ipv4Addr::new(10, 77, 0, 60)).contains(&address), "{address}");
        assert_eq!(now().mtu, 1400, "what the server says");
        assert!(leases().contains(&address.to_string()), "{}", leases());
        let routes = stack.status().routes;
        let by_dhcp: Vec<_> = routes.iter().filter(|route| route.origin == "dhcp").collect();
        assert!(by_dhcp.len() == 1 && by_dhcp[0].to == "10.99.0.0/16", "{routes:?}");
        let near = udp(&net.veth.left, address.into(), ECHO);
        await_echo(&near, 1300);
        // From beyond the router, by the route of the lease.
        let far = net.left.run(|| std::net::UdpSocket::bind((FAR, 0))).unwrap();
        far.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        far.connect((address, ECHO)).unwrap();
        await_echo(&far, payload(100).len());
        assert_eq!(stack.stop().failure, None);
        await_that("given back", || !leases().contains(&address.to_string()));
    }
}
