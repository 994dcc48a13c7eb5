//! Finding a frame's addresses: instructions that the steering programs share.

use super::addresses::{AddressTable, HAS_MORE, HAS_V6, NEAR};
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
