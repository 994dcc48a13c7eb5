//! The memory that frames live in.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

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

const HUGE_PAGE: usize = 2 << 20;

/// A shared mapping of a memfd, unmapped when dropped. Readable and writable.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    start: NonNull<u8>,
    len: usize,
    huge: bool,
}

// SAFETY: a region is a range of addresses and an owned descriptor; it hands out raw pointers only,
// and whoever dereferences them answers for exclusive access.
unsafe impl Send for Region {}
// SAFETY: as for Send; no method writes through a shared reference.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `len` zeroed bytes, populated so that no packet pays for a page fault.
    pub fn map(len: usize, huge: HugePages) -> Result<Region, PoolError> {
        if huge == HugePages::Try {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB;
            if let Ok(region) = Region::try_map(len.next_multiple_of(HUGE_PAGE), flags, true) {
                return Ok(region);
            }
        }
        let bytes = len.next_multiple_of(4096);
        match available() {
            Some(available) if bytes > available => Err(PoolError::Memory { bytes, available }),
            _ => Region::try_map(bytes, MemfdFlags::CLOEXEC, false),
        }
    }

    fn try_map(len: usize, flags: MemfdFlags, huge: bool) -> Result<Region, PoolError> {
        let fail = |what| move |source| PoolError::Map { bytes: len, what, source };
        let fd = memfd_create(c"weever-pool", flags).map_err(fail("memfd_create"))?;
        ftruncate(&fd, len as u64).map_err(fail("ftruncate"))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, map, &fd, 0) }
            .map_err(fail("mmap"))?;
        let start = NonNull::new(start.cast::<u8>()).expect("mmap never returns null");
        Ok(Region { fd, start, len, huge })
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; never true of a mapped region.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The memfd behind it, to share with another process or the kernel.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What `/proc/meminfo` says can be had without swapping, in bytes; `None` where it cannot be read.
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `try_map` mapped; nothing refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
