//! An eBPF assembler, the `bpf(2)` layer, and the XDP programs weever loads.
#![allow(unsafe_code, reason = "bpf(2) takes addresses")]

pub mod asm;
pub mod sys;
pub mod xdp;
