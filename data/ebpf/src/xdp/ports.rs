//! The ports that are ours on the kernel's addresses, and the part of the steering program that
//! tells them.
//!
//! Ours are TCP and UDP packets to a port that was added, and ICMP errors about packets that came
//! from one. *Fragments stay with the kernel*, the first ones too: only the first has the ports, and
//! half a datagram is of no use to either. So do IPv6 packets with extension headers.

use super::addresses::AddressTable;
use super::steer_parse::{
    ICMPV6, IPV4_DESTINATION, IPV4_HEADER, IPV6_HEADER, IPV6_NEXT, find_destination6, network,
    parse_ethernet, require, require_owned,
};
use crate::asm::Reg::{R0, R1, R2, R3, R7, R10};
use crate::asm::{AluOp, Assembler, Cond, Helper, Label, Width};
use crate::sys::Map;

/// The key's place on the stack: protocol and port, two bytes each.
const KEY: i16 = -12;
const KEY_PORT: i16 = -10;

const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const ICMP: i32 = 1;
/// Bytes of an ICMP error before the packet that it is about (RFC 792, RFC 4443 §3).
const ICMP_HEADER: i16 = 8;

/// Goes to `pass` unless the frame is for one of the addresses and one of the ports.
pub(super) fn require_port(
    asm: &mut Assembler,
    addresses: &AddressTable,
    bound: &Map,
    pass: Label,
) {
    let (ipv4, ipv6, lookup) = (asm.label("ipv4"), asm.label("ipv6"), asm.label("lookup"));
    let transport = asm.label("transport");
    parse_ethernet(asm, pass);
    asm.note("tell IPv4 from IPv6");
    asm.jump_if(Cond::Eq, R1, network(0x0800), ipv4);
    asm.jump_if(Cond::Eq, R1, network(0x86dd), ipv6);
    asm.jump(pass);

    asm.bind(ipv6);
    let icmp6 = packet6(asm, addresses, pass);
    asm.jump(transport);
    asm.bind(icmp6);
    quoted6(asm, pass);
    asm.jump(lookup);

    asm.bind(ipv4);
    let icmp = packet4(asm, addresses, pass);
    asm.jump(transport);
    asm.bind(icmp);
    quoted4(asm, pass);
    asm.jump(lookup);

    asm.bind(transport).note("the destination port");
    require(asm, 4, pass);
    asm.load(Width::H, R1, R7, 2).store(Width::H, R10, KEY_PORT, R1);
    asm.bind(lookup).note("is it one of the ports?");
    asm.load_map(R1, bound).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, pass);
}

/// Moves R7 behind the header of an IPv4 packet to us; the protocol goes into the key. Returns
/// where ICMP goes.
fn packet4(asm: &mut Assembler, addresses: &AddressTable, pass: Label) -> Label {
    let icmp = asm.label("icmp");
    asm.note("IPv4: the destination");
    require(asm, IPV4_HEADER, pass);
    asm.load(Width::W, R3, R7, IPV4_DESTINATION);
    require_owned(asm, addresses, pass);
    asm.note("IPv4: no fragment");
    asm.load(Width::H, R1, R7, IPV4_FRAGMENT).alu32(AluOp::And, R1, network(0x3fff));
    asm.jump_if(Cond::Ne, R1, 0, pass);
    asm.note("IPv4: behind the header");
    asm.load(Width::B, R1, R7, IPV4_PROTOCOL).store(Width::H, R10, KEY, R1);
    skip_ipv4(asm, 0);
    asm.jump_if(Cond::Eq, R1, ICMP, icmp);
    icmp
}

/// Moves R7 behind the IPv4 header that starts `offset` behind it.
fn skip_ipv4(asm: &mut Assembler, offset: i16) {
    asm.load(Width::B, R2, R7, offset).alu32(AluOp::And, R2, 0xf).alu32(AluOp::Lsh, R2, 2);
    asm.alu(AluOp::Add, R7, R2);
    if offset != 0 {
        asm.alu(AluOp::Add, R7, i32::from(offset));
    }
}

/// As [`packet4`] for IPv6.
fn packet6(asm: &mut Assembler, addresses: &AddressTable, pass: Label) -> Label {
    let icmp = asm.label("icmpv6");
    find_destination6(asm, addresses, pass);
    asm.jump_if(Cond::Eq, R0, 0, pass);
    asm.note("IPv6: behind the header");
    asm.load(Width::B, R1, R7, IPV6_NEXT).store(Width::H, R10, KEY, R1);
    asm.alu(AluOp::Add, R7, i32::from(IPV6_HEADER));
    asm.jump_if(Cond::Eq, R1, ICMPV6, icmp);
    icmp
}

/// The source port of the packet that an ICMP error is about: unreachable, time exceeded or
/// parameter problem.
fn quoted4(asm: &mut Assembler, pass: Label) {
    let error = asm.label("icmp error");
    asm.note("ICMP: an error about a packet of ours?");
    require(asm, ICMP_HEADER + IPV4_HEADER, pass);
    asm.load(Width::B, R1, R7, 0);
    for kind in [3, 11, 12] {
        asm.jump_if(Cond::Eq, R1, kind, error);
    }
    asm.jump(pass);
    asm.bind(error);
    asm.load(Width::B, R1, R7, ICMP_HEADER + IPV4_PROTOCOL).store(Width::H, R10, KEY, R1);
    skip_ipv4(asm, ICMP_HEADER);
    require(asm, 2, pass);
    asm.load(Width::H, R1, R7, 0).store(Width::H, R10, KEY_PORT, R1);
}

/// The same of an ICMPv6 error, types 1 to 4.
fn quoted6(asm: &mut Assembler, pass: Label) {
    asm.note("ICMPv6: an error about a packet of ours?");
    require(asm, ICMP_HEADER + IPV6_HEADER + 2, pass);
    asm.load(Width::B, R1, R7, 0);
    asm.jump_if(Cond::Eq, R1, 0, pass).jump_if(Cond::Gt, R1, 4, pass);
    asm.load(Width::B, R1, R7, ICMP_HEADER + IPV6_NEXT).store(Width::H, R10, KEY, R1);
    asm.load(Width::H, R1, R7, ICMP_HEADER + IPV6_HEADER).store(Width::H, R10, KEY_PORT, R1);
}
