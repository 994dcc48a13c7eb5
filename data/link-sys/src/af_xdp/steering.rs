//! The program that decides what is ours, and its attachment.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use weever_ebpf::sys::{AttachMode, BpfError, XdpLink};
use weever_ebpf::xdp::{Port, Share as SteerShare, Steer, SteerCounters};

use super::{Attach, Share};

/// What is steered to us; may be changed while packets flow, from any thread.
#[derive(Debug)]
pub struct Steering {
    steer: Steer,
    link: OnceLock<XdpLink>,
}

impl Steering {
    pub(super) fn load(share: &Share, queues: u16) -> Result<Steering, BpfError> {
        let (kind, addresses, ports) = match share {
            Share::None => (SteerShare::None, &[][..], &[][..]),
            Share::Address(addresses) => (SteerShare::Address, &addresses[..], &[][..]),
            Share::Ports(addresses, ports) => (SteerShare::Ports, &addresses[..], &ports[..]),
        };
        let steer = Steer::load(kind, u32::from(queues))?;
        addresses.iter().try_for_each(|address| steer.add_address(*address))?;
        ports.iter().try_for_each(|port| steer.add_port(*port))?;
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

    /// Takes an address from the kernel, which may be a multicast group or the broadcast address.
    /// Packets already on their way to it go where they went.
    ///
    /// # Errors
    /// [`BpfError::Setting`] on a device that is not shared; E2BIG beyond 1,024 addresses of a
    /// family.
    pub fn add_address(&self, address: impl Into<IpAddr>) -> Result<(), BpfError> {
        self.steer.add_address(address)
    }

    /// Gives an address back and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] on a device that is not shared.
    pub fn remove_address(&self, address: impl Into<IpAddr>) -> Result<bool, BpfError> {
        self.steer.remove_address(address)
    }

    /// Takes a port of the addresses from the kernel.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the device is shared by port; E2BIG beyond 16,384 ports.
    pub fn add_port(&self, port: Port) -> Result<(), BpfError> {
        self.steer.add_port(port)
    }

    /// Gives a port back and says whether it was ours.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless the device is shared by port.
    pub fn remove_port(&self, port: Port) -> Result<bool, BpfError> {
        self.steer.remove_port(port)
    }

    /// How many frames went to sockets, and how many to the kernel.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn counters(&self) -> Result<SteerCounters, BpfError> {
        self.steer.counters()
    }
}
