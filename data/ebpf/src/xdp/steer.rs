//! Steering received frames to AF_XDP sockets, or leaving them to the kernel.

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};

use super::steer_program;
use super::{Gate, Share};
use crate::sys::{AttachMode, BpfError, Map, MapKind, XdpLink, XdpProgram};

/// A loaded steering program and its maps. A frame for which there is no socket on the queue it
/// was received on is left to the kernel.
///
/// Order of use: [`load`](Self::load), then in any order [`attach`](Self::attach),
/// [`set_socket`](Self::set_socket) per queue and [`add_address`](Gate::add_address); sockets and
/// addresses may change at any time, and count from the next frame on.
#[derive(Debug)]
pub struct Steer {
    program: XdpProgram,
    sockets: Map,
    gate: Gate,
}

impl Steer {
    /// Makes the maps and loads the program for a device of up to `queues` receive queues.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN.
    pub fn load(share: Share, queues: u32) -> Result<Steer, BpfError> {
        let sockets = Map::create(MapKind::XskMap, "weever_xsks", 4, 4, queues.max(1))?;
        let gate = Gate::new(share)?;
        let code = steer_program::emit(&sockets, &gate)?;
        let program = XdpProgram::load("weever_steer", &code)?;
        Ok(Steer { program, sockets, gate })
    }

    /// Attaches the program to an interface, in the driver if it can, else in the stack. It stays
    /// until the link is dropped or the process ends.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&self, ifindex: u32) -> Result<XdpLink, BpfError> {
        XdpLink::attach(&self.program, ifindex)
    }

    /// Attaches in the given mode only.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_in(&self, ifindex: u32, mode: AttachMode) -> Result<XdpLink, BpfError> {
        XdpLink::attach_in(&self.program, ifindex, mode)
    }

    /// The loaded program.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }

    /// Sends the frames that arrive on a queue to an AF_XDP socket. The socket has its rings
    /// already, and is bound to this very queue: frames for one bound elsewhere are dropped
    /// silently.
    ///
    /// # Errors
    /// The kernel's word: E2BIG if `queue` is beyond the count given to [`load`](Self::load),
    /// EOPNOTSUPP if the descriptor is no AF_XDP socket with rings.
    pub fn set_socket(&self, queue: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd();
        self.sockets.update(&queue.to_ne_bytes(), &fd.to_ne_bytes())
    }

    /// Leaves the frames that arrive on a queue to the kernel again. A socket that is closed is
    /// removed by itself.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn clear_socket(&self, queue: u32) -> Result<bool, BpfError> {
        self.sockets.remove(&queue.to_ne_bytes())
    }

    /// Which frames are ours.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Deref for Steer {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}
