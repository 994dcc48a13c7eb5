//! A packet socket that hears frames for every station.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use libc::{cmsghdr, iovec, msghdr, sock_filter, sock_fprog, tpacket_auxdata};

use crate::netdev::InterfaceError;
use crate::packet::{Protocol, bind, failure, set_option, unbound};

/// The groups of stations that hear 224.0.0.1 (RFC 1112 §6.4) and ff02::1 (RFC 2464 §7), the first
/// two bytes and the other four.
const GROUPS: [(u32, u32); 2] = [(0x0100, 0x5e00_0001), (0x3333, 0x0000_0001)];
/// Bytes of auxiliary data, with room to align it.
const AUXILIARY: usize = 64;

#[derive(Debug)]
pub(super) struct Ear {
    fd: OwnedFd,
}

/// A frame that was heard.
pub(super) struct Heard {
    /// Bytes of the frame, also of those that had no room.
    pub(super) len: usize,
    /// The VLAN tag, which the kernel takes out of a frame.
    pub(super) tag: Option<[u8; 4]>,
}

impl Ear {
    /// Opens one in the calling thread's network namespace; needs CAP_NET_RAW.
    pub(super) fn open(interface: &str) -> Result<Ear, InterfaceError> {
        let (fd, interface) = unbound(interface)?;
        let fail = |what| {
            let interface = &interface;
            move |error| failure(interface, what, error)
        };
        filter(&fd).map_err(fail("SO_ATTACH_FILTER"))?;
        set_option(&fd, libc::PACKET_AUXDATA, &1i32).map_err(fail("PACKET_AUXDATA"))?;
        // Last: until then, nothing is heard.
        bind(&fd, &interface, Protocol::All)?;
        Ok(Ear { fd })
    }

    /// Writes the next frame, without its tag, to `room` as far as it fits. Does not wait.
    pub(super) fn hear(&self, room: &mut [u8]) -> io::Result<Option<Heard>> {
        let mut part = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut auxiliary = [MaybeUninit::<u64>::zeroed(); AUXILIARY / 8];
        // SAFETY: a header of zeros says that there is nothing to write to.
        let mut header: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        (header.msg_control, header.msg_controllen) = (auxiliary.as_mut_ptr().cast(), AUXILIARY);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the header names live memory of the sizes that it says.
        let n = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags) };
        let Ok(len) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            return if nothing { Ok(None) } else { Err(error) };
        };
        Ok(Some(Heard { len, tag: tag(&header) }))
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The tag that the kernel says the frame had.
fn tag(header: &msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has filled the header in, and the memory it names is live.
    let first: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(header) };
    if first.is_null() {
        return None;
    }
    // SAFETY: it is within the auxiliary data, which is aligned for it.
    let (level, kind) = unsafe { ((*first).cmsg_level, (*first).cmsg_type) };
    if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    // SAFETY: messages of this kind hold this type, and there is room for a whole one.
    let said: tpacket_auxdata = unsafe { ptr::read_unaligned(libc::CMSG_DATA(first).cast()) };
    let valid = said.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
    let typed = said.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if typed { said.tp_vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), said.tp_vlan_tci.to_be_bytes());
    valid.then_some([a, b, c, d])
}

/// Has the socket hear frames to the groups only, before it hears any.
fn filter(fd: &OwnedFd) -> io::Result<()> {
    let load = |size, at| statement(libc::BPF_LD | size | libc::BPF_ABS, at);
    let unless = |value, steps| jump(value, 0, steps);
    let [(first, rest), (first6, rest6)] = GROUPS;
    let mut program = [
        load(libc::BPF_H, 0),
        unless(first, 2),
        load(libc::BPF_W, 2),
        jump(rest, 4, 3),
        unless(first6, 2),
        load(libc::BPF_W, 2),
        jump(rest6, 1, 0),
        statement(libc::BPF_RET | libc::BPF_K, 0),
        statement(libc::BPF_RET | libc::BPF_K, u32::MAX),
    ];
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (size, value) = (size_of::<sock_fprog>() as u32, (&raw const program).cast());
    // SAFETY: the program is live and of the length given; the kernel copies and checks it.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(value: u32, equal: u8, other: u8) -> sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    sock_filter { code, jt: equal, jf: other, k: value }
}
