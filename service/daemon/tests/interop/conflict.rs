//! Two hosts that want one IPv4 address (RFC 5227), one of them a kernel.

use std::net::Ipv4Addr;
use std::time::Duration;

use weever_daemon::Stack;
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_service_api::{Client, SetRequest};
use weever_testbed::{Fixture, require_net_admin};
use weever_wire::arp::ArpView;

use super::tool::await_that;
use crate::common::kernel::{WEEVER, await_echo, config, interface, start, udp, wire};
use crate::common::peer::ECHO;

const ARP: u16 = 0x0806;
const BROADCAST: [u8; 6] = [0xff; 6];
const FREE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 77);

fn set(stack: &Stack, assignment: &str) {
    let mut client = Client::connect(stack.control_path().unwrap()).unwrap();
    client.call(&assignment.parse::<SetRequest>().unwrap()).unwrap();
}

/// An ARP packet, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    to: [u8; 6],
    by: [u8; 6],
    is_request: bool,
    sender: Ipv4Addr,
    target: Ipv4Addr,
}

fn said(frame: &[u8]) -> Option<Said> {
    let arp = ArpView::new(frame.get(14..)?).ok()?;
    let header = arp.header();
    let is_request = frame[20..22] == [0, 1];
    let (to, by) = (frame[..6].try_into().ok()?, frame[22..28].try_into().ok()?);
    Some(Said { to, by, is_request, sender: header.spa(), target: header.tpa() })
}

/// A stack at weever's end that probes for its addresses or does not, and an ear at the kernel's, open
/// before the stack says anything.
fn heard(net: &Fixture, probe: bool) -> (PacketSocket, Stack) {
    let ear = net.left.run(|| PacketSocket::open("left0", Protocol::EtherType(ARP))).unwrap();
    let mut config = config(vec![interface()]);
    config.probe = probe;
    (ear, start(&net.right, config))
}

/// The packets heard at the kernel's end until `enough`.
fn hear(socket: &PacketSocket, what: &str, mut enough: impl FnMut(&[Said]) -> bool) -> Vec<Said> {
    let (mut heard, mut room) = (Vec::new(), [0; 2000]);
    await_that(what, || {
        // A device that goes down says so to its sockets.
        while let Ok(Some(n)) = socket.receive(&mut room, Duration::from_millis(10)) {
            heard.extend(said(&room[..n]));
        }
        enough(&heard)
    });
    heard
}

/// §2.1.1 and §2.3: three probes, from nobody, and two announcements; then it is in use.
#[test]
fn an_address_that_nobody_has_is_probed_announced_and_used() {
    require_net_admin!();
    let net = wire();
    let (ear, stack) = heard(&net, true);
    set(&stack, &format!("interface.right0.addr+={FREE}/24"));
    assert!(stack.status().interfaces[0].tentative.contains(&format!("{FREE}/24")));
    let mac = net.veth.right.mac;
    let nobody = Ipv4Addr::UNSPECIFIED;
    let probe = Said { to: BROADCAST, by: mac, is_request: true, sender: nobody, target: FREE };
    let announcement = Said { sender: FREE, ..probe };
    let count = |heard: &[Said], one: Said| heard.iter().filter(|said| **said == one).count();
    let heard = hear(&ear, "announced twice", |heard| count(heard, announcement) >= 2);
    assert_eq!((count(&heard, probe), count(&heard, announcement)), (3, 2), "{heard:?}");
    let at = |one: Said| heard.iter().position(|said| *said == one);
    assert!(at(probe) < at(announcement));
    await_echo(&udp(&net.veth.left, FREE.into(), ECHO), 100);
    assert_eq!(stack.stop().failure, None);
}

/// The kernel answers the first probe, and nothing is ever announced.
#[test]
fn an_address_that_the_kernel_has_is_left_to_it() {
    require_net_admin!();
    let net = wire();
    let (ear, stack) = heard(&net, true);
    let wanted = format!("{}/24", Fixture::LEFT);
    set(&stack, &format!("interface.right0.addr+={wanted}"));
    await_that("found to be the kernel's", || {
        stack.status().interfaces[0].duplicate.contains(&wanted)
    });
    assert!(!stack.status().interfaces[0].addresses.contains(&wanted));
    let heard = hear(&ear, "quiet", |_| true);
    assert!(!heard.iter().any(|said| said.sender == Fixture::LEFT), "{heard:?}");
    await_echo(&udp(&net.veth.left, WEEVER.into(), ECHO), 100);
    assert_eq!(stack.stop().failure, None);
}

/// §2.1.1: a host that probes for our address is told that it is taken.
#[test]
fn a_probe_for_our_address_is_answered() {
    require_net_admin!();
    let net = wire();
    let (socket, stack) = heard(&net, false);
    let mac = net.veth.left.mac;
    let fixed = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    let target = WEEVER.octets();
    let probe = [&BROADCAST[..], &mac, &fixed, &mac, &[0; 4], &[0; 6], &target, &[0; 18]].concat();
    let answer = Said {
        to: mac,
        by: net.veth.right.mac,
        is_request: false,
        sender: WEEVER,
        target: Ipv4Addr::UNSPECIFIED,
    };
    hear(&socket, "told", |heard| {
        socket.send(&probe).unwrap();
        heard.contains(&answer)
    });
    assert_eq!(stack.stop().failure, None);
}

/// §2.4 (b): a kernel takes our address all the same and says so; it is told once that it is ours, and
/// we go on using it.
#[test]
fn an_address_is_defended_against_a_kernel_that_takes_it() {
    require_net_admin!();
    let net = wire();
    let (ear, stack) = heard(&net, false);
    let defence = Said {
        to: BROADCAST,
        by: net.veth.right.mac,
        is_request: true,
        sender: WEEVER,
        target: WEEVER,
    };
    // It looks like an announcement; wait until the first two of those have been sent.
    let announced = || {
        let nodes = stack.counters().nodes;
        let timer = nodes.iter().find(|node| node.name == "TxL3ARPTimer").unwrap();
        timer.own.iter().find(|own| own.name == "announcements").unwrap().value
    };
    await_that("announced", || announced() == 2);
    await_echo(&udp(&net.veth.left, WEEVER.into(), ECHO), 100);
    hear(&ear, "quiet", |_| true);
    // A kernel announces its addresses when its station gets another one, if it is told to.
    net.left.sysctl("net/ipv4/conf/left0/arp_notify", "1").unwrap();
    net.left.add_address("left0", WEEVER, 32).unwrap();
    net.left.set_mac("left0", [2, 0, 0, 0, 0x77, 1]).unwrap();
    let conflicts = || {
        let drops = stack.counters().drops;
        let of = drops.iter().filter(|drop| drop.reason == "another station uses our IPv4 address");
        of.map(|drop| drop.packets).sum::<u64>()
    };
    hear(&ear, "defended", |heard| heard.contains(&defence));
    // Once in ten seconds: two stations that defend do not shout at each other for ever.
    let before = conflicts();
    net.left.set_mac("left0", [2, 0, 0, 0, 0x77, 2]).unwrap();
    await_that("claimed again", || conflicts() > before);
    let again = hear(&ear, "quiet", |_| true);
    assert!(!again.contains(&defence), "{again:?}");
    assert!(stack.status().interfaces[0].addresses.contains(&format!("{WEEVER}/24")));
    assert_eq!(stack.stop().failure, None);
}
