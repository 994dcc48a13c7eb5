//! The program that decides what is ours, and its attachment.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use weever_ebpf::sys::{AttachMode, BpfError, XdpLink};
use weever_ebpf::xdp::{Share as SteerShare, Steer, SteerCounters};

use super::{Attach, Share};

/// What is steered to us; may be changed while packets flow, from any thread.
#[derive(Debug)]
pub struct Steering {
    steer: Steer,
    link: OnceLock<XdpLink>,
}

impl Steering {
    pub(super) fn load(share: &Share, queues: u16) -> Result<Steering, BpfError> {
        let (kind, addresses) = match share {
            Share::None => (SteerShare::None, &[][..]),
            Share::Address(addresses) => (SteerShare::Address, &addresses[..]),
        };
        let steer = Steer::load(kind, u32::from(queues))?;
        addresses.iter().try_for_each(|address| steer.add_address(*address))?;
        Ok(Steering { steer, link: OnceLock::new() })
    }

    pub(super) fn attach(&self, ifindex: u32, attach: Attach) -> Result<AttachMode, BpfError> {
        let link = match attach {
            Attach::Auto => self.steer.attach(ifindex),
            Attach::Native => self.steer.attach_in(ifindex, AttachMode::Native),
            Attach::Generic => self.steer.attach_in(ifindex, AttachMode::Generic),
        }?;
        Ok(self.link.get_or_init(|| link).mode())
    }

    pub(super) fn direct(&self, queue: u16, socket: &impl AsFd) -> Result<(), BpfError> {
        self.steer.set_socket(u32::from(queue), socket)
    }

    pub(super) fn undirect(&self, queue: u16) -> Result<(), BpfError> {
        self.steer.clear_socket(u32::from(queue)).map(drop)
    }

    /// Takes an address from the kernel. Packets already on their way to it go where they went.
    ///
    /// # Errors
    /// [`BpfError::Setting`] on a device that is not shared; E2BIG beyond 1,024 addresses.
    pub fn add_address(&self, address: Ipv4Addr) -> Result<(), BpfError> {
        self.steer.add_address(address)
    }

    /// Gives an address back and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] on a device that is not shared.
    pub fn remove_address(&self, address: Ipv4Addr) -> Result<bool, BpfError> {
        self.steer.remove_address(address)
    }

    /// How many frames went to sockets, and how many to the kernel.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn counters(&self) -> Result<SteerCounters, BpfError> {
        self.steer.counters()
    }
}
