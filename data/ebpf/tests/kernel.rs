//! The bpf(2) layer and the steering program in the kernel. Without the rights for it each test
//! says so and returns.

mod common;

use std::net::Ipv4Addr;

use common::{XskSocket, arp, ethernet, ipv4, tagged, verdict};
use weever_ebpf::asm::Reg::{R0, R1, R2};
use weever_ebpf::asm::{Assembler, Width};
use weever_ebpf::sys::{BpfError, Map, MapKind, XdpAction, XdpProgram};
use weever_ebpf::xdp::{Share, Steer, SteerCounters, drop_all, pass};
use weever_testbed::require_net_admin;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

#[test]
fn maps_keep_what_they_are_given() {
    require_net_admin!();
    let map = Map::create(MapKind::Hash, "test hash!", 4, 2, 2).unwrap();
    let mut value = [0; 2];
    assert!(!map.lookup(&[1, 2, 3, 4], &mut value).unwrap());
    map.update(&[1, 2, 3, 4], &[5, 6]).unwrap();
    map.update(&[1, 2, 3, 5], &[7, 8]).unwrap();
    assert!(map.lookup(&[1, 2, 3, 4], &mut value).unwrap());
    assert_eq!(value, [5, 6]);
    let full = map.update(&[1, 2, 3, 6], &[0, 0]).unwrap_err();
    assert!(full.to_string().starts_with("update map `test hash!`"), "{full}");
    assert!(map.remove(&[1, 2, 3, 4]).unwrap());
    assert!(!map.remove(&[1, 2, 3, 4]).unwrap());
    let size = map.update(&[1], &[5, 6]).unwrap_err();
    assert!(matches!(size, BpfError::Size { what: "key", expected: 4, got: 1, .. }));
}

#[test]
fn a_rejection_shows_the_instruction_and_its_note() {
    require_net_admin!();
    let mut asm = Assembler::new();
    asm.note("find the frame").load(Width::W, R2, R1, 0);
    asm.note("read beyond the end").load(Width::B, R0, R2, 0);
    asm.note("done").exit();
    let error = XdpProgram::load("careless", &asm.assemble().unwrap()).unwrap_err();
    let BpfError::Rejected(rejection) = &error else { panic!("{error}") };
    assert_eq!(rejection.slot(), Some(1));
    let origin = rejection.origin().unwrap();
    assert_eq!((origin.note, origin.location.file()), ("read beyond the end", file!()));
    let text = error.to_string();
    for part in ["`careless`", "invalid access to packet", "find the frame", ">    1  r0 = *(u8"] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
}

#[test]
fn rejections_before_the_first_instruction_name_it_too() {
    require_net_admin!();
    let mut asm = Assembler::new();
    let end = asm.label("end");
    asm.jump(end).mov(R0, 1).bind(end).mov(R0, 2).exit();
    let error = XdpProgram::load("unreachable", &asm.assemble().unwrap()).unwrap_err();
    let BpfError::Rejected(rejection) = &error else { panic!("{error}") };
    assert_eq!(rejection.slot(), Some(1), "{error}");
}

#[test]
fn the_smallest_programs() {
    require_net_admin!();
    let frame = ethernet(0x0800, &[0; 46]);
    assert_eq!(pass().unwrap().run(&frame, 3).unwrap().action(), Some(XdpAction::Pass));
    assert_eq!(drop_all().unwrap().run(&frame, 1).unwrap().action(), Some(XdpAction::Drop));
}

#[test]
fn an_unshared_device_gives_all_to_the_socket_if_there_is_one() {
    require_net_admin!();
    let steer = Steer::load(Share::None, 4).unwrap();
    let frames = [ipv4(OTHER, 0), arp(OURS), ethernet(0x86dd, &[0; 60]), vec![0; 14]];
    for frame in &frames {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass));
    }
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    for frame in &frames {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Redirect));
    }
    assert_eq!(steer.counters().unwrap(), SteerCounters { redirected: 4, passed: 4, closed: 0 });
    assert!(steer.clear_socket(0).unwrap());
    assert_eq!(verdict(&steer, &frames[0]), Some(XdpAction::Pass));
    assert!(matches!(steer.add_address(OURS), Err(BpfError::Setting { .. })));
    assert!(steer.set_socket(4, &socket).is_err(), "only 4 queues");
}

#[test]
fn a_shared_device_gives_only_what_is_addressed_to_us() {
    require_net_admin!();
    let steer = Steer::load(Share::Address, 1).unwrap();
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    let ours = [
        ipv4(OURS, 0),
        ipv4(OURS, 0x2000),
        ipv4(OURS, 0x00b9),
        arp(OURS),
        tagged(&ipv4(OURS, 0)),
        tagged(&arp(OURS)),
    ];
    let mut strange_arp = arp(OURS);
    strange_arp[15] = 6;
    let theirs = [
        ipv4(OTHER, 0),
        arp(OTHER),
        strange_arp,
        tagged(&ipv4(OTHER, 0)),
        tagged(&tagged(&ipv4(OURS, 0))),
        ethernet(0x86dd, &[0; 60]),
        ethernet(0x0800, &[0; 19]),
        ethernet(0x0806, &[0; 27]),
        ethernet(0x8100, &[0, 1, 8]),
        ethernet(0x0800, &[]),
    ];
    for frame in ours.iter().chain(&theirs) {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "no address is ours yet");
    }
    steer.add_address(OURS).unwrap();
    for frame in &ours {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Redirect), "{frame:02x?}");
    }
    for frame in &theirs {
        assert_eq!(verdict(&steer, frame), Some(XdpAction::Pass), "{frame:02x?}");
    }
    assert_eq!(steer.counters().unwrap(), SteerCounters { redirected: 6, passed: 26, closed: 0 });
    assert!(steer.remove_address(OURS).unwrap());
    assert_eq!(verdict(&steer, &ours[0]), Some(XdpAction::Pass));
}

/// More addresses than the program compares one by one; no host has 0.0.0.0.
#[test]
fn many_addresses_come_and_go() {
    require_net_admin!();
    let steer = Steer::load(Share::Address, 1).unwrap();
    let socket = XskSocket::new().unwrap();
    steer.set_socket(0, &socket).unwrap();
    let all: Vec<_> = (1..=20).map(|i| Ipv4Addr::new(10, 0, 0, i)).collect();
    let expect = |ours: &[Ipv4Addr]| {
        for address in &all {
            let expected =
                if ours.contains(address) { XdpAction::Redirect } else { XdpAction::Pass };
            assert_eq!(verdict(&steer, &ipv4(*address, 0)), Some(expected), "{address}");
        }
        assert_eq!(verdict(&steer, &ipv4(Ipv4Addr::UNSPECIFIED, 0)), Some(XdpAction::Pass));
    };
    for n in 0..all.len() {
        expect(&all[..n]);
        steer.add_address(all[n]).unwrap();
        steer.add_address(all[n]).unwrap();
    }
    for n in 0..all.len() {
        expect(&all[n..]);
        assert!(steer.remove_address(all[n]).unwrap());
        assert!(!steer.remove_address(all[n]).unwrap());
    }
    expect(&[]);
    steer.add_address(Ipv4Addr::BROADCAST).unwrap();
    assert_eq!(verdict(&steer, &ipv4(Ipv4Addr::BROADCAST, 0)), Some(XdpAction::Redirect));
    assert!(matches!(steer.add_address(Ipv4Addr::UNSPECIFIED), Err(BpfError::Setting { .. })));
}
