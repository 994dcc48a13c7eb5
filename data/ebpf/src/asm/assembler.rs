//! Emitting instructions and resolving labels.

use std::os::fd::{AsFd, AsRawFd};
use std::panic::Location;

use super::insn::{Imm64, Insn, Source};
use super::op::{AluOp, AtomicOp, Cond, Helper, Reg, Width};
use super::program::{Origin, Program};

/// A place in the program that jumps can name before it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// A fault in an assembled program; always a mistake of the code that emits it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AsmError {
    /// A jump names a label that was never bound.
    #[error("jump to label `{label}`, which is bound nowhere ({origin})")]
    Unbound {
        /// The label's name.
        label: &'static str,
        /// The jump.
        origin: Origin,
    },
    /// A label was bound twice.
    #[error("label `{label}` is bound a second time at {location}")]
    Rebound {
        /// The label's name.
        label: &'static str,
        /// The second binding.
        location: &'static Location<'static>,
    },
    /// A jump spans more than 32,767 slots.
    #[error("jump of {distance} slots to label `{label}`, more than 16 bits hold ({origin})")]
    TooFar {
        /// The label's name.
        label: &'static str,
        /// How far it is.
        distance: i64,
        /// The jump.
        origin: Origin,
    },
}

struct LabelState {
    name: &'static str,
    slot: Option<usize>,
}

struct Emitted {
    insn: Insn,
    target: Option<Label>,
    origin: Origin,
}

/// Collects instructions. Each method emits one instruction, except [`note`](Self::note),
/// [`label`](Self::label) and [`bind`](Self::bind); [`assemble`](Self::assemble) ends it.
#[derive(Default)]
pub struct Assembler {
    code: Vec<Emitted>,
    slots: usize,
    labels: Vec<LabelState>,
    rebound: Option<AsmError>,
    note: &'static str,
}

impl Assembler {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes the purpose of the following instructions; shown when the verifier rejects one.
    pub fn note(&mut self, note: &'static str) -> &mut Self {
        self.note = note;
        self
    }

    /// A new label, to be bound once.
    pub fn label(&mut self, name: &'static str) -> Label {
        self.labels.push(LabelState { name, slot: None });
        Label(self.labels.len() - 1)
    }

    /// Binds a label to the next instruction.
    #[track_caller]
    pub fn bind(&mut self, label: Label) -> &mut Self {
        let state = &mut self.labels[label.0];
        if state.slot.replace(self.slots).is_some() {
            let error = AsmError::Rebound { label: state.name, location: Location::caller() };
            self.rebound.get_or_insert(error);
        }
        self
    }

    /// Emits any instruction.
    #[track_caller]
    pub fn emit(&mut self, insn: Insn) -> &mut Self {
        self.emit_to(insn, None)
    }

    #[track_caller]
    fn emit_to(&mut self, insn: Insn, target: Option<Label>) -> &mut Self {
        let origin = Origin { note: self.note, location: Location::caller() };
        self.slots += insn.slots();
        self.code.push(Emitted { insn, target, origin });
        self
    }

    /// `dst = src`.
    #[track_caller]
    pub fn mov(&mut self, dst: Reg, src: impl Into<Source>) -> &mut Self {
        self.alu(AluOp::Mov, dst, src)
    }

    /// `dst op= src` on 64 bits.
    #[track_caller]
    pub fn alu(&mut self, op: AluOp, dst: Reg, src: impl Into<Source>) -> &mut Self {
        self.emit(Insn::Alu { wide: true, op, dst, src: src.into() })
    }

    /// `dst op= src` on 32 bits; the upper half of `dst` becomes 0.
    #[track_caller]
    pub fn alu32(&mut self, op: AluOp, dst: Reg, src: impl Into<Source>) -> &mut Self {
        self.emit(Insn::Alu { wide: false, op, dst, src: src.into() })
    }

    /// Converts the low `bits` (16, 32 or 64) between host and network order, clearing the rest.
    #[track_caller]
    pub fn big_endian(&mut self, dst: Reg, bits: u32) -> &mut Self {
        self.emit(Insn::BigEndian { dst, bits })
    }

    /// `dst = value`, in two slots.
    #[track_caller]
    pub fn load_imm64(&mut self, dst: Reg, value: u64) -> &mut Self {
        self.emit(Insn::LoadImm64 { dst, imm: Imm64::Value(value) })
    }

    /// `dst = the map behind fd`. The descriptor must still be open when the program is loaded.
    #[track_caller]
    pub fn load_map(&mut self, dst: Reg, map: &impl AsFd) -> &mut Self {
        let fd = map.as_fd().as_raw_fd();
        self.emit(Insn::LoadImm64 { dst, imm: Imm64::MapFd(fd) })
    }

    /// `dst = the address of a byte of the only value of an array map`. As for
    /// [`load_map`](Self::load_map).
    #[track_caller]
    pub fn load_map_value(&mut self, dst: Reg, map: &impl AsFd, offset: u32) -> &mut Self {
        let fd = map.as_fd().as_raw_fd();
        self.emit(Insn::LoadImm64 { dst, imm: Imm64::MapValue { fd, offset } })
    }

    /// `dst = *(width *)(base + off)`.
    #[track_caller]
    pub fn load(&mut self, width: Width, dst: Reg, base: Reg, off: i16) -> &mut Self {
        self.emit(Insn::Load { width, dst, base, off })
    }

    /// `*(width *)(base + off) = src`.
    #[track_caller]
    pub fn store(
        &mut self,
        width: Width,
        base: Reg,
        off: i16,
        src: impl Into<Source>,
    ) -> &mut Self {
        self.emit(Insn::Store { width, base, off, src: src.into() })
    }

    /// An atomic operation on the 8 bytes at `base + off`.
    #[track_caller]
    pub fn atomic(&mut self, op: AtomicOp, base: Reg, off: i16, src: Reg) -> &mut Self {
        self.emit(Insn::Atomic { wide: true, op, base, off, src })
    }

    /// Goes to the label.
    #[track_caller]
    pub fn jump(&mut self, to: Label) -> &mut Self {
        self.emit_to(Insn::Jump { off: 0 }, Some(to))
    }

    /// Goes to the label if `dst cond src` on 64 bits.
    #[track_caller]
    pub fn jump_if(
        &mut self,
        cond: Cond,
        dst: Reg,
        src: impl Into<Source>,
        to: Label,
    ) -> &mut Self {
        self.emit_to(Insn::JumpIf { wide: true, cond, dst, src: src.into(), off: 0 }, Some(to))
    }

    /// Goes to the label if `dst cond src` on the low 32 bits.
    #[track_caller]
    pub fn jump32_if(
        &mut self,
        cond: Cond,
        dst: Reg,
        src: impl Into<Source>,
        to: Label,
    ) -> &mut Self {
        self.emit_to(Insn::JumpIf { wide: false, cond, dst, src: src.into(), off: 0 }, Some(to))
    }

    /// Calls a kernel function: arguments in R1 to R5, result in R0, R1 to R5 are lost.
    #[track_caller]
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.emit(Insn::Call { helper })
    }

    /// Returns R0.
    #[track_caller]
    pub fn exit(&mut self) -> &mut Self {
        self.emit(Insn::Exit)
    }

    /// Resolves the labels.
    ///
    /// # Errors
    /// [`AsmError`] if a label is unbound though used, bound twice, or too far from a jump.
    pub fn assemble(self) -> Result<Program, AsmError> {
        if let Some(error) = self.rebound {
            return Err(error);
        }
        let mut program = Program::with_capacity(self.slots);
        for emitted in &self.code {
            let insn = match emitted.target {
                Some(label) => {
                    let after = program.slots().len() + 1;
                    resolve(emitted, after, &self.labels[label.0])?
                }
                None => emitted.insn,
            };
            program.push(insn, emitted.origin);
        }
        Ok(program)
    }
}

/// The jump with its offset, counted from the slot `after` it.
fn resolve(jump: &Emitted, after: usize, label: &LabelState) -> Result<Insn, AsmError> {
    let (name, origin) = (label.name, jump.origin);
    let target = label.slot.ok_or(AsmError::Unbound { label: name, origin })?;
    let distance = target as i64 - after as i64;
    let off =
        i16::try_from(distance).map_err(|_| AsmError::TooFar { label: name, distance, origin })?;
    Ok(match jump.insn {
        Insn::JumpIf { wide, cond, dst, src, .. } => Insn::JumpIf { wide, cond, dst, src, off },
        _ => Insn::Jump { off },
    })
}
