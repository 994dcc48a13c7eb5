//! A ring's mapping.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::XdpRingOffset;
use weever_ring::RingParts;

/// Where the kernel keeps a ring, in a descriptor's space of mappings.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) offsets: XdpRingOffset,
    pub(super) len: u32,
}

/// The memory of one ring, unmapped when dropped: as long as it is mapped the socket lives, even
/// if its descriptor is closed.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address range that is only freed once; what lies in it is reached through the rings.
unsafe impl Send for Mapping {}
// SAFETY: no method touches the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a ring of `T`s.
    pub(super) fn new<T>(fd: BorrowedFd<'_>, place: Place) -> io::Result<(Mapping, RingParts<T>)> {
        let Place { at, offsets, len } = place;
        let bytes = offsets.desc as usize + len as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, fd, at) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = offsets.flags.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the kernel's offsets lie within the ring it has just mapped.
        let part = |offset: u64| unsafe { start.add(offset as usize) };
        let parts = RingParts {
            producer: part(offsets.producer).cast(),
            consumer: part(offsets.consumer).cast(),
            flags: part(flags).cast(),
            slots: part(offsets.desc).cast(),
            len,
        };
        Ok((Mapping { start, bytes }, parts))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; rings over it are dropped before (see `Socket`).
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
