//! Typed instructions in text, as the verifier writes them, and back from the kernel's encoding.

use std::fmt;

use super::insn::{
    ALU, ALU64, BY_REG, CALL, END, EXIT, Imm64, Insn, JA, JMP, JMP32, LD_IMM64, NEG, PSEUDO_MAP_FD,
    PSEUDO_MAP_VALUE, Raw, Source,
};
use super::op::{AluOp, AtomicOp, Cond, Helper, Reg, Width};

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

/// Slots that are no instruction this assembler knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an instruction known here: {0:?}")]
pub struct DecodeError(pub Raw);

const CLASS: u8 = 0x07;
const OP: u8 = 0xf0;
const WIDTH: u8 = 0x18;
const MODE: u8 = 0xe0;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const CLASS_LDX: u8 = 1;
const CLASS_ST: u8 = 2;
const CLASS_STX: u8 = 3;

impl Insn {
    /// Reads one instruction from the front of `slots`; `slots` must not be empty.
    ///
    /// # Errors
    /// [`DecodeError`] with the first slot if it is reserved, from an extension not used here, or
    /// half of a 64-bit constant.
    pub fn decode(slots: &[Raw]) -> Result<Insn, DecodeError> {
        let first = slots.first().copied().unwrap_or_default();
        let insn = match first.code & CLASS {
            _ if first.code == LD_IMM64 => decode_imm64(first, slots.get(1)),
            CLASS_LDX | CLASS_ST | CLASS_STX => decode_memory(first),
            ALU | ALU64 => decode_alu(first),
            _ => decode_jump(first),
        };
        // Decoding looks at the fields that matter; encoding again finds the reserved ones set.
        insn.filter(|insn| insn.encode().0 == first).ok_or(DecodeError(first))
    }
}

fn dst(raw: Raw) -> Option<Reg> {
    Reg::ALL.get(usize::from(raw.regs & 0xf)).copied()
}

fn src(raw: Raw) -> Option<Reg> {
    Reg::ALL.get(usize::from(raw.regs >> 4)).copied()
}

fn source(raw: Raw) -> Option<Source> {
    if raw.code & BY_REG != 0 { src(raw).map(Source::Reg) } else { Some(Source::Imm(raw.imm)) }
}

fn width(raw: Raw) -> Option<Width> {
    Width::ALL.into_iter().find(|w| *w as u8 == raw.code & WIDTH)
}

fn decode_imm64(first: Raw, second: Option<&Raw>) -> Option<Insn> {
    let high = second.filter(|s| (s.code, s.regs, s.off) == (0, 0, 0))?.imm as u32;
    let imm = match first.regs >> 4 {
        0 => Imm64::Value(u64::from(high) << 32 | u64::from(first.imm as u32)),
        PSEUDO_MAP_FD if high == 0 => Imm64::MapFd(first.imm),
        PSEUDO_MAP_VALUE => Imm64::MapValue { fd: first.imm, offset: high },
        _ => return None,
    };
    Some(Insn::LoadImm64 { dst: dst(first)?, imm })
}

fn decode_memory(raw: Raw) -> Option<Insn> {
    let (width, off) = (width(raw)?, raw.off);
    match (raw.code & MODE, raw.code & CLASS) {
        (MODE_MEM, CLASS_LDX) => Some(Insn::Load { width, dst: dst(raw)?, base: src(raw)?, off }),
        (MODE_MEM, CLASS_ST) => {
            Some(Insn::Store { width, base: dst(raw)?, off, src: Source::Imm(raw.imm) })
        }
        (MODE_MEM, CLASS_STX) => {
            Some(Insn::Store { width, base: dst(raw)?, off, src: Source::Reg(src(raw)?) })
        }
        (MODE_ATOMIC, CLASS_STX) => {
            let op = AtomicOp::ALL.into_iter().find(|op| i32::from(*op as u8) == raw.imm)?;
            let wide = width == Width::DW;
            Some(Insn::Atomic { wide, op, base: dst(raw)?, off, src: src(raw)? })
        }
        _ => None,
    }
}

fn decode_alu(raw: Raw) -> Option<Insn> {
    let (wide, dst) = (raw.code & CLASS == ALU64, dst(raw)?);
    match raw.code & OP {
        NEG => Some(Insn::Neg { wide, dst }),
        END => {
            let bits = u32::try_from(raw.imm).ok().filter(|b| [16, 32, 64].contains(b))?;
            let big = raw.code & BY_REG != 0;
            Some(if big { Insn::BigEndian { dst, bits } } else { Insn::LittleEndian { dst, bits } })
        }
        code => {
            let op = AluOp::ALL.into_iter().find(|op| *op as u8 == code)?;
            Some(Insn::Alu { wide, op, dst, src: source(raw)? })
        }
    }
}

fn decode_jump(raw: Raw) -> Option<Insn> {
    match raw.code {
        JA => Some(Insn::Jump { off: raw.off }),
        CALL => Some(Insn::Call { helper: Helper(raw.imm) }),
        EXIT => Some(Insn::Exit),
        code if matches!(code & CLASS, JMP | JMP32) => {
            let cond = Cond::ALL.into_iter().find(|c| *c as u8 == code & OP)?;
            let wide = code & CLASS == JMP;
            Some(Insn::JumpIf { wide, cond, dst: dst(raw)?, src: source(raw)?, off: raw.off })
        }
        _ => None,
    }
}
