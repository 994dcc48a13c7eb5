//! Instructions that lay a packet's fields out on the stack.
//!
//! Registers: R6 the context, R7 where the next header begins, R8 the end of the frame; R1 and R2
//! are scratch.

use super::layout::{AREA, HAS_FLAGS, HAS_PORTS, HAS_V4, HAS_V6, HAS_VLAN, PRESENT, SIZE};
use crate::asm::Reg::{R1, R2, R6, R7, R8, R10};
use crate::asm::{AluOp, Assembler, Cond, Label, Width};
use crate::xdp::steer_parse::{network, require};
use crate::xdp::{CTX_DATA, CTX_DATA_END, ETHERNET};

const TCP: i32 = 6;
const UDP: i32 = 17;
const SCTP: i32 = 132;

/// Where a field of the key area lies.
pub(super) fn at(offset: usize) -> i16 {
    AREA + offset as i16
}

/// Fills the key area, with the context in R6; falls through when done, for any frame.
pub(super) fn emit(asm: &mut Assembler) {
    let done = asm.label("parsed");
    asm.note("nothing is known of the frame");
    for word in 0..SIZE / 8 {
        asm.store(Width::DW, R10, at(8 * word), 0);
    }
    ethernet(asm, done);
    let (v4, v6, transport) = (asm.label("v4"), asm.label("v6"), asm.label("transport"));
    asm.jump_if(Cond::Eq, R1, network(0x0800), v4);
    asm.jump_if(Cond::Eq, R1, network(0x86dd), v6);
    asm.jump(done);
    asm.bind(v4);
    ipv4(asm, done);
    asm.jump(transport);
    asm.bind(v6);
    ipv6(asm, done);
    asm.bind(transport);
    ports(asm, done);
    asm.bind(done);
}

fn has(asm: &mut Assembler, bit: u8) {
    asm.load(Width::B, R2, R10, at(PRESENT)).alu(AluOp::Or, R2, i32::from(bit));
    asm.store(Width::B, R10, at(PRESENT), R2);
}

/// Leaves the EtherType in R1.
fn ethernet(asm: &mut Assembler, done: Label) {
    let (tagged, second, untagged) =
        (asm.label("tagged"), asm.label("second tag"), asm.label("untagged"));
    asm.note("Ethernet, and a tag of 802.1Q or 802.1ad");
    asm.load(Width::W, R7, R6, CTX_DATA).load(Width::W, R8, R6, CTX_DATA_END);
    require(asm, ETHERNET, done);
    asm.load(Width::H, R1, R7, 12).alu(AluOp::Add, R7, i32::from(ETHERNET));
    asm.jump_if(Cond::Eq, R1, network(0x8100), tagged);
    asm.jump_if(Cond::Ne, R1, network(0x88a8), untagged).bind(tagged);
    require(asm, 4, done);
    asm.load(Width::H, R1, R7, 0).alu(AluOp::And, R1, network(0x0fff));
    asm.store(Width::H, R10, at(40), R1);
    has(asm, HAS_VLAN);
    asm.load(Width::H, R1, R7, 2).alu(AluOp::Add, R7, 4);
    asm.note("a second tag").jump_if(Cond::Eq, R1, network(0x8100), second);
    asm.jump_if(Cond::Ne, R1, network(0x88a8), untagged).bind(second);
    require(asm, 4, done);
    asm.load(Width::H, R1, R7, 2).alu(AluOp::Add, R7, 4);
    asm.bind(untagged).store(Width::H, R10, at(38), R1);
}

/// Leaves the protocol in R1 and R7 behind the header; goes to `done` at a fragment.
fn ipv4(asm: &mut Assembler, done: Label) {
    asm.note("IPv4");
    require(asm, 20, done);
    asm.load(Width::W, R1, R7, 12).store(Width::W, R10, at(0), R1);
    asm.load(Width::W, R1, R7, 16).store(Width::W, R10, at(16), R1);
    asm.load(Width::B, R1, R7, 9).store(Width::B, R10, at(36), R1);
    has(asm, HAS_V4);
    asm.load(Width::H, R1, R7, 6).alu(AluOp::And, R1, network(0x3fff));
    asm.jump_if(Cond::Ne, R1, 0, done);
    asm.load(Width::B, R1, R7, 0).alu(AluOp::And, R1, 0x0f).alu(AluOp::Lsh, R1, 2);
    asm.jump_if(Cond::Lt, R1, 20, done).alu(AluOp::Add, R7, R1);
}

/// Leaves R7 behind the header. Extension headers are not followed.
fn ipv6(asm: &mut Assembler, done: Label) {
    asm.note("IPv6");
    require(asm, 40, done);
    for (from, to) in [(8, 0), (16, 8), (24, 16), (32, 24)] {
        // The header begins at an even address, no more.
        for half in [0, 4] {
            asm.load(Width::W, R1, R7, from + half);
            asm.store(Width::W, R10, at(to) + half, R1);
        }
    }
    asm.load(Width::B, R1, R7, 6).store(Width::B, R10, at(36), R1);
    has(asm, HAS_V6);
    asm.alu(AluOp::Add, R7, 40);
}

fn ports(asm: &mut Assembler, done: Label) {
    let known = asm.label("has ports");
    asm.note("ports").load(Width::B, R1, R10, at(36));
    for protocol in [TCP, UDP, SCTP] {
        asm.jump_if(Cond::Eq, R1, protocol, known);
    }
    asm.jump(done).bind(known);
    require(asm, 4, done);
    asm.load(Width::W, R2, R7, 0).store(Width::W, R10, at(32), R2);
    has(asm, HAS_PORTS);
    asm.jump_if(Cond::Ne, R1, TCP, done);
    require(asm, 14, done);
    asm.load(Width::B, R1, R7, 13).store(Width::B, R10, at(37), R1);
    has(asm, HAS_FLAGS);
}
