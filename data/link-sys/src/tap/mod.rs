//! TAP: an interface of the kernel whose cable ends in this process.
//!
//! Packets that the kernel sends by the interface are received here, and the other way round: the
//! way to a host's own stack, to its bridges, and to virtual machines. One descriptor per queue,
//! one system call per packet.
//!
//! Packets carry a *vnet header* (`struct virtio_net_hdr` of the virtio specification, 1.3
//! §5.1.6), by which either side leaves work to the other:
//! - The kernel leaves transport checksums partial: such packets are received with
//!   [`Flags::PARTIAL_CHECKSUM`](weever_packet::Flags). So do we:
//!   [`Offload::tx_checksum`](weever_link::Offload).
//! - The kernel sends up to 64 KiB in one piece for a device to cut. They are cut here, on receive,
//!   into packets as a device would have sent them: a frame of the pool holds no more. A packet
//!   with a [`segment`](weever_packet::Meta::segment) is sent in one piece for the kernel to cut, and segments
//!   of a connection that follow each other are one packet for it, if their checksums are partial.
//!
//! An interface lives as long as its descriptors, or for ever when it is
//! [`persistent`](TapConfig::persistent). Received packets are not dropped here: the kernel's queue
//! is the interface's transmit queue, whose drops `ip -s link` shows.

mod config;
mod device;
mod queue;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weever_link::{Link, LinkInfo, LinkQueue, Offload};

use crate::netdev::Interface;
pub use config::{TapConfig, TapError};
use queue::TapQueue;

/// A TAP interface and our end of it.
#[derive(Debug)]
pub struct Tap {
    info: LinkInfo,
    queues: Vec<TapQueue>,
    /// The first queue's descriptor, by which the interface itself is set.
    device: Arc<OwnedFd>,
    interface: Interface,
}

impl Tap {
    /// Makes or joins an interface in the calling thread's network namespace, and brings it up.
    ///
    /// # Errors
    /// [`TapError`] names the culprit and what to do about it.
    pub fn open(config: &TapConfig) -> Result<Tap, TapError> {
        let opened = device::open(config)?;
        let interface = opened.interface;
        let mtu = u16::try_from(interface.mtu).unwrap_or(u16::MAX);
        let how = if opened.segmentation { "segments" } else { "checksums" };
        let info = LinkInfo {
            name: interface.name.clone(),
            mac: config.mac.unwrap_or_else(|| other_end(interface.mac)),
            mtu,
            queues: config.queues,
            partial_checksums: true,
            offload: Offload { tx_checksum: true, segmentation: true },
            mode: format!("TAP, offloading {how}"),
        };
        let make = |(index, fd): (usize, &Arc<OwnedFd>)| TapQueue::new(fd.clone(), index, &info);
        let queues = opened.queues.iter().enumerate().map(make).collect();
        Ok(Tap { queues, device: opened.queues[0].clone(), interface, info })
    }

    /// The interface as the kernel has it; its MAC address is the kernel's end's.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Plugs the cable in or out, for the kernel to see.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn set_carrier(&self, plugged_in: bool) -> std::io::Result<()> {
        device::set_carrier(&self.device, plugged_in)
    }
}

impl Link for Tap {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let boxed = |queue| Box::new(queue) as Box<dyn LinkQueue>;
        std::mem::take(&mut self.queues).into_iter().map(boxed).collect()
    }
}

/// A locally administered address for our end, the same as long as the kernel's is.
fn other_end(kernels: [u8; 6]) -> [u8; 6] {
    let mut ours = kernels;
    ours[0] = ours[0] & !1 | 2;
    ours[5] ^= 1;
    ours
}
