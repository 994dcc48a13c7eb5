//! The frames that the steering program takes from a shared device, IPv6 and ports included.
//! Without the rights for it each test says so and returns.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use common::{XskSocket, arp, ethernet, ipv4, tagged, verdict};
use weever_ebpf::sys::{BpfError, XdpAction};
use weever_ebpf::xdp::{Gate, Port, PortTable, Share, Steer};
use weever_testbed::require_net_admin;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x50);
const OTHER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 1, 0, 0x50);

/// An IPv6 packet with that next header and payload.
fn ipv6(to: Ipv6Addr, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
    packet.extend([0xfe; 16]);
    packet.extend(to.octets());
    packet.extend(rest);
    ethernet(0x86dd, &packet)
}

fn solicitation(target: Ipv6Addr) -> Vec<u8> {
    let low = target.octets();
    let group =
        Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, low[13], low[14], low[15]]);
    let body = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &low].concat();
    ipv6(group, 58, &body)
}

#[test]
fn a_shared_device_gives_what_is_for_our_addresses_of_the_other_family() {
    require_net_admin!();
    let steer = Steer::load(Share::Address, 1).unwrap();
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
    // To all nodes: another host has the address that we asked for.
    let advertised = |target| {
        let mut frame = solicitation(target);
        frame[38..54].copy_from_slice(&Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets());
        frame[54] = 136;
        frame
    };
    let ours = [
        ipv6(OURS6, 17, &[0; 8]),
        ipv6(OURS6, 44, &[0; 8]),
        ipv6(group, 0, &[0; 8]),
        tagged(&ipv6(OURS6, 6, &[])),
        solicitation(OURS6),
        advertised(OURS6),
    ];
    let mut redirect = solicitation(OURS6);
    redirect[54] = 137;
    let theirs = [
        ipv6(OTHER6, 17, &[0; 8]),
        // The same group as ours: its low 24 bits are the same.
        solicitation(OTHER6),
        advertised(OTHER6),
        redirect,
        ipv6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 58, &[134, 0, 0, 0]),
        solicitation(OURS6)[..77].to_vec(),
        ipv6(OURS6, 17, &[])[..53].to_vec(),
        ipv4(OURS, 0),
    ];
    steer.add_address(OURS).unwrap();
    steer.remove_address(OURS).unwrap();
    for frame in &ours {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "no address is ours yet");
    }
    steer.add_address(OURS6).unwrap();
    steer.add_address(group).unwrap();
    for frame in &ours {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Redirect), "{frame:02x?}");
    }
    for frame in &theirs {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "{frame:02x?}");
    }
    assert!(steer.remove_address(OURS6).unwrap());
    assert_eq!(verdict(&steer, &ours[0]), Some(XdpAction::Pass));
    assert_eq!(verdict(&steer, &ours[2]), Some(XdpAction::Redirect), "the group is still ours");
    assert!(matches!(steer.add_port(Port::udp(7)), Err(BpfError::Setting { .. })));
}

/// Source and destination port, and some more.
fn ports(from: u16, to: u16) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 8]].concat()
}

/// An IPv4 packet with so many words of options.
fn packet4(to: Ipv4Addr, fragment: u16, options: u8, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45 + options, 0, 0, 0, 0, 0];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 9, 9, 9, 9]);
    packet.extend(to.octets());
    packet.extend(vec![1; 4 * usize::from(options)]);
    packet.extend(rest);
    packet
}

fn ports4(to: Ipv4Addr, fragment: u16, options: u8, protocol: u8, rest: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &packet4(to, fragment, options, protocol, rest))
}

/// An ICMP error about a packet that was sent from `from`.
fn icmp(kind: u8, options: u8, protocol: u8, from: u16) -> Vec<u8> {
    let quoted = packet4(OTHER, 0x4000, options, protocol, &ports(from, 53));
    ports4(OURS, 0, options, 1, &[&[kind, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat())
}

fn icmp6(kind: u8, protocol: u8, from: u16) -> Vec<u8> {
    let quoted = &ipv6(OTHER6, protocol, &ports(from, 53))[14..];
    ipv6(OURS6, 58, &[&[kind, 0, 0, 0, 0, 0, 0, 0][..], quoted].concat())
}

#[test]
fn a_device_shared_by_port_gives_only_what_is_for_our_ports() {
    require_net_admin!();
    let steer = Steer::load(Share::Ports, 1).unwrap();
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    let ours = [
        ports4(OURS, 0, 0, 17, &ports(9, 7)),
        ports4(OURS, 0x4000, 0, 17, &ports(9, 7)),
        ports4(OURS, 0, 10, 17, &ports(9, 7)),
        tagged(&ports4(OURS, 0, 0, 17, &ports(9, 7))),
        ipv6(OURS6, 17, &ports(9, 7)),
        icmp(3, 0, 17, 7),
        icmp(11, 4, 17, 7),
        icmp6(2, 17, 7),
    ];
    let theirs = [
        ports4(OURS, 0, 0, 17, &ports(7, 8)),
        ports4(OURS, 0, 0, 6, &ports(9, 7)),
        ports4(OTHER, 0, 0, 17, &ports(9, 7)),
        ports4(OURS, 0x2000, 0, 17, &ports(9, 7)),
        ports4(OURS, 0x00b9, 0, 17, &ports(9, 7)),
        ports4(OURS, 0, 0, 17, &ports(9, 7)[..3]),
        ports4(OURS, 0, 5, 17, &[]),
        icmp(8, 0, 17, 7),
        icmp(3, 0, 17, 8),
        icmp(3, 0, 6, 7),
        icmp(3, 0, 17, 7)[..62].to_vec(),
        ipv6(OURS6, 6, &ports(9, 7)),
        ipv6(OTHER6, 17, &ports(9, 7)),
        ipv6(OURS6, 44, &[17, 0, 0, 1, 0, 0, 0, 0]),
        icmp6(128, 17, 7),
        icmp6(1, 17, 8),
        solicitation(OURS6),
        arp(OURS),
    ];
    steer.add_address(OURS).unwrap();
    steer.add_address(OURS6).unwrap();
    for frame in ours.iter().chain(&theirs) {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "no port is ours yet");
    }
    steer.add_port(Port::udp(7)).unwrap();
    steer.add_port(Port::udp(7)).unwrap();
    for frame in &ours {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Redirect), "{frame:02x?}");
    }
    for frame in &theirs {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "{frame:02x?}");
    }
    steer.add_port(Port::tcp(7)).unwrap();
    assert_eq!(verdict(&steer, &theirs[1]), Some(XdpAction::Redirect));
    assert!(steer.remove_port(Port::udp(7)).unwrap() && !steer.remove_port(Port::udp(7)).unwrap());
    assert_eq!(verdict(&steer, &ours[0]), Some(XdpAction::Pass));
}

/// Ports 60000 to 60009, without a socket.
fn by_range(ports: PortTable) -> Steer {
    let steer = Steer::behind(Gate::by_port(ports).unwrap(), 1).unwrap();
    steer.add_address(OURS).unwrap();
    steer.add_address(OURS6).unwrap();
    steer
}

const RANGE: Option<(u16, u16)> = Some((60_000, 60_009));

#[test]
fn a_range_of_ports_is_ours_from_the_beginning_in_both_protocols_and_families() {
    require_net_admin!();
    let steer = by_range(PortTable::new(RANGE).unwrap());
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    let goes = |frame: &[u8]| verdict(&steer, frame);
    for (port, expected) in [
        (59_999, XdpAction::Pass),
        (60_000, XdpAction::Redirect),
        (60_009, XdpAction::Redirect),
        (60_010, XdpAction::Pass),
    ] {
        for protocol in [6, 17] {
            assert_eq!(goes(&ports4(OURS, 0, 0, protocol, &ports(9, port))), Some(expected));
            assert_eq!(goes(&ipv6(OURS6, protocol, &ports(9, port))), Some(expected));
            assert_eq!(goes(&icmp(3, 0, protocol, port)), Some(expected));
        }
        assert_eq!(goes(&ports4(OURS, 0, 0, 132, &ports(9, port))), Some(XdpAction::Pass));
        assert_eq!(goes(&ports4(OTHER, 0, 0, 6, &ports(9, port))), Some(XdpAction::Pass));
    }
    let backwards = PortTable::new(Some((9, 8))).unwrap_err();
    assert!(backwards.to_string().contains("smaller one first"), "{backwards}");
}

#[test]
fn what_finds_no_socket_is_dropped_until_the_lease_ends() {
    require_net_admin!();
    let steer = by_range(PortTable::new(RANGE).unwrap());
    steer.add_port(Port::tcp(80)).unwrap();
    let ours = [
        ports4(OURS, 0, 0, 6, &ports(9, 80)),
        ports4(OURS, 0, 0, 17, &ports(9, 60_000)),
        ipv6(OURS6, 6, &ports(9, 80)),
        icmp(3, 0, 6, 80),
    ];
    let all = |expected| {
        for frame in &ours {
            assert_eq!(verdict(&steer, frame), Some(expected), "{frame:02x?}");
        }
    };
    all(XdpAction::Pass);
    let lease = |time| steer.ports().unwrap().extend_lease(time).unwrap();
    lease(Duration::from_secs(600));
    all(XdpAction::Drop);
    assert_eq!(verdict(&steer, &ports4(OURS, 0, 0, 6, &ports(9, 81))), Some(XdpAction::Pass));
    let counters = steer.counters().unwrap();
    assert_eq!((counters.closed, counters.redirected), (4, 0));
    lease(Duration::ZERO);
    all(XdpAction::Pass);
    lease(Duration::MAX);
    all(XdpAction::Drop);
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    all(XdpAction::Redirect);
}

#[test]
fn the_next_program_holds_the_ports_of_the_one_before() {
    require_net_admin!();
    if let Err(why) = weever_testbed::own_bpf_files() {
        return println!("skipped: needs a BPF file system: {why}");
    }
    let path = Path::new(weever_testbed::BPF_FILES).join("ports");
    let first = PortTable::inherit(&path, RANGE).unwrap();
    first.pin(&path).unwrap();
    let first = by_range(first);
    for port in [Port::tcp(80), Port::udp(53)] {
        first.add_port(port).unwrap();
    }
    assert!(first.ports().unwrap().held().unwrap().is_empty());
    drop(first);
    let second = by_range(PortTable::inherit(&path, RANGE).unwrap());
    let socket = XskSocket::new().unwrap();
    second.set_socket(0, &socket).unwrap();
    second.ports().unwrap().extend_lease(Duration::from_secs(600)).unwrap();
    let mut held = second.ports().unwrap().held().unwrap();
    held.sort();
    assert_eq!(held, [Port::tcp(80), Port::udp(53)]);
    let web = ports4(OURS, 0, 0, 6, &ports(9, 80));
    assert_eq!(verdict(&second, &web), Some(XdpAction::Drop), "nobody serves it yet");
    second.add_port(Port::tcp(80)).unwrap();
    assert_eq!(verdict(&second, &web), Some(XdpAction::Redirect));
    assert!(second.remove_port(Port::udp(53)).unwrap());
    assert_eq!(verdict(&second, &ports4(OURS, 0, 0, 17, &ports(9, 53))), Some(XdpAction::Pass));
    assert!(second.ports().unwrap().held().unwrap().is_empty());
}
