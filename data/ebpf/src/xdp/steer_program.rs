//! The steering program's instructions.
//!
//! Registers that live through the program: R6 context, R7 where the frame's network header
//! begins, R8 the end of the frame, R9 this CPU's counters or null.

use super::Gate;
use super::addresses::{AddressTable, HAS_MORE, HAS_V6, NEAR};
use super::ports;
use super::{CTX_DATA, CTX_DATA_END, CTX_RX_QUEUE, ETHERNET};
use crate::asm::Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Label, Program, Width};
use crate::sys::{Map, XdpAction};

const VLAN_TAG: i16 = 4;
pub(super) const IPV4_HEADER: i16 = 20;
pub(super) const IPV4_DESTINATION: i16 = 16;
pub(super) const IPV6_HEADER: i16 = 40;
const IPV6_DESTINATION: i16 = 24;
pub(super) const IPV6_NEXT: i16 = 6;
pub(super) const ICMPV6: i32 = 58;
/// Type, code, checksum, reserved, target (RFC 4861 §4.3).
const SOLICITATION: i16 = 24;
const SOLICITATION_TARGET: i16 = 8;
const NEIGHBOUR_SOLICITATION: i32 = 135;
const NEIGHBOUR_ADVERTISEMENT: i32 = 136;
const ARP_BODY: i16 = 28;
const ARP_TARGET: i16 = 24;

/// Stack slots.
const KEY: i16 = -4;
const ADDRESS: i16 = -8;
/// Two for [`ports`], and then this.
const ADDRESS6: i16 = -32;

/// Offsets in the counters' value.
const REDIRECTED: i16 = 0;
const PASSED: i16 = 8;

/// A 16-bit number in network order, as loading it from a frame yields it.
pub(super) fn network(number: u16) -> i32 {
    i32::from(u16::from_ne_bytes(number.to_be_bytes()))
}

/// What decides whether a frame is ours.
#[derive(Clone, Copy)]
pub(super) enum Rule<'a> {
    /// It is there.
    Any,
    /// It is for one of the addresses.
    Addresses(&'a AddressTable),
    /// It is for one of the addresses and one of the ports.
    Ports(&'a AddressTable, &'a Map),
}

pub(super) fn emit(sockets: &Map, gate: &Gate) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let passed = enter(&mut asm, gate);
    redirect(&mut asm, sockets);
    leave(&mut asm, passed);
    asm.assemble()
}

/// Falls through if the frame is ours, and leaves the context in R6 and the counters in R9. What is
/// not ours goes to the label, if there is one, which [`leave`] binds.
pub(super) fn enter(asm: &mut Assembler, gate: &Gate) -> Option<Label> {
    find_counters(asm, &gate.counters);
    // The verifier does not accept what cannot be reached.
    let pass = match gate.rule() {
        Rule::Any => return None,
        Rule::Addresses(_) | Rule::Ports(..) => asm.label("pass"),
    };
    match gate.rule() {
        Rule::Any => {}
        Rule::Addresses(addresses) => require_address(asm, addresses, pass),
        Rule::Ports(addresses, bound) => ports::require_port(asm, addresses, bound, pass),
    }
    Some(pass)
}

fn find_counters(asm: &mut Assembler, counters: &Map) {
    asm.note("find this CPU's counters");
    asm.mov(R6, R1);
    asm.store(Width::W, R10, KEY, 0);
    asm.load_map(R1, counters).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).mov(R9, R0);
}

/// Goes to `pass` unless the frame is for one of our addresses, or asks or tells whose they are.
fn require_address(asm: &mut Assembler, addresses: &AddressTable, pass: Label) {
    let (ipv4, arp, ipv6) = (asm.label("ipv4"), asm.label("arp"), asm.label("ipv6"));
    let (loaded, ours) = (asm.label("loaded"), asm.label("ours"));
    parse_ethernet(asm, pass);
    asm.note("tell IPv4, ARP and IPv6 apart");
    asm.jump_if(Cond::Eq, R1, network(0x0800), ipv4);
    asm.jump_if(Cond::Eq, R1, network(0x0806), arp);
    asm.jump_if(Cond::Eq, R1, network(0x86dd), ipv6);
    asm.jump(pass);

    asm.bind(ipv6);
    find_destination6(asm, addresses, pass);
    asm.jump_if(Cond::Ne, R0, 0, ours);
    solicited_target(asm, pass);
    find6(asm, addresses, IPV6_HEADER + SOLICITATION_TARGET);
    asm.jump_if(Cond::Eq, R0, 0, pass).jump(ours);

    asm.bind(ipv4).note("IPv4: the destination");
    require(asm, IPV4_HEADER, pass);
    asm.load(Width::W, R3, R7, IPV4_DESTINATION).jump(loaded);

    asm.bind(arp).note("ARP for IPv4 over Ethernet: the target");
    require(asm, ARP_BODY, pass);
    // Hardware type 1, protocol type 0x0800, lengths 6 and 4 (RFC 826).
    for (offset, expected) in [(0, 1), (2, 0x0800), (4, 0x0604)] {
        asm.load(Width::H, R1, R7, offset).jump_if(Cond::Ne, R1, network(expected), pass);
    }
    asm.load(Width::W, R3, R7, ARP_TARGET).bind(loaded);
    require_owned(asm, addresses, pass);
    asm.bind(ours);
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

/// Goes to `pass` unless the IPv6 packet at R7 solicits a neighbour, or says that it is one. A
/// solicitation goes to a multicast address that the kernel's addresses may share (RFC 4291
/// §2.7.1), and the answer to a question whether an address is free goes to all nodes (RFC 4861
/// §7.2.4), so only the target tells whom it concerns.
fn solicited_target(asm: &mut Assembler, pass: Label) {
    let concerns = asm.label("concerns");
    asm.note("IPv6: the target of a neighbour's solicitation or advertisement");
    asm.load(Width::B, R1, R7, IPV6_NEXT).jump_if(Cond::Ne, R1, ICMPV6, pass);
    require(asm, IPV6_HEADER + SOLICITATION, pass);
    asm.load(Width::B, R1, R7, IPV6_HEADER);
    asm.jump_if(Cond::Eq, R1, NEIGHBOUR_SOLICITATION, concerns);
    asm.jump_if(Cond::Ne, R1, NEIGHBOUR_ADVERTISEMENT, pass);
    asm.bind(concerns);
}

/// Looks up the 16 bytes at `offset` behind R7; the result is in R0.
fn find6(asm: &mut Assembler, addresses: &AddressTable, offset: i16) {
    for word in 0..4 {
        asm.load(Width::W, R1, R7, offset + 4 * word);
        asm.store(Width::W, R10, ADDRESS6 + 4 * word, R1);
    }
    asm.load_map(R1, &addresses.v6).mov(R2, R10).alu(AluOp::Add, R2, i32::from(ADDRESS6));
    asm.call(Helper::MAP_LOOKUP_ELEM);
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

/// Goes to `pass` unless the address in R3 is ours.
pub(super) fn require_owned(asm: &mut Assembler, addresses: &AddressTable, pass: Label) {
    let owned = asm.label("owned");
    asm.note("is it one of the near addresses?").load_map_value(R2, &addresses.near, 0);
    // 0.0.0.0 fills the unused places and is nobody's.
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

/// To the queue's socket; the kernel's helper answers "pass" itself if there is none.
fn redirect(asm: &mut Assembler, sockets: &Map) {
    asm.note("to the socket of the queue");
    asm.load(Width::W, R2, R6, CTX_RX_QUEUE);
    asm.load_map(R1, sockets).mov(R3, XdpAction::Pass as i32).call(Helper::REDIRECT_MAP);
    account(asm);
}

/// Counts by what R0 says becomes of the frame, and ends.
pub(super) fn account(asm: &mut Assembler) {
    let (passed, done) = (asm.label("no socket"), asm.label("done"));
    asm.jump_if(Cond::Eq, R9, 0, done);
    asm.jump_if(Cond::Ne, R0, XdpAction::Redirect as i32, passed);
    count(asm, REDIRECTED);
    asm.bind(done).exit();
    asm.bind(passed);
    count(asm, PASSED);
    asm.exit();
}

/// Where what is not ours goes.
pub(super) fn leave(asm: &mut Assembler, passed: Option<Label>) {
    let Some(pass) = passed else { return };
    let done = asm.label("passed");
    asm.note("leave it to the kernel");
    asm.bind(pass).mov(R0, XdpAction::Pass as i32).jump_if(Cond::Eq, R9, 0, done);
    count(asm, PASSED);
    asm.bind(done).exit();
}

/// R9 leads to this CPU's own value, and nothing else runs on it meanwhile: no atomics needed.
fn count(asm: &mut Assembler, offset: i16) {
    asm.load(Width::DW, R1, R9, offset).alu(AluOp::Add, R1, 1);
    asm.store(Width::DW, R9, offset, R1);
}
