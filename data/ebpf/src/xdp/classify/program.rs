//! The whole program: let in, parse, ask the tables, ask the tree, send.

use std::sync::Arc;

use super::exact::{self, ExactTable};
use super::layout::{AREA, code_of};
use super::parse::{self, at};
use super::rule::{LAST_QUEUE, Rule, Target, setting};
use super::sample::{self, Sampling};
use super::tree;
use crate::asm::Reg::{R0, R1, R2, R3, R6, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Program, Width};
use crate::sys::{BpfError, Map, XdpAction, XdpProgram};
use crate::xdp::steer_parse::Exits;
use crate::xdp::{CTX_RX_QUEUE, Gate, steer};

/// On the stack, where no table's key is any more.
const MISSED_KEY: i16 = AREA - 8;

/// Bits of a hash that number a place in the spreading table.
const SPREAD_BITS: u32 = 7;

/// Places of the spreading table.
pub const SPREAD: usize = 1 << SPREAD_BITS;

/// Where a frame that goes to a queue goes.
#[derive(Debug)]
pub enum Sink {
    /// To the AF_XDP socket of (hardware queue, software queue): the map's entry at hardware queue
    /// times `queues` plus software queue. A frame for which there is none goes to the kernel.
    Sockets {
        /// An [`MapKind::XskMap`](crate::sys::MapKind::XskMap).
        map: Map,
        /// How many software queues there are.
        queues: u32,
    },
    /// To the CPU of the queue's number, where the kernel's stack takes it: an
    /// [`MapKind::CpuMap`](crate::sys::MapKind::CpuMap).
    Cpus(Map),
    /// Nowhere: it is counted and dropped, for measurements.
    Count,
}

/// Where a frame that no filter matches goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// All to one target.
    To(Target),
    /// To the software queue with the number of the hardware queue on which it arrived.
    Arrival,
    /// To the queue in the place that a hash over addresses and ports numbers; there are
    /// [`SPREAD`] places, which the list fills again and again.
    Spread(Vec<u32>),
}

/// The parts of a program.
#[derive(Debug)]
pub(super) struct ProgramParts {
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) exact: Vec<ExactTable>,
    pub(super) ordered: Vec<Rule>,
    pub(super) ordered_hits: Option<Map>,
    pub(super) sink: Sink,
    pub(super) fallback: Fallback,
    pub(super) spread: Map,
    pub(super) missed: Map,
    pub(super) sampling: Option<Sampling>,
}

impl ProgramParts {
    pub(super) fn load(&self) -> Result<XdpProgram, BpfError> {
        XdpProgram::load("weever_sort", &emit(self)?)
    }
}

fn emit(parts: &ProgramParts) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let hit = asm.label("hit");
    let exits = match &parts.gate {
        Some(gate) => steer::enter(&mut asm, gate),
        None => {
            asm.mov(R6, R1);
            None
        }
    };
    parse::emit(&mut asm);
    let counted = asm.label("hit and to be counted");
    let wide =
        if parts.sampling.as_ref().is_some_and(|s| s.within_filters) { counted } else { hit };
    for table in &parts.exact {
        exact::emit(&mut asm, table, if table.is_of_flows() { hit } else { wide });
    }
    if let Some(hits) = parts.ordered_hits.as_ref().filter(|_| !parts.ordered.is_empty()) {
        tree::emit(&mut asm, &parts.ordered, &tree::build(&parts.ordered), Some(hits), wide);
    }
    fall_back(&mut asm, parts);
    asm.bind(counted);
    if let Some(sampling) = &parts.sampling {
        sample::emit(&mut asm, sampling);
    }
    asm.bind(hit);
    deliver(&mut asm, parts, exits);
    if let Some(gate) = &parts.gate {
        steer::leave(&mut asm, gate, exits);
    }
    asm.assemble()
}

/// Leaves the target's code in R1.
fn fall_back(asm: &mut Assembler, parts: &ProgramParts) {
    count_missed(asm, &parts.missed);
    match &parts.fallback {
        Fallback::To(target) => {
            asm.mov(R1, code_of(*target) as i32);
        }
        Fallback::Arrival => {
            asm.load(Width::W, R1, R6, CTX_RX_QUEUE);
        }
        Fallback::Spread(_) => spread(asm, &parts.spread),
    }
}

/// Adds one to this CPU's own number: a word of all CPUs would be written by each of them for every such frame.
fn count_missed(asm: &mut Assembler, missed: &Map) {
    let counted = asm.label("counted as missed");
    asm.note("no filter matches").store(Width::W, R10, MISSED_KEY, 0);
    asm.load_map(R1, missed).mov(R2, R10).alu(AluOp::Add, R2, i32::from(MISSED_KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, counted);
    asm.load(Width::DW, R1, R0, 0).alu(AluOp::Add, R1, 1).store(Width::DW, R0, 0, R1);
    asm.bind(counted);
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

/// Sends the frame to the target with the code in R1.
fn deliver(asm: &mut Assembler, parts: &ProgramParts, exits: Option<Exits>) {
    let queue = asm.label("to a queue");
    asm.note("a queue, the kernel or nowhere?");
    asm.jump_if(Cond::Le, R1, LAST_QUEUE as i32, queue);
    let dropped = asm.label("drop");
    asm.jump_if(Cond::Eq, R1, code_of(Target::Drop) as i32, dropped);
    asm.mov(R0, XdpAction::Pass as i32);
    end(asm, parts, exits);
    asm.bind(dropped).mov(R0, XdpAction::Drop as i32).exit();
    asm.bind(queue);
    match &parts.sink {
        Sink::Count => {
            asm.mov(R0, XdpAction::Drop as i32).exit();
        }
        Sink::Cpus(map) => redirect(asm, map, parts, exits),
        Sink::Sockets { map, queues } => {
            asm.load(Width::W, R2, R6, CTX_RX_QUEUE).alu(AluOp::Mul, R2, *queues as i32);
            asm.alu(AluOp::Add, R1, R2);
            redirect(asm, map, parts, exits);
        }
    }
}

/// Redirects to the map's entry at R1; the kernel gets the frame if there is none.
fn redirect(asm: &mut Assembler, map: &Map, parts: &ProgramParts, exits: Option<Exits>) {
    let pass = XdpAction::Pass as i32;
    let without = parts.gate.as_ref().map_or(pass, |gate| steer::without_socket(gate));
    asm.note("redirect").mov(R2, R1).load_map(R1, map);
    asm.mov(R3, without).call(Helper::REDIRECT_MAP);
    end(asm, parts, exits);
}

/// Ends with the action in R0, which is counted if there are counters.
fn end(asm: &mut Assembler, parts: &ProgramParts, exits: Option<Exits>) {
    match &parts.gate {
        Some(gate) => steer::account(asm, gate, exits),
        None => drop(asm.exit()),
    }
}

pub(super) fn write_spread(map: &Map, fallback: &Fallback) -> Result<(), BpfError> {
    let Fallback::Spread(queues) = fallback else { return Ok(()) };
    if queues.is_empty() {
        return setting("no queue to spread over: name one");
    }
    if let Some(queue) = queues.iter().find(|queue| **queue > LAST_QUEUE) {
        return setting(format!("queue {queue}: the last one is {}", LAST_QUEUE));
    }
    let places = queues.iter().cycle().take(SPREAD);
    let value: Vec<u8> = places.flat_map(|queue| queue.to_ne_bytes()).collect();
    map.update(&0u32.to_ne_bytes(), &value)
}
