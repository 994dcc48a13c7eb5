//! The whole program: parse, ask the tables, ask the tree, send.

use super::exact::{self, ExactTable};
use super::layout::{LAST_QUEUE, code_of};
use super::parse::{self, at};
use super::rule::{Rule, Target};
use super::sample::{self, Sampling};
use super::{Fallback, Sink, tree};
use crate::asm::Reg::{R0, R1, R2, R3, R6, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Program, Width};
use crate::sys::{Map, XdpAction};
use crate::xdp::CTX_RX_QUEUE;

/// Bits of a hash that number a place in the spreading table.
pub(super) const SPREAD_BITS: u32 = 7;

/// What a program is made of.
pub(super) struct Parts<'a> {
    pub(super) exact: &'a [ExactTable],
    pub(super) ordered: &'a [Rule],
    pub(super) ordered_hits: Option<&'a Map>,
    pub(super) sink: &'a Sink,
    pub(super) fallback: &'a Fallback,
    pub(super) spread: &'a Map,
    pub(super) missed: &'a Map,
    pub(super) sampling: Option<&'a Sampling>,
}

pub(super) fn emit(parts: &Parts<'_>) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let hit = asm.label("hit");
    parse::emit(&mut asm);
    for table in parts.exact {
        exact::emit(&mut asm, table, hit);
    }
    if let Some(hits) = parts.ordered_hits.filter(|_| !parts.ordered.is_empty()) {
        tree::emit(&mut asm, parts.ordered, &tree::build(parts.ordered), hits, hit);
    }
    fall_back(&mut asm, parts);
    asm.bind(hit);
    deliver(&mut asm, parts.sink);
    asm.assemble()
}

/// Leaves the target's code in R1.
fn fall_back(asm: &mut Assembler, parts: &Parts<'_>) {
    asm.note("no filter matches");
    asm.load_map_value(R2, parts.missed, 0).mov(R3, 1);
    asm.atomic(crate::asm::AtomicOp::Add, R2, 0, R3);
    if let Some(sampling) = parts.sampling {
        sample::emit(asm, sampling);
    }
    match parts.fallback {
        Fallback::To(target) => {
            asm.mov(R1, code_of(*target) as i32);
        }
        Fallback::Arrival => {
            asm.load(Width::W, R1, R6, CTX_RX_QUEUE);
        }
        Fallback::Spread(_) => spread(asm, parts.spread),
    }
}

/// The queue at the place that a hash of addresses and ports numbers.
fn spread(asm: &mut Assembler, table: &Map) {
    asm.note("spread by a hash");
    asm.load(Width::W, R1, R10, at(32));
    for offset in [0, 8, 16, 24] {
        asm.load(Width::DW, R2, R10, at(offset));
        asm.alu(AluOp::Xor, R1, R2);
        // Multiplication by an odd number carries every bit upwards; the shift brings it back.
        asm.load_imm64(R3, 0x9e37_79b9_7f4a_7c15).alu(AluOp::Mul, R1, R3);
        asm.mov(R2, R1).alu(AluOp::Rsh, R2, 32).alu(AluOp::Xor, R1, R2);
    }
    asm.alu(AluOp::Mul, R1, R3).alu(AluOp::Rsh, R1, 64 - SPREAD_BITS as i32);
    asm.alu(AluOp::Lsh, R1, 2).load_map_value(R2, table, 0);
    asm.alu(AluOp::Add, R2, R1).load(Width::W, R1, R2, 0);
}

/// Sends the frame to the target whose code is in R1.
fn deliver(asm: &mut Assembler, sink: &Sink) {
    let queue = asm.label("to a queue");
    asm.note("a queue, the kernel or nowhere?");
    asm.jump_if(Cond::Le, R1, LAST_QUEUE as i32, queue);
    let dropped = asm.label("drop");
    asm.jump_if(Cond::Eq, R1, code_of(Target::Drop) as i32, dropped);
    asm.mov(R0, XdpAction::Pass as i32).exit();
    asm.bind(dropped).mov(R0, XdpAction::Drop as i32).exit();
    asm.bind(queue);
    match sink {
        Sink::Count => {
            asm.mov(R0, XdpAction::Drop as i32).exit();
        }
        Sink::Cpus(map) => redirect(asm, map),
        Sink::Sockets { map, queues } => {
            asm.load(Width::W, R2, R6, CTX_RX_QUEUE).alu(AluOp::Mul, R2, *queues as i32);
            asm.alu(AluOp::Add, R1, R2);
            redirect(asm, map);
        }
    }
}

/// To what the map has under R1; the kernel gets the frame if that is nothing.
fn redirect(asm: &mut Assembler, map: &Map) {
    asm.note("redirect").mov(R2, R1).load_map(R1, map);
    asm.mov(R3, XdpAction::Pass as i32).call(Helper::REDIRECT_MAP).exit();
}
