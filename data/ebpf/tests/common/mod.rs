//! Frames by hand, and the least of an AF_XDP socket.
#![allow(unsafe_code, reason = "setsockopt of AF_XDP")]
#![allow(dead_code, reason = "not every test file uses everything")]

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use weever_ebpf::sys::XdpAction;
use weever_ebpf::xdp::Steer;

pub(crate) fn ethernet(ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(body);
    frame
}

/// An IPv4 packet with the given flags and fragment offset.
pub(crate) fn ipv4(destination: Ipv4Addr, fragment: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 1];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, 17, 0, 0, 192, 0, 2, 1]);
    packet.extend(destination.octets());
    packet.extend([0; 8]);
    ethernet(0x0800, &packet)
}

/// An ARP request for an address.
pub(crate) fn arp(target: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1];
    message.extend([0; 6]);
    message.extend(target.octets());
    ethernet(0x0806, &message)
}

/// The same frame with an 802.1Q tag.
pub(crate) fn tagged(frame: &[u8]) -> Vec<u8> {
    let mut with_tag = frame[..12].to_vec();
    with_tag.extend([0x81, 0, 0, 42]);
    with_tag.extend(&frame[12..]);
    with_tag
}

/// An AF_XDP socket with rings and a UMEM but bound to nothing: enough to sit in an XSKMAP.
pub(crate) struct XskSocket {
    fd: OwnedFd,
    _umem: Umem,
}

struct Umem(*mut libc::c_void);

const UMEM_SIZE: usize = 1 << 16;

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: mapped in `XskSocket::new` with this size.
        unsafe { libc::munmap(self.0, UMEM_SIZE) };
    }
}

impl XskSocket {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no addresses; the result is checked and owned.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let umem = map_umem()?;
        let registration = libc::xdp_umem_reg {
            addr: umem.0 as u64,
            len: UMEM_SIZE as u64,
            chunk_size: 2048,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&fd, libc::XDP_UMEM_REG, &registration)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
            set(&fd, ring, &16u32)?;
        }
        Ok(XskSocket { fd, _umem: umem })
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn map_umem() -> io::Result<Umem> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), UMEM_SIZE, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Umem(address)) }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let address = std::ptr::from_ref(value).cast();
    // SAFETY: the value is live and of the size given.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, address, size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn verdict(steer: &Steer, frame: &[u8]) -> Option<XdpAction> {
    let outcome = steer.program().run(frame, 1).unwrap();
    assert_eq!(outcome.frame, frame, "steering changes nothing");
    outcome.action()
}
