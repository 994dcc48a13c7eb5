//! Instructions in the notation of the kernel's verifier log.

use std::fmt;

use super::insn::{Imm64, Insn, Source};
use super::op::{AtomicOp, Reg, Width};

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Reg(reg) => reg.fmt(f),
            Source::Imm(imm) => imm.fmt(f),
        }
    }
}

impl fmt::Display for Imm64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Imm64::Value(value) => write!(f, "{value:#x} ll"),
            Imm64::MapFd(fd) => write!(f, "map(fd {fd})"),
            Imm64::MapValue { fd, offset } => write!(f, "map(fd {fd})[0] + {offset}"),
        }
    }
}

/// A memory operand as the verifier writes it: `*(u32 *)(r1 +4)`.
struct MemoryOperand(Width, Reg, i16);

impl fmt::Display for MemoryOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*(u{} *)({} {:+})", self.0.bits(), self.1, self.2)
    }
}

/// The verifier writes `w1` for the low half of `r1`.
fn named(reg: Reg, wide: bool) -> String {
    format!("{}{}", if wide { 'r' } else { 'w' }, reg as u8)
}

fn named_source(src: Source, wide: bool) -> String {
    match src {
        Source::Reg(reg) => named(reg, wide),
        Source::Imm(imm) => imm.to_string(),
    }
}

fn atomic_name(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Or => "or",
        AtomicOp::And => "and",
        AtomicOp::Xor => "xor",
        AtomicOp::FetchAdd => "fetch_add",
        AtomicOp::FetchOr => "fetch_or",
        AtomicOp::FetchAnd => "fetch_and",
        AtomicOp::FetchXor => "fetch_xor",
        AtomicOp::Exchange => "xchg",
        AtomicOp::CompareExchange => "cmpxchg",
    }
}

impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Insn::Alu { wide, op, dst, src } => {
                let (dst, src) = (named(dst, wide), named_source(src, wide));
                write!(f, "{dst} {} {src}", op.symbol())
            }
            Insn::Neg { wide, dst } => write!(f, "{0} = -{0}", named(dst, wide)),
            Insn::BigEndian { dst, bits } => write!(f, "{dst} = be{bits} {dst}"),
            Insn::LittleEndian { dst, bits } => write!(f, "{dst} = le{bits} {dst}"),
            Insn::LoadImm64 { dst, imm } => write!(f, "{dst} = {imm}"),
            Insn::Load { width, dst, base, off } => {
                write!(f, "{dst} = {}", MemoryOperand(width, base, off))
            }
            Insn::Store { width, base, off, src } => {
                write!(f, "{} = {src}", MemoryOperand(width, base, off))
            }
            Insn::Atomic { wide, op, base, off, src } => {
                let width = if wide { Width::DW } else { Width::W };
                write!(f, "lock {} {}, {src}", atomic_name(op), MemoryOperand(width, base, off))
            }
            Insn::Jump { off } => write!(f, "goto {off:+}"),
            Insn::JumpIf { wide, cond, dst, src, off } => {
                let (dst, src) = (named(dst, wide), named_source(src, wide));
                write!(f, "if {dst} {} {src} goto {off:+}", cond.symbol())
            }
            Insn::Call { helper } => write!(f, "call {helper}"),
            Insn::Exit => f.write_str("exit"),
        }
    }
}
