//! The memory that frames live in.

#[cfg(not(miri))]
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;

/// Whether a region asks for huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Take them when the system has some reserved, ordinary pages otherwise.
    #[default]
    Try,
    /// Ordinary pages.
    Never,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The configuration makes no sense.
    #[error("pool: {0}")]
    Config(String),
    /// The system has not as much memory. Asking for it all the same would not fail but have the
    /// kernel kill processes, perhaps others than this one.
    #[error(
        "pool: {bytes} bytes are wanted, {available} are available; lower the number of frames"
    )]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// How much there is.
        available: usize,
    },
    /// The system refused the memory.
    #[error("pool: cannot map {bytes} bytes ({what}): {source}; lower the number of frames")]
    Map {
        /// How much was asked for.
        bytes: usize,
        /// The call that failed.
        what: &'static str,
        /// The system's word.
        source: Errno,
    },
}

const PAGE: usize = 4096;

/// A shared mapping of a memfd, unmapped when dropped. Readable and writable.
#[derive(Debug)]
pub struct Region {
    memory: memory::Memory,
    huge: bool,
}

impl Region {
    /// Maps at least `len` zeroed bytes, populated so that no packet pays for a page fault.
    ///
    /// # Errors
    /// [`PoolError::Memory`] or [`PoolError::Map`].
    pub fn map(len: usize, huge: HugePages) -> Result<Region, PoolError> {
        if huge == HugePages::Try
            && let Ok(memory) = memory::Memory::huge(len)
        {
            return Ok(Region { memory, huge: true });
        }
        let bytes = len.next_multiple_of(PAGE);
        match available() {
            Some(available) if bytes > available => Err(PoolError::Memory { bytes, available }),
            _ => Ok(Region { memory: memory::Memory::ordinary(bytes)?, huge: false }),
        }
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether it has no bytes; never true of a mapped region.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The memfd behind it, to share with another process or the kernel.
    #[cfg(not(miri))]
    pub fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.memory.fd)
    }
}

/// What `/proc/meminfo` says can be had without swapping, in bytes; `None` where it cannot be read.
fn available() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

// SAFETY: a range of addresses and an owned descriptor; only raw pointers are handed out, and whoever
// dereferences them answers for exclusive access.
unsafe impl Send for memory::Memory {}
// SAFETY: as for Send; no method writes through a shared reference.
unsafe impl Sync for memory::Memory {}

#[cfg(not(miri))]
mod memory {
    use std::ffi::c_void;
    use std::os::fd::OwnedFd;
    use std::ptr::NonNull;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::PoolError;

    const HUGE_PAGE: usize = 2 << 20;

    #[derive(Debug)]
    pub(super) struct Memory {
        pub(super) fd: OwnedFd,
        pub(super) start: NonNull<u8>,
        pub(super) len: usize,
    }

    impl Memory {
        pub(super) fn huge(len: usize) -> Result<Memory, PoolError> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB;
            Memory::map(len.next_multiple_of(HUGE_PAGE), flags)
        }

        pub(super) fn ordinary(len: usize) -> Result<Memory, PoolError> {
            Memory::map(len, MemfdFlags::CLOEXEC)
        }

        fn map(len: usize, flags: MemfdFlags) -> Result<Memory, PoolError> {
            let fail = |what| move |source| PoolError::Map { bytes: len, what, source };
            let fd = memfd_create(c"weever-pool", flags).map_err(fail("memfd_create"))?;
            ftruncate(&fd, len as u64).map_err(fail("ftruncate"))?;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let map = MapFlags::SHARED | MapFlags::POPULATE;
            // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing.
            let start = unsafe { mmap(std::ptr::null_mut(), len, protection, map, &fd, 0) }
                .map_err(fail("mmap"))?;
            let start = NonNull::new(start.cast::<u8>()).expect("mmap never returns null");
            Ok(Memory { fd, start, len })
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: exactly the range that `map` mapped; nothing refers to it any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

/// Miri knows no memfd: there, a region is ordinary memory that cannot be shared.
#[cfg(miri)]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use rustix::io::Errno;

    use super::{PAGE, PoolError};

    #[derive(Debug)]
    pub(super) struct Memory {
        pub(super) start: NonNull<u8>,
        pub(super) len: usize,
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, PAGE).ok().filter(|layout| layout.size() > 0)
    }

    impl Memory {
        pub(super) fn huge(len: usize) -> Result<Memory, PoolError> {
            Err(PoolError::Map { bytes: len, what: "huge pages", source: Errno::NOSYS })
        }

        pub(super) fn ordinary(len: usize) -> Result<Memory, PoolError> {
            // SAFETY: the layout is not empty.
            let start =
                layout(len).and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }));
            let none = PoolError::Map { bytes: len, what: "alloc", source: Errno::NOMEM };
            start.map(|start| Memory { start, len }).ok_or(none)
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if let Some(layout) = layout(self.len) {
                // SAFETY: allocated in `ordinary` with this very layout, and in nobody's hands.
                unsafe { dealloc(self.start.as_ptr(), layout) };
            }
        }
    }
}
