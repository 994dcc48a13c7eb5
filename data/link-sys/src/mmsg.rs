//! UDP datagrams through the kernel's stack, 64 with one system call, as in a fast conventional
//! server: a benchmark's peer. All memory is taken when a batch is made.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{iovec, mmsghdr, msghdr, sockaddr_in};

/// How many datagrams a batch holds.
pub const BATCH: usize = 64;

/// Room for a datagram; longer ones are cut.
const ROOM: usize = 2048;

/// Up to [`BATCH`] received datagrams and their senders (IPv4).
pub struct ReceiveBatch {
    headers: Box<[mmsghdr]>,
    received: usize,
    /// The headers' targets, never moved.
    _iovecs: Box<[iovec]>,
    addresses: Box<[sockaddr_in]>,
    buffers: Box<[[u8; ROOM]]>,
}

// SAFETY: the pointers lead into the batch's own boxes.
unsafe impl Send for ReceiveBatch {}

impl Default for ReceiveBatch {
    fn default() -> ReceiveBatch {
        ReceiveBatch::new()
    }
}

impl ReceiveBatch {
    /// An empty batch.
    pub fn new() -> ReceiveBatch {
        let mut buffers = vec![[0; ROOM]; BATCH].into_boxed_slice();
        let mut addresses = vec![no_address(); BATCH].into_boxed_slice();
        let mut iovecs: Box<[iovec]> = buffers.iter_mut().map(|bytes| part(bytes)).collect();
        let headers = addresses.iter_mut().zip(&mut iovecs).map(|(address, iovec)| {
            let msg_namelen = size_of::<sockaddr_in>() as libc::socklen_t;
            let msg_hdr =
                msghdr { msg_name: ptr::from_mut(address).cast(), msg_namelen, ..message(iovec) };
            mmsghdr { msg_hdr, msg_len: 0 }
        });
        let headers = headers.collect();
        ReceiveBatch { headers, received: 0, _iovecs: iovecs, addresses, buffers }
    }

    /// Receives the waiting datagrams into the batch, in place of its contents, and returns how
    /// many. Blocks for the first one if the socket does.
    ///
    /// # Errors
    /// The kernel's word; [`io::ErrorKind::WouldBlock`] if the socket does not block or its
    /// timeout has passed.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        for header in &mut self.headers[..self.received] {
            header.msg_hdr.msg_namelen = size_of::<sockaddr_in>() as libc::socklen_t;
        }
        for iovec in &mut self._iovecs[..self.received] {
            iovec.iov_len = ROOM;
        }
        self.received = 0;
        let (fd, headers) = (socket.as_fd().as_raw_fd(), self.headers.as_mut_ptr());
        // SAFETY: as many headers as said, pointing to live buffers of the sizes they say.
        let n = unsafe {
            libc::recvmmsg(fd, headers, BATCH as u32, libc::MSG_WAITFORONE, ptr::null_mut())
        };
        self.received = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        for (iovec, header) in self._iovecs.iter_mut().zip(&self.headers[..self.received]) {
            iovec.iov_len = header.msg_len as usize;
        }
        Ok(self.received)
    }

    /// The received datagrams and their senders, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], SocketAddrV4)> {
        (0..self.received).map(|i| {
            let length = (self.headers[i].msg_len as usize).min(ROOM);
            (&self.buffers[i][..length], from_raw(&self.addresses[i]))
        })
    }

    /// Sends every received datagram back to its sender, and returns how many were sent before
    /// the socket would have had to block or failed.
    ///
    /// # Errors
    /// The kernel's word if nothing could be sent.
    pub fn send_back(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        send_all(socket, &mut self.headers[..self.received])
    }
}

/// Up to [`BATCH`] copies of one datagram to one place.
pub struct SendBatch {
    headers: Box<[mmsghdr]>,
    /// The headers' target, never moved.
    _iovec: Box<iovec>,
    _address: Box<sockaddr_in>,
    _payload: Box<[u8]>,
}

// SAFETY: the pointers lead into the batch's own boxes.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// A batch of [`BATCH`] datagrams of that payload.
    pub fn new(payload: &[u8], to: SocketAddrV4) -> SendBatch {
        let mut payload: Box<[u8]> = payload.into();
        let mut iovec = Box::new(part(&mut payload));
        let mut address = Box::new(to_raw(to));
        let msg_namelen = size_of::<sockaddr_in>() as libc::socklen_t;
        let mut header = || mmsghdr {
            msg_hdr: msghdr {
                msg_name: ptr::from_mut(&mut *address).cast(),
                msg_namelen,
                ..message(&mut iovec)
            },
            msg_len: 0,
        };
        let headers = (0..BATCH).map(|_| header()).collect();
        SendBatch { headers, _iovec: iovec, _address: address, _payload: payload }
    }

    /// Sends the first `n` (at most [`BATCH`]) and returns how many went before the socket would
    /// have had to block or failed.
    ///
    /// # Errors
    /// The kernel's word if nothing could be sent.
    pub fn send(&mut self, socket: &impl AsFd, n: usize) -> io::Result<usize> {
        send_all(socket, &mut self.headers[..n.min(BATCH)])
    }
}

fn send_all(socket: &impl AsFd, headers: &mut [mmsghdr]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let mut sent = 0;
    while sent < headers.len() {
        let rest = &mut headers[sent..];
        // SAFETY: as many headers as said, pointing to live buffers of the sizes they say.
        let n = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as u32, 0) };
        match usize::try_from(n) {
            Ok(n) => sent += n,
            Err(_) if sent > 0 => return Ok(sent),
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(sent)
}

fn part(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message(iovec: &mut iovec) -> msghdr {
    msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: iovec,
        msg_iovlen: 1,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

fn no_address() -> sockaddr_in {
    to_raw(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
}

fn to_raw(address: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn from_raw(raw: &sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(u32::from_be(raw.sin_addr.s_addr).into(), u16::from_be(raw.sin_port))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::time::Duration;

    use super::*;

    fn socket() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else { unreachable!() };
        (socket, address)
    }

    #[test]
    fn datagrams_go_there_and_back() {
        let ((near, near_address), (far, far_address)) = (socket(), socket());
        let mut batch = ReceiveBatch::new();
        for n in [1, 5, BATCH, 2] {
            for length in [0, 1, 64, 1472] {
                let payload = vec![length as u8; length];
                let mut sender = SendBatch::new(&payload, far_address);
                assert_eq!(sender.send(&near, n).unwrap(), n);
                let mut seen = 0;
                while seen < n {
                    let received = batch.receive(&far).unwrap();
                    assert!(batch.iter().all(|got| got == (&payload[..], near_address)));
                    assert_eq!(batch.send_back(&far).unwrap(), received);
                    seen += received;
                }
                let mut bytes = [0; 2000];
                for _ in 0..n {
                    let (length, from) = near.recv_from(&mut bytes).unwrap();
                    assert_eq!((&bytes[..length], from), (&payload[..], far_address.into()));
                }
            }
        }
    }

    #[test]
    fn a_silent_socket_would_block() {
        let (socket, _) = socket();
        socket.set_nonblocking(true).unwrap();
        let mut batch = ReceiveBatch::new();
        let error = batch.receive(&socket).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(batch.iter().len(), 0);
        assert_eq!(batch.send_back(&socket).unwrap(), 0);
    }
}
