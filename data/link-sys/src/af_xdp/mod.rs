//! AF_XDP: all queues of a device, past the kernel's stack.
//!
//! One socket per device queue, all over the pool's memory, which the kernel registers once
//! (UMEM). A steering program in the driver sends to the sockets what is ours and leaves the rest
//! to the kernel; it goes with the process, so that even a killed one leaves the device usable.
//!
//! As long as a device is open, it receives frames for all groups of stations: the stack may be in
//! any of them.
//!
//! What costs a system call: `flush`, when the kernel has to be told that there is something to
//! send (always in copy mode, see [`weever_link::LinkInfo::mode`]), and reading
//! [`stats`](weever_link::LinkQueue::stats). A queue that receives nothing asks twice a second
//! whether its device is still there.
//!
//! Where the kernel offers transmit metadata, packets with a partial checksum are sent with a
//! request to complete it ([`ChecksumOffload`]): in copy mode by the device or, if it cannot, by the
//! kernel's stack on the way to it; in zero-copy mode by drivers that say that they do it.
//!
//! Frames that the kernel holds when a queue is dropped come home if it can be proven that it does
//! not use them any more. The rest is lost to the pool: in zero-copy mode those lent to the device,
//! and in either mode those of packets that the device does not send within a tenth of a second.

mod bare;
mod close;
mod config;
mod error;
mod frames;
mod mapping;
mod metadata;
mod open;
mod queue;
mod receive;
mod rings;
mod socket;
mod steering;
mod transmit;

pub use bare::Bare;
pub use config::{AfXdpConfig, Attach, ChecksumOffload, Queues, RingSizes, Share};
pub use error::OpenError;
pub use steering::Steering;
pub use weever_ebpf::xdp::Port;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weever_link::{Link, LinkInfo, LinkQueue};

use queue::XskQueue;

/// A device opened over AF_XDP. The steering program stays attached until this, its queues and the
/// [`Steering`] handles are dropped.
pub struct AfXdp {
    info: LinkInfo,
    queues: Vec<XskQueue>,
    steering: Arc<Steering>,
    /// While it is open, the device receives what is for any group.
    _groups: OwnedFd,
}

impl AfXdp {
    /// Opens a device in the calling thread's network namespace. Blocks while its queues or its
    /// place for a program are in use, for as long as
    /// [`patience`](AfXdpConfig::patience) says.
    ///
    /// # Errors
    /// [`OpenError`] names the culprit and what to do about it.
    pub fn open(config: &AfXdpConfig) -> Result<AfXdp, OpenError> {
        open::open(config)
    }

    /// What is steered to us.
    pub fn steering(&self) -> &Arc<Steering> {
        &self.steering
    }
}

impl Link for AfXdp {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let boxed = |queue| Box::new(queue) as Box<dyn LinkQueue>;
        std::mem::take(&mut self.queues).into_iter().map(boxed).collect()
    }
}
