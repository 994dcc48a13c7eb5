//! One instruction, typed, and its encoding (RFC 9669 §3).

use super::op::{AluOp, AtomicOp, Cond, Helper, Reg, Width};

/// An instruction as the kernel reads it (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(C)]
pub struct Raw {
    /// The operation.
    pub code: u8,
    /// Destination register in the low half, source register in the high half.
    pub regs: u8,
    /// Signed offset, of memory or of a jump.
    pub off: i16,
    /// Signed immediate.
    pub imm: i32,
}

impl Raw {
    /// The 8 bytes in the machine's byte order, as `bpf(2)` and interpreters take them.
    pub fn to_bytes(self) -> [u8; 8] {
        let [o0, o1] = self.off.to_ne_bytes();
        let [i0, i1, i2, i3] = self.imm.to_ne_bytes();
        [self.code, self.regs, o0, o1, i0, i1, i2, i3]
    }
}

/// A second operand: a register, or a constant that is sign-extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The value of a register.
    Reg(Reg),
    /// A constant.
    Imm(i32),
}

impl From<Reg> for Source {
    fn from(reg: Reg) -> Self {
        Source::Reg(reg)
    }
}

impl From<i32> for Source {
    fn from(imm: i32) -> Self {
        Source::Imm(imm)
    }
}

/// The value that a two-slot load puts into a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Imm64 {
    /// A number.
    Value(u64),
    /// The map behind a file descriptor.
    MapFd(i32),
    /// The address of a byte of the only value of an array map.
    MapValue {
        /// The map's file descriptor.
        fd: i32,
        /// Offset in the value, in bytes.
        offset: u32,
    },
}

/// An instruction. Jump offsets count slots of 8 bytes from the following instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Insn {
    /// `dst op= src` on 64 bits, or on 32 bits with the upper half cleared.
    Alu {
        /// 64 bits, not 32.
        wide: bool,
        /// The operation.
        op: AluOp,
        /// First operand and result.
        dst: Reg,
        /// Second operand.
        src: Source,
    },
    /// `dst = -dst`.
    Neg {
        /// 64 bits, not 32.
        wide: bool,
        /// Operand and result.
        dst: Reg,
    },
    /// Keep the low `bits` (16, 32 or 64), converting between host and big-endian order.
    BigEndian {
        /// Operand and result.
        dst: Reg,
        /// 16, 32 or 64.
        bits: u32,
    },
    /// Keep the low `bits` (16, 32 or 64), converting between host and little-endian order.
    LittleEndian {
        /// Operand and result.
        dst: Reg,
        /// 16, 32 or 64.
        bits: u32,
    },
    /// Load a 64-bit constant or a map; takes two slots.
    LoadImm64 {
        /// Result.
        dst: Reg,
        /// The constant.
        imm: Imm64,
    },
    /// `dst = *(width *)(base + off)`, zero-extended.
    Load {
        /// How much.
        width: Width,
        /// Result.
        dst: Reg,
        /// Address.
        base: Reg,
        /// Added to the address.
        off: i16,
    },
    /// `*(width *)(base + off) = src`.
    Store {
        /// How much.
        width: Width,
        /// Address.
        base: Reg,
        /// Added to the address.
        off: i16,
        /// The stored value.
        src: Source,
    },
    /// Atomic operation on `*(width *)(base + off)`.
    Atomic {
        /// 64 bits, not 32.
        wide: bool,
        /// The operation.
        op: AtomicOp,
        /// Address.
        base: Reg,
        /// Added to the address.
        off: i16,
        /// Operand, and result of the fetching operations.
        src: Reg,
    },
    /// Jump always.
    Jump {
        /// Slots to skip.
        off: i16,
    },
    /// Jump if `dst cond src`.
    JumpIf {
        /// Compare 64 bits, not the low 32.
        wide: bool,
        /// The condition.
        cond: Cond,
        /// First operand.
        dst: Reg,
        /// Second operand.
        src: Source,
        /// Slots to skip.
        off: i16,
    },
    /// Call a kernel function.
    Call {
        /// Which one.
        helper: Helper,
    },
    /// Return R0.
    Exit,
}

pub(super) const LD_IMM64: u8 = 0x18;
pub(super) const LDX_MEM: u8 = 0x61;
pub(super) const ST_MEM: u8 = 0x62;
pub(super) const STX_MEM: u8 = 0x63;
pub(super) const STX_ATOMIC: u8 = 0xc3;
pub(super) const ALU: u8 = 0x04;
pub(super) const ALU64: u8 = 0x07;
pub(super) const JMP: u8 = 0x05;
pub(super) const JMP32: u8 = 0x06;
pub(super) const BY_REG: u8 = 0x08;
pub(super) const NEG: u8 = 0x80;
pub(super) const END: u8 = 0xd0;
pub(super) const JA: u8 = 0x05;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;
pub(super) const PSEUDO_MAP_FD: u8 = 1;
pub(super) const PSEUDO_MAP_VALUE: u8 = 2;

fn raw(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Raw {
    Raw { code, regs: src << 4 | dst, off, imm }
}

fn with_source(code: u8, dst: Reg, src: Source, off: i16) -> Raw {
    match src {
        Source::Reg(src) => raw(code | BY_REG, dst as u8, src as u8, off, 0),
        Source::Imm(imm) => raw(code, dst as u8, 0, off, imm),
    }
}

fn store(width: Width, base: Reg, off: i16, src: Source) -> Raw {
    match src {
        Source::Reg(src) => raw(STX_MEM | width as u8, base as u8, src as u8, off, 0),
        Source::Imm(imm) => raw(ST_MEM | width as u8, base as u8, 0, off, imm),
    }
}

/// The first slot of a 64-bit load, and the immediate of the second.
fn load_imm64(dst: Reg, imm: Imm64) -> (Raw, i32) {
    let (pseudo, low, high) = match imm {
        Imm64::Value(value) => (0, value as i32, (value >> 32) as i32),
        Imm64::MapFd(fd) => (PSEUDO_MAP_FD, fd, 0),
        Imm64::MapValue { fd, offset } => (PSEUDO_MAP_VALUE, fd, offset as i32),
    };
    (raw(LD_IMM64, dst as u8, pseudo, 0, low), high)
}

fn alu_class(wide: bool) -> u8 {
    if wide { ALU64 } else { ALU }
}

impl Insn {
    /// How many 8-byte slots the instruction takes: 2 for 64-bit constants, else 1.
    pub fn slots(&self) -> usize {
        if matches!(self, Insn::LoadImm64 { .. }) { 2 } else { 1 }
    }

    /// The encoding; the second slot only for 64-bit constants.
    pub fn encode(&self) -> (Raw, Option<Raw>) {
        if let Insn::LoadImm64 { dst, imm } = *self {
            let (first, high) = load_imm64(dst, imm);
            return (first, Some(raw(0, 0, 0, 0, high)));
        }
        (self.encode_single(), None)
    }

    fn encode_single(&self) -> Raw {
        match *self {
            Insn::Alu { wide, op, dst, src } => {
                with_source(alu_class(wide) | op as u8, dst, src, 0)
            }
            Insn::Neg { wide, dst } => raw(alu_class(wide) | NEG, dst as u8, 0, 0, 0),
            Insn::BigEndian { dst, bits } => raw(ALU | END | BY_REG, dst as u8, 0, 0, bits as i32),
            Insn::LittleEndian { dst, bits } => raw(ALU | END, dst as u8, 0, 0, bits as i32),
            Insn::LoadImm64 { dst, imm } => load_imm64(dst, imm).0,
            Insn::Load { width, dst, base, off } => {
                raw(LDX_MEM | width as u8, dst as u8, base as u8, off, 0)
            }
            Insn::Store { width, base, off, src } => store(width, base, off, src),
            Insn::Atomic { wide, op, base, off, src } => {
                let width = if wide { Width::DW } else { Width::W };
                let code = STX_ATOMIC | width as u8;
                raw(code, base as u8, src as u8, off, i32::from(op as u8))
            }
            Insn::Jump { off } => raw(JA, 0, 0, off, 0),
            Insn::JumpIf { wide, cond, dst, src, off } => {
                let class = if wide { JMP } else { JMP32 };
                with_source(class | cond as u8, dst, src, off)
            }
            Insn::Call { helper } => raw(CALL, 0, 0, 0, helper.0),
            Insn::Exit => raw(EXIT, 0, 0, 0, 0),
        }
    }
}
