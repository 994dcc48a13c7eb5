//! The generator's instructions.
//!
//! All headers are written anew for each frame, since live frames come back with the receivers'
//! edits in them. Registers: R2 start of the frame, R8 rest of the flow's number, R3
//! source address, R4 its sum, R5 source port, R9 destination port, R0 and R1 scratch.

use super::generator_frame::{self as frame, GeneratorSettings, IP, PAYLOAD, Span, UDP};
use super::{CTX_DATA, CTX_DATA_END};
use crate::asm::Reg::{R0, R1, R2, R3, R4, R5, R6, R8, R9, R10};
use crate::asm::{AluOp, AsmError, Assembler, Cond, Helper, Program, Reg, Width};
use crate::sys::{Map, XdpAction};

const IP_CHECKSUM: i16 = IP as i16 + 10;
const IP_SOURCE: i16 = IP as i16 + 12;
const SOURCE_PORT: i16 = UDP as i16;
const DESTINATION_PORT: i16 = UDP as i16 + 2;
const UDP_CHECKSUM: i16 = UDP as i16 + 6;
const KEY: i16 = -4;

/// Without a `counter` the flows come at random.
pub(super) fn emit(
    settings: &GeneratorSettings,
    counter: Option<&Map>,
) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    let give_up = asm.label("give up");
    asm.note("choose the flow").mov(R6, R1);
    match counter {
        Some(counter) => {
            next_number(&mut asm, counter);
        }
        None => {
            asm.call(Helper::GET_PRANDOM_U32).mov(R8, R0);
        }
    }
    asm.note("find the frame");
    asm.load(Width::W, R2, R6, CTX_DATA).load(Width::W, R3, R6, CTX_DATA_END);
    asm.mov(R1, R2).alu(AluOp::Add, R1, PAYLOAD as i32).jump_if(Cond::Gt, R1, R3, give_up);
    write_headers(&mut asm, settings);
    asm.note("send it");
    asm.mov(R1, settings.out_ifindex as i32).mov(R2, 0).call(Helper::REDIRECT).exit();
    asm.bind(give_up).note("a frame too short: not ours");
    asm.mov(R0, XdpAction::Aborted as i32).exit();
    asm.assemble()
}

/// R8 = this CPU's running number; 0 if the map fails, which it cannot.
fn next_number(asm: &mut Assembler, counter: &Map) {
    let missing = asm.label("no counter");
    asm.store(Width::W, R10, KEY, 0).mov(R8, 0);
    asm.load_map(R1, counter).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, missing);
    asm.load(Width::DW, R8, R0, 0).mov(R1, R8).alu(AluOp::Add, R1, 1);
    asm.store(Width::DW, R0, 0, R1);
    asm.bind(missing);
}

/// Writes Ethernet, IPv4 and UDP headers of flow R8 at R2; calls nothing.
pub(super) fn write_headers(asm: &mut Assembler, settings: &GeneratorSettings) {
    let template = frame::template(settings);
    asm.note("write the constant part of every frame");
    write_constant(asm, &template[..PAYLOAD]);
    write_source(asm, settings);
    asm.note("IPv4 checksum");
    asm.mov(R1, R4).alu(AluOp::Add, R1, i32::from(frame::ip_sum(&template)));
    write_checksum(asm, IP_CHECKSUM);
    write_port(asm, R5, settings.source_ports, SOURCE_PORT);
    write_port(asm, R9, settings.destination_ports, DESTINATION_PORT);
    if settings.udp_checksum {
        write_udp_checksum(asm, frame::udp_sum(&template));
    }
}

fn write_constant(asm: &mut Assembler, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<4>();
    for (i, word) in words.iter().enumerate() {
        asm.store(Width::W, R2, 4 * i as i16, i32::from_ne_bytes(*word));
    }
    for (i, byte) in rest.iter().enumerate() {
        asm.store(Width::B, R2, (4 * words.len() + i) as i16, i32::from(*byte));
    }
}

/// `dst` = the span's value for the number in R8; R8 = rest of the number.
fn pick(asm: &mut Assembler, dst: Reg, first: u32, count: u32) {
    asm.alu32(AluOp::Mov, dst, first as i32);
    if count == 1 {
        return;
    }
    asm.alu32(AluOp::Mov, R1, R8);
    // Division is the dearest instruction there is; counts are mostly powers of two.
    if count.is_power_of_two() {
        asm.alu32(AluOp::And, R1, (count - 1) as i32);
        asm.alu32(AluOp::Rsh, R8, count.trailing_zeros() as i32);
    } else {
        asm.alu32(AluOp::Mod, R1, count as i32).alu32(AluOp::Div, R8, count as i32);
    }
    asm.alu32(AluOp::Add, dst, R1);
}

/// The source address, and in R4 the sum of its halves, which both checksums need.
fn write_source(asm: &mut Assembler, settings: &GeneratorSettings) {
    asm.note("source address");
    pick(asm, R3, settings.sources.first.into(), settings.sources.count);
    asm.mov(R4, R3).alu(AluOp::Rsh, R4, 16).mov(R1, R3).alu(AluOp::And, R1, 0xffff);
    asm.alu(AluOp::Add, R4, R1);
    asm.big_endian(R3, 32).store(Width::W, R2, IP_SOURCE, R3);
}

fn write_port(asm: &mut Assembler, reg: Reg, ports: Span<u16>, offset: i16) {
    asm.note("port");
    pick(asm, reg, ports.first.into(), ports.count);
    asm.mov(R1, reg).big_endian(R1, 16).store(Width::H, R2, offset, R1);
}

fn write_udp_checksum(asm: &mut Assembler, constant: u16) {
    asm.note("UDP checksum");
    asm.mov(R1, R4).alu(AluOp::Add, R1, R5).alu(AluOp::Add, R1, R9);
    asm.alu(AluOp::Add, R1, i32::from(constant));
    fold_and_complement(asm);
    // A sum that comes out as zero is sent as all ones (RFC 768).
    let nonzero = asm.label("nonzero");
    asm.jump_if(Cond::Ne, R1, 0, nonzero).mov(R1, 0xffff).bind(nonzero);
    asm.big_endian(R1, 16).store(Width::H, R2, UDP_CHECKSUM, R1);
}

fn write_checksum(asm: &mut Assembler, offset: i16) {
    fold_and_complement(asm);
    asm.big_endian(R1, 16).store(Width::H, R2, offset, R1);
}

fn fold_and_complement(asm: &mut Assembler) {
    for _ in 0..2 {
        asm.mov(R0, R1).alu(AluOp::Rsh, R0, 16).alu(AluOp::And, R1, 0xffff);
        asm.alu(AluOp::Add, R1, R0);
    }
    asm.alu(AluOp::Xor, R1, 0xffff);
}
