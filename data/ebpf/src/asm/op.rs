//! Registers, widths and operations, with the numbers of RFC 9669.

use std::fmt;

/// A register. R0 is the return value, R1 to R5 are arguments and lost by calls, R6 to R9 survive
/// calls, R10 is the read-only frame pointer.
#[allow(missing_docs, reason = "named by number; the roles are in the type's description")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl Reg {
    /// All registers in the order of their numbers.
    pub const ALL: [Reg; 11] = [
        Reg::R0,
        Reg::R1,
        Reg::R2,
        Reg::R3,
        Reg::R4,
        Reg::R5,
        Reg::R6,
        Reg::R7,
        Reg::R8,
        Reg::R9,
        Reg::R10,
    ];
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", *self as u8)
    }
}

/// How much a load, store or atomic operation moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    W = 0x00,
    /// 2 bytes.
    H = 0x08,
    /// 1 byte.
    B = 0x10,
    /// 8 bytes.
    DW = 0x18,
}

impl Width {
    /// All widths.
    pub const ALL: [Width; 4] = [Width::B, Width::H, Width::W, Width::DW];

    /// The width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Width::B => 8,
            Width::H => 16,
            Width::W => 32,
            Width::DW => 64,
        }
    }
}

/// A two-operand arithmetic operation. Division by zero gives 0, modulo zero leaves the
/// destination; shifts are taken modulo the width.
#[allow(missing_docs, reason = "the usual names; `Arsh` is the arithmetic shift right")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AluOp {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

impl AluOp {
    /// All operations.
    pub const ALL: [AluOp; 12] = [
        AluOp::Add,
        AluOp::Sub,
        AluOp::Mul,
        AluOp::Div,
        AluOp::Or,
        AluOp::And,
        AluOp::Lsh,
        AluOp::Rsh,
        AluOp::Mod,
        AluOp::Xor,
        AluOp::Mov,
        AluOp::Arsh,
    ];

    pub(super) fn symbol(self) -> &'static str {
        match self {
            AluOp::Add => "+=",
            AluOp::Sub => "-=",
            AluOp::Mul => "*=",
            AluOp::Div => "/=",
            AluOp::Or => "|=",
            AluOp::And => "&=",
            AluOp::Lsh => "<<=",
            AluOp::Rsh => ">>=",
            AluOp::Mod => "%=",
            AluOp::Xor => "^=",
            AluOp::Mov => "=",
            AluOp::Arsh => "s>>=",
        }
    }
}

/// When a conditional jump is taken; `S…` compare as signed, `Set` means "have a bit in common".
#[allow(missing_docs, reason = "the usual comparison names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Set = 0x40,
    Ne = 0x50,
    SGt = 0x60,
    SGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    SLt = 0xc0,
    SLe = 0xd0,
}

impl Cond {
    /// All conditions.
    pub const ALL: [Cond; 11] = [
        Cond::Eq,
        Cond::Gt,
        Cond::Ge,
        Cond::Set,
        Cond::Ne,
        Cond::SGt,
        Cond::SGe,
        Cond::Lt,
        Cond::Le,
        Cond::SLt,
        Cond::SLe,
    ];

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Cond::Eq => "==",
            Cond::Gt => ">",
            Cond::Ge => ">=",
            Cond::Set => "&",
            Cond::Ne => "!=",
            Cond::SGt => "s>",
            Cond::SGe => "s>=",
            Cond::Lt => "<",
            Cond::Le => "<=",
            Cond::SLt => "s<",
            Cond::SLe => "s<=",
        }
    }
}

/// An atomic read-modify-write on memory, 4 or 8 bytes wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AtomicOp {
    /// `*p += src`.
    Add = 0x00,
    /// `*p |= src`.
    Or = 0x40,
    /// `*p &= src`.
    And = 0x50,
    /// `*p ^= src`.
    Xor = 0xa0,
    /// `src = *p; *p += src`.
    FetchAdd = 0x01,
    /// `src = *p; *p |= src`.
    FetchOr = 0x41,
    /// `src = *p; *p &= src`.
    FetchAnd = 0x51,
    /// `src = *p; *p ^= src`.
    FetchXor = 0xa1,
    /// `src` and `*p` change places.
    Exchange = 0xe1,
    /// If `*p == r0` then `*p = src`; `r0` gets the old `*p`.
    CompareExchange = 0xf1,
}

impl AtomicOp {
    /// All atomic operations.
    pub const ALL: [AtomicOp; 10] = [
        AtomicOp::Add,
        AtomicOp::Or,
        AtomicOp::And,
        AtomicOp::Xor,
        AtomicOp::FetchAdd,
        AtomicOp::FetchOr,
        AtomicOp::FetchAnd,
        AtomicOp::FetchXor,
        AtomicOp::Exchange,
        AtomicOp::CompareExchange,
    ];
}

/// A kernel function that programs may call, by its number in `<linux/bpf.h>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Helper(pub i32);

impl Helper {
    /// `void *bpf_map_lookup_elem(map, key)`; null if absent.
    pub const MAP_LOOKUP_ELEM: Helper = Helper(1);
    /// `long bpf_map_update_elem(map, key, value, flags)`.
    pub const MAP_UPDATE_ELEM: Helper = Helper(2);
    /// `u64 bpf_ktime_get_ns()`: `CLOCK_MONOTONIC`, in nanoseconds.
    pub const KTIME_GET_NS: Helper = Helper(5);
    /// `u32 bpf_get_prandom_u32()`.
    pub const GET_PRANDOM_U32: Helper = Helper(7);
    /// `long bpf_redirect(ifindex, flags)`.
    pub const REDIRECT: Helper = Helper(23);
    /// `long bpf_xdp_adjust_head(ctx, delta)`.
    pub const XDP_ADJUST_HEAD: Helper = Helper(44);
    /// `long bpf_redirect_map(map, key, flags)`; the low bits of `flags` are the action returned
    /// when there is nothing at `key`.
    pub const REDIRECT_MAP: Helper = Helper(51);

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Helper::MAP_LOOKUP_ELEM => "bpf_map_lookup_elem",
            Helper::MAP_UPDATE_ELEM => "bpf_map_update_elem",
            Helper::KTIME_GET_NS => "bpf_ktime_get_ns",
            Helper::GET_PRANDOM_U32 => "bpf_get_prandom_u32",
            Helper::REDIRECT => "bpf_redirect",
            Helper::XDP_ADJUST_HEAD => "bpf_xdp_adjust_head",
            Helper::REDIRECT_MAP => "bpf_redirect_map",
            _ => return None,
        })
    }
}

impl fmt::Display for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}#{}", self.0),
            None => write!(f, "helper#{}", self.0),
        }
    }
}
