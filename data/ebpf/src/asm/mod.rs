//! The assembler: typed instructions, labels, and where each instruction came from.
//!
//! Build with [`Assembler`], which yields a [`Program`]: encoded instructions plus, for each, the
//! source line that emitted it and the note in force there. [`Insn`] converts to and from the
//! kernel's 8-byte encoding and displays itself in the verifier's notation.

mod assembler;
mod display;
mod insn;
mod op;
mod program;

pub use assembler::{AsmError, Assembler, Label};
pub use display::DecodeError;
pub use insn::{Imm64, Insn, Raw, Source};
pub use op::{AluOp, AtomicOp, Cond, Helper, Reg, Width};
pub use program::{Origin, Program};
