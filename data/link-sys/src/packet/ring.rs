//! A receive ring of version 3: the kernel fills blocks of frames and hands over whole blocks.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::{TP_STATUS_KERNEL, TP_STATUS_USER, tpacket_block_desc, tpacket_req3, tpacket3_hdr};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Protocol, bind, failure, readable, set_option, unbound};
use crate::netdev::InterfaceError;

/// A ring's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// How many blocks.
    pub blocks: u32,
    /// Bytes of a block, a power of two and a multiple of the page size.
    pub block_size: u32,
    /// After how many milliseconds a block that is not full is handed over.
    pub timeout_ms: u32,
}

impl Default for RingShape {
    /// 64 blocks of 256 KiB, 10 ms.
    fn default() -> RingShape {
        RingShape { blocks: 64, block_size: 1 << 18, timeout_ms: 10 }
    }
}

/// A packet socket with a mapped receive ring.
#[derive(Debug)]
pub struct TpacketRing {
    fd: OwnedFd,
    start: NonNull<u8>,
    shape: RingShape,
    next: u32,
}

// SAFETY: the mapping is this value's own, and used through `&mut self` only.
unsafe impl Send for TpacketRing {}

impl TpacketRing {
    /// Opens one in the calling thread's network namespace; needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`InterfaceError::NotFound`], or the kernel's word (EPERM; EINVAL for impossible shapes).
    pub fn open(
        interface: &str,
        protocol: Protocol,
        shape: RingShape,
    ) -> Result<TpacketRing, InterfaceError> {
        let (fd, interface) = unbound(interface)?;
        let fail = |what| move |error: io::Error| (what, error);
        let start = set_up(&fd, shape)
            .and_then(|()| map(&fd, shape).map_err(fail("mmap")))
            .map_err(|(what, error)| failure(&interface, what, error))?;
        let ring = TpacketRing { fd, start, shape, next: 0 };
        // Bound last: a socket with a protocol but no ring would queue frames elsewhere.
        bind(&ring.fd, &interface, protocol)?;
        Ok(ring)
    }

    /// Shows `visit` the frames of the next block, hands the block back, and returns how many they
    /// were; 0 if no block is ready. Does not block.
    pub fn next_block(&mut self, mut visit: impl FnMut(&[u8])) -> usize {
        let offset = self.next as usize * self.shape.block_size as usize;
        // SAFETY: `next` is below `blocks`, so the block lies in the mapping.
        let block = unsafe { self.start.add(offset) };
        // SAFETY: a block starts with its descriptor, whose union has one variant; the status in
        // it is an aligned word that both sides access atomically.
        let status = unsafe {
            let header: NonNull<tpacket_block_desc> = block.cast();
            AtomicU32::from_ptr(&raw mut (*header.as_ptr()).hdr.bh1.block_status)
        };
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return 0;
        }
        // SAFETY: the block is ours until its status says otherwise.
        let frames = unsafe { visit_frames(block, &mut visit) };
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.shape.blocks;
        frames
    }

    /// Waits for a block; false if none came in time.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        readable(self.fd.as_fd(), timeout)
    }
}

impl AsFd for TpacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for TpacketRing {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped; nothing refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), bytes(self.shape)) };
        debug_assert!(unmapped.is_ok());
    }
}

fn bytes(shape: RingShape) -> usize {
    shape.blocks as usize * shape.block_size as usize
}

fn set_up(fd: &OwnedFd, shape: RingShape) -> Result<(), (&'static str, io::Error)> {
    let version = libc::tpacket_versions::TPACKET_V3 as i32;
    set_option(fd, libc::PACKET_VERSION, &version).map_err(|error| ("PACKET_VERSION", error))?;
    const FRAME: u32 = 2048;
    let request = tpacket_req3 {
        tp_block_size: shape.block_size,
        tp_block_nr: shape.blocks,
        // Of no meaning to version 3, but the kernel wants the product to fit.
        tp_frame_size: FRAME,
        tp_frame_nr: (bytes(shape) / FRAME as usize) as u32,
        tp_retire_blk_tov: shape.timeout_ms,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set_option(fd, libc::PACKET_RX_RING, &request).map_err(|error| ("PACKET_RX_RING", error))
}

fn map(fd: &OwnedFd, shape: RingShape) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes(shape), protection, flags, fd, 0) }?;
    NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// `block` is a block that the kernel has handed over.
unsafe fn visit_frames(block: NonNull<u8>, visit: &mut impl FnMut(&[u8])) -> usize {
    // SAFETY: a block starts with its descriptor, whose union has one variant.
    let header = unsafe { block.cast::<tpacket_block_desc>().as_ref().hdr.bh1 };
    let mut offset = header.offset_to_first_pkt as usize;
    for _ in 0..header.num_pkts {
        // SAFETY: the kernel's offsets lead from header to header within the block.
        let frame = unsafe { block.add(offset) };
        // SAFETY: as above; headers are aligned to 16 bytes.
        let packet = unsafe { frame.cast::<tpacket3_hdr>().as_ref() };
        // SAFETY: the frame's bytes lie at `tp_mac` behind its header, `tp_snaplen` of them.
        visit(unsafe {
            std::slice::from_raw_parts(
                frame.add(packet.tp_mac as usize).as_ptr(),
                packet.tp_snaplen as usize,
            )
        });
        offset += packet.tp_next_offset as usize;
    }
    header.num_pkts as usize
}
