//! The XDP programs weever loads.
//!
//! - [`Steer`]: which received frames go to AF_XDP sockets, and which stay with the kernel.
//! - [`classify`]: sorting frames into software queues by filters that come and go.
//! - [`pass`] and [`drop_all`]: the smallest programs; the far end of a veth needs one attached
//!   for redirected frames to arrive.
//! - [`Generator`]: makes traffic from live frames, for benchmarks.

mod addresses;
pub mod classify;
mod gate;
mod generator;
mod ports;
mod steer;
mod steer_parse;
#[cfg(test)]
mod tests;

pub use gate::{Gate, Share, SteerCounters};
pub use generator::{Generator, GeneratorSettings, Order, Span};
pub use ports::{Port, PortTable};
pub use steer::Steer;

use crate::asm::{AsmError, Assembler, Program, Reg};
use crate::sys::{BpfError, XdpAction, XdpProgram};

/// Loads a program that leaves every frame to the kernel.
///
/// # Errors
/// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
pub fn pass() -> Result<XdpProgram, BpfError> {
    XdpProgram::load("weever_pass", &always(XdpAction::Pass)?)
}

/// Loads a program that drops every frame.
///
/// # Errors
/// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
pub fn drop_all() -> Result<XdpProgram, BpfError> {
    XdpProgram::load("weever_drop", &always(XdpAction::Drop)?)
}

fn always(action: XdpAction) -> Result<Program, AsmError> {
    let mut asm = Assembler::new();
    asm.note("the same for every frame");
    asm.mov(Reg::R0, action as i32).exit();
    asm.assemble()
}

/// `struct xdp_md`: offset of the address of the first byte.
const CTX_DATA: i16 = 0;
/// `struct xdp_md`: offset of the address after the last byte.
const CTX_DATA_END: i16 = 4;
/// `struct xdp_md`: offset of the hardware queue.
const CTX_RX_QUEUE: i16 = 16;

/// Size of an Ethernet header.
const ETHERNET: i16 = 14;
