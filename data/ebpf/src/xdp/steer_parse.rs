//! Finding a frame's addresses and ports: instructions that the steering programs share.
//!
//! Of the ports on the kernel's addresses, ours are TCP and UDP packets to a port that was added, and ICMP
//! errors about packets that came from one. *Fragments stay with the kernel*, the first ones too: only the
//! first has the ports, and half a datagram is of no use to either. So do IPv6 packets with extension headers.

use super::addresses::{AddressTable, HAS_MORE, HAS_V6, NEAR};
use super::ports::{HELD, PortTable};
use super::{CTX_DATA, CTX_DATA_END, ETHERNET};
use crate::asm::Reg::{R0, R1, R2, R3, R6, R7, R8, R10};
use crate::asm::{AluOp, Assembler, Cond, Helper, Label, Width};

const VLAN_TAG: i16 = 4;
pub(super) const IPV4_HEADER: i16 = 20;
pub(super) const IPV4_DESTINATION: i16 = 16;
pub(super) const IPV6_HEADER: i16 = 40;
const IPV6_DESTINATION: i16 = 24;
pub(super) const IPV6_NEXT: i16 = 6;
pub(super) const ICMPV6: i32 = 58;
const ADDRESS: i16 = -8;
/// Two for [`ports`], and then this.
const ADDRESS6: i16 = -32;

/// Where frames go that do not go to a socket.
#[derive(Clone, Copy)]
pub(super) struct Exits {
    /// To the kernel: they are not ours.
    pub(super) pass: Label,
    /// To nobody while there is a lease: they are for a port of ours. Bound by the caller.
    pub(super) closed: Label,
}

/// A 16-bit number in network order, as loading it from a frame yields it.
pub(super) fn network(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// Leaves the EtherType in R1 (network order) and the network header's start in R7; steps over
/// one 802.1Q tag.
pub(super) fn parse_ethernet(asm: &mut Assembler, pass: Label) {
    let untagged = asm.label("untagged");
    asm.note("parse Ethernet");
    asm.load(Width::W, R7, R6, CTX_DATA).load(Width::W, R8, R6, CTX_DATA_END);
    require(asm, ETHERNET, pass);
    asm.load(Width::H, R1, R7, 12).alu(AluOp::Add, R7, i32::from(ETHERNET));
    asm.jump_if(Cond::Ne, R1, network(0x8100), untagged);
    asm.note("step over an 802.1Q tag");
    require(asm, VLAN_TAG, pass);
    asm.load(Width::H, R1, R7, 2).alu(AluOp::Add, R7, i32::from(VLAN_TAG));
    asm.bind(untagged);
}

/// Goes to `pass` unless the frame has `bytes` more from R7 on.
pub(super) fn require(asm: &mut Assembler, bytes: i16, pass: Label) {
    asm.mov(R2, R7).alu(AluOp::Add, R2, i32::from(bytes));
    asm.jump_if(Cond::Gt, R2, R8, pass);
}

/// Leaves in R0 whether the IPv6 packet at R7 is for one of our addresses; goes to `pass` if there
/// are none.
pub(super) fn find_destination6(asm: &mut Assembler, addresses: &AddressTable, pass: Label) {
    asm.note("IPv6: the destination");
    require(asm, IPV6_HEADER, pass);
    asm.load_map_value(R2, &addresses.near, 0);
    asm.load(Width::B, R1, R2, HAS_V6).jump_if(Cond::Eq, R1, 0, pass);
    find6(asm, addresses, IPV6_DESTINATION);
}

/// Looks up the 16 bytes at `offset` behind R7; the result is in R0.
pub(super) fn find6(asm: &mut Assembler, addresses: &AddressTable, offset: i16) {
    for word in 0..4 {
        asm.load(Width::W, R1, R7, offset + 4 * word);
        asm.store(Width::W, R10, ADDRESS6 + 4 * word, R1);
    }
    asm.load_map(R1, &addresses.v6).mov(R2, R10).alu(AluOp::Add, R2, i32::from(ADDRESS6));
    asm.call(Helper::MAP_LOOKUP_ELEM);
}

/// Goes to `pass` unless the address in R3 is ours.
pub(super) fn require_owned(asm: &mut Assembler, addresses: &AddressTable, pass: Label) {
    let owned = asm.label("owned");
    asm.note("is it one of the near addresses?").load_map_value(R2, &addresses.near, 0);
    // 0.0.0.0 fills the unused places; no host has it.
    asm.jump_if(Cond::Eq, R3, 0, pass);
    for place in 1..=NEAR as i16 {
        asm.load(Width::W, R1, R2, 4 * place).jump_if(Cond::Eq, R1, R3, owned);
    }
    asm.note("are there more, and is it one of them?");
    asm.load(Width::B, R1, R2, HAS_MORE).jump_if(Cond::Eq, R1, 0, pass);
    asm.store(Width::W, R10, ADDRESS, R3);
    asm.load_map(R1, &addresses.v4).mov(R2, R10).alu(AluOp::Add, R2, i32::from(ADDRESS));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, pass);
    asm.bind(owned);
}

/// The key's place on the stack: protocol and port, two bytes each.
const KEY: i16 = -12;
const KEY_PORT: i16 = -10;

const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const ICMP: i32 = 1;
/// Bytes of an ICMP error before the packet that it is about (RFC 792, RFC 4443 §3).
const ICMP_HEADER: i16 = 8;

/// Leaves unless the frame is for one of the addresses and one of the ports.
pub(super) fn require_port(
    asm: &mut Assembler,
    addresses: &AddressTable,
    ports: &PortTable,
    Exits { pass, closed }: Exits,
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
    asm.bind(lookup);
    let taken = asm.label("taken");
    if let Some(range) = ports.range {
        find_in_range(asm, range, taken);
    }
    asm.note("is it one of the ports?");
    asm.load_map(R1, &ports.bound).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, pass);
    asm.load(Width::B, R1, R0, 0).jump_if(Cond::Eq, R1, i32::from(HELD), closed);
    asm.bind(taken);
}

const TCP: i32 = 6;
const UDP: i32 = 17;

/// Goes to `taken` if the port in the key is in the range.
fn find_in_range(asm: &mut Assembler, (first, last): (u16, u16), taken: Label) {
    let other = asm.label("not in the range");
    asm.note("is it in the range of ports?");
    asm.load(Width::H, R1, R10, KEY_PORT).big_endian(R1, 16);
    asm.jump_if(Cond::Lt, R1, i32::from(first), other);
    asm.jump_if(Cond::Gt, R1, i32::from(last), other);
    asm.load(Width::H, R1, R10, KEY);
    asm.jump_if(Cond::Eq, R1, TCP, taken).jump_if(Cond::Eq, R1, UDP, taken);
    asm.bind(other);
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
