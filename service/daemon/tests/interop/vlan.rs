//! IEEE 802.1Q: interfaces of weever's on a trunk, and kernels at the ports of a switch.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weever_daemon::Stack;
use weever_daemon::config::{Interface, Share};
use weever_testbed::{Namespace, require_net_admin};

use super::switch::Switch;
use super::tool::await_that;
use crate::common::kernel::{
    await_echo, config, datagrams, errors, pings, prefix, start, through, udp,
};
use crate::common::peer::ECHO;

const NOT_OURS: &str = "IPv4 destination is not ours, and forwarding is off";
const NO_VLAN: &str = "VLAN of no interface";

fn v4(vlan: u16, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, vlan as u8, host)
}

fn v6(vlan: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x81, vlan, 0, 0, 0, 0, host)
}

/// weever is number 1 in each VLAN, and a kernel number 2.
fn interface(vlan: u16) -> Interface {
    let own = vec![prefix(v4(vlan, 1), 24), prefix(v6(vlan, 1), 64)];
    let mut interface = Interface::new("right0", own);
    interface.share = Share::None;
    if vlan > 0 {
        interface.name = format!("right0.{vlan}");
        interface.vlan = Some(vlan);
    }
    interface
}

fn network(vlans: &[u16]) -> (Namespace, Switch) {
    let stack = Namespace::new().unwrap();
    let switch = Switch::new(&stack, vlans);
    for (vlan, host) in vlans.iter().zip(&switch.hosts) {
        host.add_address(v4(*vlan, 2), 24).unwrap();
        host.speak_ipv6(v6(*vlan, 2), 64).unwrap();
        host.namespace().add_route(Ipv4Addr::UNSPECIFIED, 0, v4(*vlan, 1)).unwrap();
        host.namespace().add_route6(Ipv6Addr::UNSPECIFIED, 0, v6(*vlan, 1)).unwrap();
    }
    (stack, switch)
}

fn dropped(stack: &Stack, node: &str, reason: &str) -> u64 {
    let drops = stack.counters().drops;
    drops.iter().filter(|d| d.node == node && d.reason == reason).map(|d| d.packets).sum()
}

/// Each kernel has the whole conversation with weever's interface in its VLAN, frames as long as the
/// MTU allows and longer included: the tag does not count.
#[test]
fn kernels_in_vlans_talk_to_the_interfaces_there() {
    require_net_admin!();
    let vlans = [0, 5, 4094];
    let (inside, switch) = network(&vlans);
    let stack = start(&inside, config(vlans.map(interface).into()));
    for (vlan, host) in vlans.iter().zip(&switch.hosts) {
        for to in [IpAddr::V4(v4(*vlan, 1)), v6(*vlan, 1).into()] {
            datagrams(host, to);
            pings(host, to);
            errors(host, to);
        }
    }
    assert_eq!(stack.stop().failure, None);
}

/// An address of one VLAN is nobody's in another, and a frame of a VLAN without an interface is
/// dropped with its reason.
#[test]
fn vlans_are_apart() {
    require_net_admin!();
    let vlans = [5, 6, 7];
    let (inside, switch) = network(&vlans);
    let stack = start(&inside, config(vec![interface(5), interface(6)]));
    let [five, six, seven] = &switch.hosts[..] else { unreachable!("there are three") };
    for (host, vlan) in [(five, 5), (six, 6)] {
        await_echo(&udp(host, v4(vlan, 1).into(), ECHO), 100);
        await_echo(&udp(host, v6(vlan, 1).into(), ECHO), 100);
    }
    // Though its frames reach weever, to which they say that they are for another network.
    five.add_neighbour(v4(5, 9), inside.link("right0").unwrap().mac).unwrap();
    let stranger = udp(five, v4(5, 9).into(), ECHO);
    await_that("refused as nobody's", || {
        stranger.send(b"who?").unwrap();
        dropped(&stack, "RxL3IPv4Destination", NOT_OURS) > 0
    });
    // Nobody is in VLAN 7 but a kernel that asks for neighbours.
    let before = dropped(&stack, "RxL2EtherValidVlan", NO_VLAN);
    let lonely = udp(seven, v4(7, 1).into(), ECHO);
    await_that("dropped for its VLAN", || {
        // The kernel says so when it has found no neighbour.
        let _ = lonely.send(b"anyone?");
        dropped(&stack, "RxL2EtherValidVlan", NO_VLAN) > before
    });
    assert_eq!(stack.stop().failure, None);
}

/// A router on a stick: two VLANs of one cable, and packets go out where they came in.
#[test]
fn weever_routes_between_vlans() {
    require_net_admin!();
    let (inside, switch) = network(&[5, 6]);
    let mut config = config(vec![interface(5), interface(6)]);
    config.forwarding = true;
    config.interfaces[1].mtu = Some(1300);
    let stack = start(&inside, config);
    let [five, six] = &switch.hosts[..] else { unreachable!("there are two") };
    for (from, server, to) in [(five, six, 6), (six, five, 5)] {
        through(from, server, v4(to, 2).into());
        through(from, server, v6(to, 2).into());
    }
    assert_eq!(stack.stop().failure, None);
}
