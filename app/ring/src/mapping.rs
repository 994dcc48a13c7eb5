//! The first bytes of a memfd, mapped.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::ChannelError;

/// Mapped to read and write; unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a range of shared memory; all access is by atomics, or by raw copies that the holder of a frame makes.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn of(fd: impl AsFd, len: usize) -> Result<Mapping, ChannelError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
        let start = start.map_err(system("mmap"))?.cast::<u8>();
        Ok(Mapping { start: NonNull::new(start).expect("mmap never returns null"), len })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped; nothing refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| ChannelError::System { call, reason: errno.to_string() }
}
