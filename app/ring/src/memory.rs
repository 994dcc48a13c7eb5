//! A channel's memory: a sealed memfd, mapped. Its frames are in it, or in a memory of the stack's own (`elsewhere`).

use std::mem::{align_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};

use crate::doorbell::Doorbell;
use crate::elsewhere::{Elsewhere, FrameMemory, Known};
use crate::layout::{ChannelError, ELSEWHERE, Geometry, INFO_SIZE, ROOM_SIZE, Ring};
use crate::mapping::{Mapping, system};
use crate::ring::RingParts;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The seals without which a mapping could lose its pages under its user.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The channels that were made in this process and have their frames elsewhere.
static HERE: Known<SharedMemory> = Known::new();

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
    mapping: Mapping,
    /// The first frame.
    frames: NonNull<u8>,
    /// How many frame numbers there are: more than the channel has frames if they are elsewhere.
    numbers: u32,
    geometry: Geometry,
    elsewhere: Option<Elsewhere>,
}

// SAFETY: ranges of shared memory and descriptors; all access is by atomics, or by raw copies
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
        let fd = sealed(geometry.total_size())?;
        let mapping = Mapping::of(&fd, geometry.total_size())?;
        let memory = SharedMemory::over(fd, mapping, geometry, None);
        memory.write_header();
        Ok(memory)
    }

    /// As [`create`](Self::create), for frames in a memory of the stack's, of which the application has `first` at
    /// first.
    ///
    /// # Errors
    /// As [`create`](Self::create), and [`ChannelError::NotAChannel`] when the memory is none for such frames.
    pub(crate) fn create_over(
        geometry: Geometry,
        FrameMemory { memfd, frames, keep }: FrameMemory,
        first: &[u32],
    ) -> Result<Arc<SharedMemory>, ChannelError> {
        let geometry = Geometry { frames: first.len() as u32, ..geometry };
        geometry.check()?;
        let elsewhere = Elsewhere::map(memfd, (frames, geometry), Some(keep))?;
        let fd = sealed(geometry.rings_size())?;
        let mapping = Mapping::of(&fd, geometry.rings_size())?;
        let memory = SharedMemory::over(fd, mapping, geometry, Some((elsewhere, frames)));
        memory.write_header();
        memory.word(ELSEWHERE).store(frames.into(), Ordering::Relaxed);
        for (number, place) in first.iter().zip(0..) {
            memory.first(place).store(*number, Ordering::Relaxed);
        }
        let memory = Arc::new(memory);
        HERE.note(memory.fd(), &memory);
        Ok(memory)
    }

    /// Maps a channel that the other side made, after checking its seals, size and header. `frames` is the memory that
    /// its frames are in, if they are not its own.
    ///
    /// # Errors
    /// [`ChannelError::NotAChannel`], [`ChannelError::Version`], [`ChannelError::Geometry`], and
    /// [`ChannelError::System`].
    pub fn map(fd: OwnedFd, frames: Option<OwnedFd>) -> Result<Arc<SharedMemory>, ChannelError> {
        if let Some(here) = HERE.find(&fd) {
            return Ok(here);
        }
        let seals = fcntl_get_seals(&fd)
            .map_err(|_no_seals| ChannelError::NotAChannel("it is no memfd"))?;
        if !seals.contains(SEALS) {
            return Err(ChannelError::NotAChannel("its size is not sealed"));
        }
        let size = fstat(&fd).map_err(system("fstat"))?.st_size as u64;
        let smallest = Geometry { ring_len: 64, frames: 2, frame_size: 256 };
        if size < smallest.frames_offset() as u64 {
            return Err(ChannelError::NotAChannel("it is too short"));
        }
        // The smallest channel's rings hold the header of any channel.
        let mapping = Mapping::of(&fd, smallest.frames_offset())?;
        let header = SharedMemory::over(fd, mapping, smallest, None);
        let word = |i: usize| header.word(i * size_of::<u64>()).load(Ordering::Relaxed);
        let geometry = Geometry::of_header(std::array::from_fn(word))?;
        let numbers = header.word(ELSEWHERE).load(Ordering::Relaxed);
        let len = if numbers == 0 { geometry.total_size() } else { geometry.rings_size() };
        if size != len as u64 {
            return Err(ChannelError::NotAChannel("its size is not that of its header's geometry"));
        }
        let elsewhere = match (u32::try_from(numbers), frames) {
            (Ok(0), _) => None,
            (Ok(numbers), Some(memfd)) => {
                Some((Elsewhere::map(memfd, (numbers, geometry), None)?, numbers))
            }
            _ => return Err(ChannelError::NotAChannel("the memory of its frames is missing")),
        };
        let mapping = Mapping::of(&header.fd, len)?;
        Ok(Arc::new(SharedMemory::over(header.fd, mapping, geometry, elsewhere)))
    }

    /// The mapping is as long as the geometry needs, for frames of its own or elsewhere.
    fn over(
        fd: OwnedFd,
        mapping: Mapping,
        geometry: Geometry,
        elsewhere: Option<(Elsewhere, u32)>,
    ) -> SharedMemory {
        let (frames, numbers) = match &elsewhere {
            Some((elsewhere, numbers)) => (elsewhere.start(), *numbers),
            // SAFETY: as long as the rings at least (tested in `layout`); with frames of its own, they lie behind.
            None => (unsafe { mapping.start().add(geometry.frames_offset()) }, geometry.frames),
        };
        let elsewhere = elsewhere.map(|(elsewhere, _)| elsewhere);
        SharedMemory { fd, mapping, frames, numbers, geometry, elsewhere }
    }

    fn write_header(&self) {
        for (i, word) in self.geometry.header().into_iter().enumerate() {
            self.word(i * size_of::<u64>()).store(word, Ordering::Relaxed);
        }
    }

    /// The place of the number of one of the frames that the application has at first.
    fn first(&self, place: usize) -> &AtomicU32 {
        self.at(self.geometry.frames_offset() + place * size_of::<u32>())
    }

    /// The frames that the application has at first.
    ///
    /// # Errors
    /// [`ChannelError::NotAChannel`] when there is no such frame.
    pub(crate) fn first_frames(&self) -> Result<Vec<u32>, ChannelError> {
        if self.elsewhere.is_none() {
            return Ok((0..self.geometry.frames).collect());
        }
        let number = |place| {
            let number = self.first(place).load(Ordering::Relaxed);
            let is_there = number < self.numbers;
            is_there.then_some(number).ok_or(ChannelError::NotAChannel("it has no such frame"))
        };
        (0..self.geometry.frames as usize).map(number).collect()
    }

    /// How many frame numbers there are.
    #[inline]
    pub(crate) fn numbers(&self) -> u32 {
        self.numbers
    }

    /// The memory that the frames are in, if it is not the channel's.
    pub(crate) fn frames_fd(&self) -> Option<BorrowedFd<'_>> {
        self.elsewhere.as_ref().map(|elsewhere| elsewhere.memfd().as_fd())
    }

    /// Where a payload begins in a frame that the application fills.
    #[inline]
    pub(crate) fn room(&self) -> u16 {
        if self.elsewhere.is_some() { ROOM_SIZE } else { INFO_SIZE }
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
        assert!(offset + size_of::<T>() <= self.mapping.len());
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; the callers' types
        // are atomics, for which any bytes are valid and which others may write at any time.
        unsafe { self.mapping.start().add(offset).cast::<T>().as_ref() }
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
        if frame >= self.numbers || offset as usize + len > size {
            return None;
        }
        let at = frame as usize * size + offset as usize;
        // SAFETY: checked above to lie inside frame `frame`, which lies inside its mapping (tested in
        // `layout`, or checked by `Elsewhere::map`).
        Some(unsafe { self.frames.add(at) })
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

/// A memfd of so many bytes, whose size is fixed.
fn sealed(len: usize) -> Result<OwnedFd, ChannelError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create(c"weever-channel", flags).map_err(system("memfd_create"))?;
    ftruncate(&fd, len as u64).map_err(system("ftruncate"))?;
    fcntl_add_seals(&fd, SEALS).map_err(system("sealing"))?;
    Ok(fd)
}
