//! AF_XDP: all queues of a device, past the kernel's stack.
//!
//! One socket per device queue, all over the pool's memory, which the kernel registers once (UMEM).
//! A steering program in the driver sends our frames to the sockets and leaves the rest to the
//! kernel; it goes with the process, so that even a killed one leaves the device usable, unless [`Pins`] keep it.
//!
//! As long as a device is open, it receives frames for all groups of stations: the stack may be in
//! any of them.
//!
//! System calls are made by `flush`, when the kernel has to be told that there is something to send
//! (always in copy mode, see [`weever_link::LinkInfo::mode`]), and by reading
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
mod config;
mod error;
mod open;
mod pins;
mod queue;
mod receive;
mod rings;
mod sharing;
mod socket;
mod steering;
mod transmit;

pub use bare::Bare;
pub use config::{AfXdpConfig, Attach, ChecksumOffload, Queues, RingSizes, Share};
pub use error::{OpenError, ThreadsError};
pub use open::AfXdp;
pub use pins::Pins;
pub use sharing::ReceiveThreads;
pub use steering::Steering;
pub use weever_ebpf::xdp::Port;
