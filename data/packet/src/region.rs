//! The memory that frames live in.

#[cfg(not(miri))]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::io::Errno;

/// Whether a region asks for huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Take them when the system has some reserved; otherwise ordinary memory, which the kernel is
    /// asked to back with huge pages as far as it finds some.
    #[default]
    Try,
    /// Ordinary pages.
    Never,
}

/// Why a pool could not be made or used.
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
    /// The machine has no such NUMA node, or it has no memory.
    #[error(
        "pool: there is no memory on NUMA node {node}; use one of {known}, or leave `node` out"
    )]
    Node {
        /// The node asked for.
        node: u32,
        /// The nodes with memory, as the kernel lists them.
        known: String,
    },
    /// Memory of another process cannot be used.
    #[error("pool: the memory of another process {why}; it has to be a memfd with F_SEAL_SHRINK")]
    Foreign {
        /// The reason.
        why: String,
    },
    /// There are not as many free frames.
    #[error("pool: {wanted} frames are wanted, {available} are free; raise the number of frames")]
    Exhausted {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        available: usize,
    },
    /// Too many have frames of the pool.
    #[error("pool: 4095 queues and applications have frames of it; close some")]
    Borrowers,
}

const PAGE: usize = 4096;

/// A mapping, unmapped when dropped. Readable and writable.
#[derive(Debug)]
pub struct Region {
    memory: memory::Memory,
    huge: bool,
    #[cfg(not(miri))]
    memfd: Option<OwnedFd>,
}

impl Region {
    /// Maps at least `len` zeroed bytes of this process's own, populated so that no packet pays for a
    /// page fault; on a NUMA node, if one is named.
    ///
    /// # Errors
    /// [`PoolError::Memory`], [`PoolError::Map`] or [`PoolError::Node`].
    pub fn map(len: usize, huge: HugePages, node: Option<u32>) -> Result<Region, PoolError> {
        #[cfg(not(miri))]
        if let Some(node) = node {
            crate::numa::check(node).map_err(|known| PoolError::Node { node, known })?;
        }
        if huge == HugePages::Try
            && let Ok(memory) = memory::Memory::huge(len, node)
        {
            return Ok(Region::of(memory, true));
        }
        let bytes = len.next_multiple_of(PAGE);
        match available() {
            Some(available) if bytes > available => Err(PoolError::Memory { bytes, available }),
            _ => Ok(Region::of(memory::Memory::ordinary(bytes, huge, node)?, false)),
        }
    }

    /// Maps the first `len` bytes of a memfd that another process may have mapped too. It has to be sealed
    /// against shrinking, since an access behind its end would be a fatal signal.
    ///
    /// # Errors
    /// [`PoolError::Foreign`] or [`PoolError::Map`].
    #[cfg(not(miri))]
    pub fn shared(memfd: &OwnedFd, len: usize) -> Result<Region, PoolError> {
        Ok(Region::of(memory::Memory::shared(memfd, len)?, false))
    }

    /// Maps at least `len` zeroed bytes of a new memfd, whose size is sealed, to be [shared](Self::memfd) with a program.
    ///
    /// # Errors
    /// [`PoolError::Map`].
    #[cfg(not(miri))]
    pub fn shareable(len: usize) -> Result<Region, PoolError> {
        let len = len.next_multiple_of(PAGE);
        let memfd = memory::sealed(len)?;
        let region = Region::shared(&memfd, len)?;
        Ok(Region { memfd: Some(memfd), ..region })
    }

    /// The memfd of a [shareable](Self::shareable) region. Whoever maps it can reach all of its frames, and promises by
    /// the `unsafe` that this takes to touch those only that a pool over this region has [given](crate::Exchange) to
    /// them. Nothing can hold a process to it that gets the descriptor: it is trusted, or does not get it.
    #[cfg(not(miri))]
    pub fn memfd(&self) -> Option<BorrowedFd<'_>> {
        self.memfd.as_ref().map(AsFd::as_fd)
    }

    fn of(memory: memory::Memory, huge: bool) -> Region {
        Region {
            memory,
            huge,
            #[cfg(not(miri))]
            memfd: None,
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

    /// Whether it lies on huge pages that were reserved.
    pub fn is_huge(&self) -> bool {
        self.huge
    }
}

/// The memory available without swapping by `/proc/meminfo`, in bytes; `None` where it cannot be
/// read.
fn available() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

// SAFETY: a range of addresses; only raw pointers are handed out, and code that dereferences them
// ensures exclusive access.
unsafe impl Send for memory::Memory {}
// SAFETY: as for Send; no method writes through a shared reference.
unsafe impl Sync for memory::Memory {}

#[cfg(not(miri))]
mod memory {
    use std::ffi::c_void;
    use std::os::fd::OwnedFd;
    use std::ptr::{NonNull, null_mut};

    use rustix::fs::{
        MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
    };
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

    use super::{HugePages, PoolError};

    const HUGE_PAGE: usize = 2 << 20;
    const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    #[derive(Debug)]
    pub(super) struct Memory {
        pub(super) start: NonNull<u8>,
        pub(super) len: usize,
    }

    /// A memfd of so many bytes, whose size is fixed.
    pub(super) fn sealed(len: usize) -> Result<OwnedFd, PoolError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memfd = memfd_create(c"weever-frames", flags).map_err(failed(len, "memfd_create"))?;
        ftruncate(&memfd, len as u64).map_err(failed(len, "ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&memfd, seals).map_err(failed(len, "sealing"))?;
        Ok(memfd)
    }

    fn failed(bytes: usize, what: &'static str) -> impl Fn(Errno) -> PoolError {
        move |source| PoolError::Map { bytes, what, source }
    }

    impl Memory {
        /// On huge pages that the system has reserved.
        pub(super) fn huge(len: usize, node: Option<u32>) -> Result<Memory, PoolError> {
            let len = len.next_multiple_of(HUGE_PAGE);
            Memory::anonymous(len, MapFlags::HUGETLB)?.placed(node)
        }

        /// On pages that are huge as far as the kernel finds some, if that is wanted.
        pub(super) fn ordinary(
            len: usize,
            huge: HugePages,
            node: Option<u32>,
        ) -> Result<Memory, PoolError> {
            if huge == HugePages::Never || len < HUGE_PAGE {
                return Memory::anonymous(len, MapFlags::empty())?.placed(node);
            }
            // Only an aligned range becomes a huge page: the bytes around it are never touched.
            let mut memory = Memory::anonymous(len + HUGE_PAGE, MapFlags::NORESERVE)?;
            let lead = memory.start.align_offset(HUGE_PAGE);
            memory.cut(lead, len);
            let start = memory.start.as_ptr().cast::<c_void>();
            // SAFETY: a mapping of our own; the advice changes nothing that can be seen in it.
            let _ordinary_pages_will_do = unsafe { madvise(start, len, Advice::LinuxHugepage) };
            memory.placed(node)
        }

        /// Has its pages be of a node, and be there.
        fn placed(self, node: Option<u32>) -> Result<Memory, PoolError> {
            let (start, len) = (self.start.as_ptr().cast::<c_void>(), self.len);
            if let Some(node) = node {
                // SAFETY: a mapping of our own.
                let bound = unsafe { crate::numa::bind(start, len, node) };
                let errno = |error: std::io::Error| Errno::from_io_error(&error);
                let refused = |error| failed(len, "mbind")(errno(error).unwrap_or(Errno::INVAL));
                bound.map_err(refused)?;
            }
            // SAFETY: as above.
            unsafe { madvise(start, len, Advice::LinuxPopulateWrite) }.or_else(
                |errno| match errno {
                    // Linux before 5.14: the first packets pay for the page faults.
                    Errno::INVAL => Ok(()),
                    other => Err(failed(len, "madvise(MADV_POPULATE_WRITE)")(other)),
                },
            )?;
            Ok(self)
        }

        pub(super) fn shared(memfd: &OwnedFd, len: usize) -> Result<Memory, PoolError> {
            let foreign = |why: String| PoolError::Foreign { why };
            let seals = fcntl_get_seals(memfd)
                .map_err(|errno| foreign(format!("is no memfd ({errno})")))?;
            if !seals.contains(SealFlags::SHRINK) {
                return Err(foreign("can be shrunk under us".into()));
            }
            let size = fstat(memfd).map_err(failed(len, "fstat"))?.st_size;
            if size < len as i64 || len == 0 {
                return Err(foreign(format!("has {size} bytes, and {len} are needed")));
            }
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing.
            let start = unsafe { mmap(null_mut(), len, PROTECTION, flags, memfd, 0) };
            Memory::of(start.map_err(failed(len, "mmap"))?, len)
        }

        fn anonymous(len: usize, flags: MapFlags) -> Result<Memory, PoolError> {
            let flags = MapFlags::PRIVATE | flags;
            // SAFETY: as in `shared`.
            let start = unsafe { mmap_anonymous(null_mut(), len, PROTECTION, flags) };
            Memory::of(start.map_err(failed(len, "mmap"))?, len)
        }

        fn of(start: *mut c_void, len: usize) -> Result<Memory, PoolError> {
            let start = NonNull::new(start.cast::<u8>()).expect("mmap never returns null");
            Ok(Memory { start, len })
        }

        /// Unmaps all but `len` bytes from `lead` on. Both are whole pages and lie within.
        fn cut(&mut self, lead: usize, len: usize) {
            let (start, end) = (self.start.as_ptr(), lead + len);
            for (from, bytes) in [(0, lead), (end, self.len - end)] {
                if bytes > 0 {
                    // SAFETY: a part of our mapping without references into it yet.
                    let unmapped = unsafe { munmap(start.add(from).cast::<c_void>(), bytes) };
                    debug_assert!(unmapped.is_ok());
                }
            }
            // SAFETY: within the mapping.
            self.start = unsafe { self.start.add(lead) };
            self.len = len;
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: exactly the range that is mapped; nothing refers to it any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

/// Miri maps nothing: there, a region is of the allocator and cannot be shared.
#[cfg(miri)]
mod memory {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use rustix::io::Errno;

    use super::{HugePages, PAGE, PoolError};

    #[derive(Debug)]
    pub(super) struct Memory {
        pub(super) start: NonNull<u8>,
        pub(super) len: usize,
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, PAGE).ok().filter(|layout| layout.size() > 0)
    }

    impl Memory {
        pub(super) fn huge(len: usize, _: Option<u32>) -> Result<Memory, PoolError> {
            Err(PoolError::Map { bytes: len, what: "huge pages", source: Errno::NOSYS })
        }

        pub(super) fn ordinary(
            len: usize,
            _: HugePages,
            _: Option<u32>,
        ) -> Result<Memory, PoolError> {
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
                // SAFETY: allocated in `ordinary` with this very layout, and no longer in use.
                unsafe { dealloc(self.start.as_ptr(), layout) };
            }
        }
    }
}
