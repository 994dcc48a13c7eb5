//! Packet sockets: frames by hand, past the kernel's protocols but through its stack.
//!
//! [`PacketSocket`] sends and receives single frames. [`TpacketRing`] receives many through a
//! mapped ring (`TPACKET_V3`), as other stacks do: it is a benchmark's peer.

mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use crate::netdev::{Interface, InterfaceError};

pub use ring::{RingShape, TpacketRing};

/// Which received frames a socket sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// All of them.
    All,
    /// Those of one EtherType.
    EtherType(u16),
}

/// A packet socket bound to one interface. It sees arriving packets, not sent ones.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    interface: Interface,
}

impl PacketSocket {
    /// Opens one in the calling thread's network namespace; needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`InterfaceError::NotFound`], or the kernel's word (EPERM).
    pub fn open(interface: &str, protocol: Protocol) -> Result<PacketSocket, InterfaceError> {
        let (fd, interface) = unbound(interface)?;
        bind(&fd, &interface, protocol)?;
        Ok(PacketSocket { fd, interface })
    }

    /// The interface, as it was when the socket was opened.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Sends a frame, link header first. Blocks while the interface's queue is full.
    ///
    /// # Errors
    /// The kernel's word: EMSGSIZE beyond the MTU, EINVAL below a link header, ENETDOWN.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(&self.fd, frame, SendFlags::empty())?;
        Ok(())
    }

    /// Waits for a frame, writes it to `buffer` as far as it fits, and returns its length there;
    /// `None` if none came in time.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let end = Instant::now() + timeout;
        loop {
            match recv(&self.fd, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => return Ok(Some(length)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !readable(self.fd.as_fd(), end.saturating_duration_since(Instant::now()))? {
                return Ok(None);
            }
        }
    }

    /// Lets up to so many bytes of frames (with the kernel's bookkeeping) wait to be received.
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        Ok(set_socket_recv_buffer_size_force(&self.fd, bytes)?)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether it becomes readable in time.
fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// A socket that sees nothing yet.
pub(crate) fn unbound(interface: &str) -> Result<(OwnedFd, Interface), InterfaceError> {
    let interface = Interface::find(interface)?;
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failure(&interface, "socket(AF_PACKET)", errno.into()))?;
    set_option(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32)
        .map_err(|error| failure(&interface, "PACKET_IGNORE_OUTGOING", error))?;
    Ok((fd, interface))
}

pub(crate) fn bind(
    fd: &OwnedFd,
    interface: &Interface,
    protocol: Protocol,
) -> Result<(), InterfaceError> {
    let protocol = match protocol {
        Protocol::All => libc::ETH_P_ALL as u16,
        Protocol::EtherType(ethertype) => ethertype,
    };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is live and of the size given.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) };
    if result < 0 {
        return Err(failure(interface, "bind", io::Error::last_os_error()));
    }
    Ok(())
}

/// Has a device receive frames for all groups of stations, for as long as the descriptor is open:
/// the device is not told which ones the stack is in.
pub(crate) fn receive_multicast(interface: &str) -> Result<OwnedFd, InterfaceError> {
    let (fd, interface) = unbound(interface)?;
    let membership = libc::packet_mreq {
        mr_ifindex: interface.index as i32,
        mr_type: libc::PACKET_MR_ALLMULTI as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(&fd, libc::PACKET_ADD_MEMBERSHIP, &membership)
        .map_err(|error| failure(&interface, "PACKET_ADD_MEMBERSHIP", error))?;
    Ok(fd)
}

/// `T` is a plain structure of the option's.
pub(crate) fn set_option<T>(fd: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value = (&raw const *value).cast();
    // SAFETY: the value is live and of the size given; the kernel only reads it.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn failure(
    interface: &Interface,
    what: &'static str,
    source: io::Error,
) -> InterfaceError {
    InterfaceError::Io { name: interface.name.clone(), what, source }
}
