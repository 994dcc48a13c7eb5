//! A channel's memory: a sealed memfd, mapped.

use std::ffi::c_void;
use std::mem::{align_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::doorbell::Doorbell;
use crate::layout::{ChannelError, Geometry, INFO_SIZE, Ring};
use crate::ring::RingParts;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The seals without which a mapping could lose its pages under its user.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The rings and doorbells of one channel.
pub(crate) struct ChannelParts {
    pub(crate) fill: RingParts<'static>,
    pub(crate) receive: RingParts<'static>,
    pub(crate) transmit: RingParts<'static>,
    pub(crate) completion: RingParts<'static>,
    /// Armed by the application before it sleeps.
    pub(crate) app: Doorbell<'static>,
    /// Armed by the worker when it stops looking at the channel by itself.
    pub(crate) stack: Doorbell<'static>,
}

/// A mapped channel. Unmapped when dropped.
pub struct SharedMemory {
    fd: OwnedFd,
    start: NonNull<u8>,
    /// Where the frames begin, from the start on.
    frames: usize,
    geometry: Geometry,
}

// SAFETY: a range of shared memory and a descriptor; all access is by atomics, or by raw copies
// that the holder of a frame makes.
unsafe impl Send for SharedMemory {}
// SAFETY: as for Send.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes a channel's memory, zeroed but for its header, and seals its size.
    ///
    /// # Errors
    /// [`ChannelError::Geometry`] and [`ChannelError::System`].
    pub fn create(geometry: Geometry) -> Result<SharedMemory, ChannelError> {
        geometry.check()?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(c"weever-channel", flags).map_err(system("memfd_create"))?;
        ftruncate(&fd, geometry.total_size() as u64).map_err(system("ftruncate"))?;
        fcntl_add_seals(&fd, SEALS).map_err(system("sealing"))?;
        let memory = SharedMemory::map_sized(fd, geometry)?;
        for (i, word) in geometry.header().into_iter().enumerate() {
            memory.word(i * size_of::<u64>()).store(word, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Maps a channel that the other side made, after checking its seals, size and header.
    ///
    /// # Errors
    /// [`ChannelError::NotAChannel`], [`ChannelError::Version`], [`ChannelError::Geometry`], and
    /// [`ChannelError::System`].
    pub fn map(fd: OwnedFd) -> Result<SharedMemory, ChannelError> {
        let seals = fcntl_get_seals(&fd)
            .map_err(|_no_seals| ChannelError::NotAChannel("it is no memfd"))?;
        if !seals.contains(SEALS) {
            return Err(ChannelError::NotAChannel("its size is not sealed"));
        }
        let size = fstat(&fd).map_err(system("fstat"))?.st_size as u64;
        let smallest = Geometry { ring_len: 64, frames: 2, frame_size: 256 };
        if size < smallest.total_size() as u64 {
            return Err(ChannelError::NotAChannel("it is too short"));
        }
        // The smallest channel's part holds the header of any channel.
        let header = SharedMemory::map_sized(fd, smallest)?;
        let geometry = Geometry::of_header(std::array::from_fn(|i| {
            header.word(i * size_of::<u64>()).load(Ordering::Relaxed)
        }))?;
        if size != geometry.total_size() as u64 {
            return Err(ChannelError::NotAChannel("its size is not that of its header's geometry"));
        }
        SharedMemory::map_sized(header.into_fd()?, geometry)
    }

    fn map_sized(fd: OwnedFd, geometry: Geometry) -> Result<SharedMemory, ChannelError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let len = geometry.total_size();
        // SAFETY: a fresh mapping at an address of the kernel's choice; it aliases nothing of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, &fd, 0) }
            .map_err(system("mmap"))?;
        let start = NonNull::new(start.cast::<u8>()).expect("mmap never returns null");
        Ok(SharedMemory { fd, start, frames: geometry.frames_offset(), geometry })
    }

    fn into_fd(self) -> Result<OwnedFd, ChannelError> {
        self.fd
            .try_clone()
            .map_err(|error| ChannelError::System { call: "dup", reason: error.to_string() })
    }

    /// The sizes of rings and frames.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The memfd, to send to the application.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A reference to a `T` of shared memory at `offset`.
    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset.is_multiple_of(align_of::<T>()));
        assert!(offset + size_of::<T>() <= self.geometry.total_size());
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; the callers' types
        // are atomics, for which any bytes are valid and which others may write at any time.
        unsafe { self.start.add(offset).cast::<T>().as_ref() }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.at(offset)
    }

    fn line(&self, offset: usize) -> &CachePadded<AtomicU32> {
        self.at(offset)
    }

    fn ring(&self, ring: Ring) -> RingParts<'_> {
        let offset = self.geometry.slots_offset(ring);
        let first: &[AtomicU64; 2] = self.at(offset);
        let len = self.geometry.ring_len as usize;
        // SAFETY: `frames_offset` lies behind all slots (tested in `layout`), so they are inside the
        // mapping; the element type is as in `at`.
        let slots = unsafe { std::slice::from_raw_parts(first, len) };
        RingParts {
            produced: self.line(Geometry::produced_offset(ring)),
            consumed: self.line(Geometry::consumed_offset(ring)),
            slots,
        }
    }

    /// The rings and doorbells, for an end that keeps the memory alive beside them.
    ///
    /// # Safety
    /// The result is not used after the last reference to `self` is gone.
    pub(crate) unsafe fn parts(self: &Arc<Self>) -> ChannelParts {
        // SAFETY: the references point into the mapping, which lives as long as the memory that the
        // caller keeps.
        let memory: &'static SharedMemory = unsafe { &*Arc::as_ptr(self) };
        ChannelParts {
            fill: memory.ring(Ring::Fill),
            receive: memory.ring(Ring::Receive),
            transmit: memory.ring(Ring::Transmit),
            completion: memory.ring(Ring::Completion),
            app: Doorbell::new(memory.line(Geometry::APP_DOORBELL)),
            stack: Doorbell::new(memory.line(Geometry::STACK_DOORBELL)),
        }
    }

    /// The start of a range within a frame, if it is one.
    #[inline]
    fn range(&self, frame: u32, offset: u16, len: usize) -> Option<NonNull<u8>> {
        let size = self.geometry.frame_size as usize;
        if frame >= self.geometry.frames || offset as usize + len > size {
            return None;
        }
        let at = self.frames + frame as usize * size + offset as usize;
        // SAFETY: checked above to lie inside frame `frame`, which lies inside the mapping (tested in
        // `layout`).
        Some(unsafe { self.start.add(at) })
    }

    /// Copies bytes into a frame; false, and nothing written, when they do not fit.
    #[inline]
    pub(crate) fn write(&self, frame: u32, offset: u16, bytes: &[u8]) -> bool {
        let Some(to) = self.range(frame, offset, bytes.len()) else { return false };
        // SAFETY: the range is mapped, and `bytes` is memory of this process that does not overlap
        // it. The other process may touch the frame at the same time if it breaks the protocol:
        // then the bytes are garbage, which both sides expect of each other, and nothing here
        // relies on their values.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        true
    }

    /// Copies bytes out of a frame; false, and nothing read, when the range is not in a frame.
    #[inline]
    pub(crate) fn read(&self, frame: u32, offset: u16, out: &mut [u8]) -> bool {
        let Some(from) = self.range(frame, offset, out.len()) else { return false };
        // SAFETY: as in `write`, in the other direction.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        true
    }

    /// Asks for the first two cache lines of a frame, packet info and the start of the payload, before
    /// they are needed: the other core has them. With `to_write`, to be overwritten.
    #[inline]
    pub(crate) fn prefetch(&self, frame: u32, to_write: bool) {
        let Some(start) = self.range(frame, 0, 2 * LINE) else { return };
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
            for line in [0, LINE] {
                // SAFETY: inside the mapping by `range`; a prefetch reads and writes nothing.
                unsafe {
                    let line = start.as_ptr().add(line).cast::<i8>();
                    match to_write {
                        true => _mm_prefetch::<_MM_HINT_ET0>(line),
                        false => _mm_prefetch::<_MM_HINT_T0>(line),
                    }
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (start, to_write);
    }

    /// A view of bytes in a frame, or nothing when the range is not in a frame.
    ///
    /// # Safety
    /// The caller holds the frame by the protocol, and trusts the other side to keep to it: true of
    /// an application towards the stack, never of the stack towards an application.
    #[inline]
    pub(crate) unsafe fn view(&self, frame: u32, offset: u16, len: usize) -> Option<&[u8]> {
        let from = self.range(frame, offset, len)?;
        // SAFETY: mapped memory, which nobody writes by the caller's word.
        Some(unsafe { std::slice::from_raw_parts(from.as_ptr(), len) })
    }

    /// As [`view`](Self::view), to write.
    ///
    /// # Safety
    /// As for `view`; and no other view of the same frame exists.
    #[inline]
    #[allow(
        clippy::mut_from_ref,
        reason = "frames are shared memory; exclusive by the caller's word"
    )]
    pub(crate) unsafe fn view_mut(&self, frame: u32, offset: u16, len: usize) -> Option<&mut [u8]> {
        let from = self.range(frame, offset, len)?;
        // SAFETY: as in `view`, and exclusive by the caller's word.
        Some(unsafe { std::slice::from_raw_parts_mut(from.as_ptr(), len) })
    }

    /// Whether a range is a payload: behind the packet info, inside the frame.
    #[inline]
    pub(crate) fn is_payload(&self, offset: u16, len: u16) -> bool {
        offset >= INFO_SIZE && u32::from(offset) + u32::from(len) <= self.geometry.frame_size
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedMemory({:?})", self.geometry)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let len = self.geometry.total_size();
        // SAFETY: exactly the range that was mapped; nothing refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), len) };
        debug_assert!(unmapped.is_ok());
    }
}

fn system(call: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| ChannelError::System { call, reason: errno.to_string() }
}
