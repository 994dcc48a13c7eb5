//! An eBPF assembler, the `bpf(2)` layer, and the XDP programs weever loads.
//!
//! The kernel needs a program to hand frames to AF_XDP sockets. Loaders in general use take ELF
//! files made by a C compiler; here the program is generated at run time, so there
//! is no compiler to install and nothing in it that this configuration does not need.
//!
//! - [`asm`]: typed instructions, labels, and for each instruction where it came from.
//! - [`sys`]: maps, program loading, attachment for as long as a descriptor lives, test runs.
//! - [`xdp`]: steering to AF_XDP sockets, and a traffic generator for benchmarks.
//!
//! Everything needs CAP_BPF and CAP_NET_ADMIN, except assembling; errors say so. Left out: BTF,
//! calls between programs, tail calls, spin locks, program types other than XDP.
//!
//! ```
//! use weever_ebpf::asm::{Assembler, Cond, Reg, Width};
//! use weever_ebpf::sys::{BpfError, XdpAction, XdpProgram};
//!
//! # fn main() -> Result<(), BpfError> {
//! // Drops frames that are shorter than an Ethernet header with one byte of payload.
//! let mut asm = Assembler::new();
//! let short = asm.label("short");
//! asm.note("is there a byte of payload?");
//! asm.load(Width::W, Reg::R2, Reg::R1, 0).load(Width::W, Reg::R3, Reg::R1, 4);
//! asm.alu(weever_ebpf::asm::AluOp::Add, Reg::R2, 15);
//! asm.jump_if(Cond::Gt, Reg::R2, Reg::R3, short);
//! asm.mov(Reg::R0, XdpAction::Pass as i32).exit();
//! asm.bind(short).note("too short").mov(Reg::R0, XdpAction::Drop as i32).exit();
//! let program = asm.assemble()?;
//!
//! match XdpProgram::load("example", &program) {
//!     Ok(loaded) => {
//!         assert_eq!(loaded.run(&[0; 15], 1)?.action(), Some(XdpAction::Pass));
//!         assert_eq!(loaded.run(&[0; 14], 1)?.action(), Some(XdpAction::Drop));
//!     }
//!     Err(error) if error.is_denied() => println!("skipped: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
#![allow(unsafe_code, reason = "bpf(2) takes addresses")]

pub mod asm;
pub mod sys;
pub mod xdp;
