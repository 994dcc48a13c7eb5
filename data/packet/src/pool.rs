//! A pool: a region cut into frames, their metadata, and the depot that caches trade with.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::depot::{BUNDLE, Depot};
use crate::frames::{Owner, Shared, Slot};
use crate::{Buffer, HugePages, PoolError, Region};

/// Bytes of a large frame, which holds any packet that was put together of fragments: as far as
/// 16-bit offsets reach. No link takes such a frame; see [`PoolConfig::large`].
pub const LARGE_FRAME: u32 = u16::MAX as u32;

/// The settings of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// How many frames; rounded up to a multiple of 64.
    pub frames: u32,
    /// Bytes per frame: 2048 or 4096 (AF_XDP accepts these on every kernel), or [`LARGE_FRAME`] for
    /// packets that no device ever sees.
    pub frame_size: u32,
    /// Free bytes in front of a fresh packet, for headers to be prepended.
    pub headroom: u16,
    /// Whether to try for huge pages.
    pub huge_pages: HugePages,
    /// The NUMA node that the frames lie on; `None`: where the kernel puts them, which is the node of the
    /// thread that makes the pool while there is room.
    pub node: Option<u32>,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            frames: 8192,
            frame_size: 2048,
            headroom: 256,
            huge_pages: HugePages::default(),
            node: None,
        }
    }
}

impl PoolConfig {
    /// `frames` [large frames](LARGE_FRAME) (rounded up to a multiple of 64, 4 MiB each 64): for
    /// datagrams longer than a link's MTU. They come from fragments and are cut into ordinary
    /// frames before they reach a link.
    pub fn large(frames: u32) -> PoolConfig {
        PoolConfig {
            frames,
            frame_size: LARGE_FRAME,
            headroom: 64,
            huge_pages: HugePages::Never,
            node: None,
        }
    }

    /// Bytes from one frame to the next in the region.
    fn stride(&self) -> usize {
        (self.frame_size as usize).next_multiple_of(2048)
    }

    /// How many frames there will be.
    fn rounded(&self) -> usize {
        (self.frames as usize).next_multiple_of(BUNDLE)
    }

    /// Bytes that the frames take.
    fn bytes(&self) -> usize {
        self.rounded() * self.stride()
    }

    fn check(&self) -> Result<(), PoolError> {
        let complain = |text: String| Err(PoolError::Config(text));
        if !matches!(self.frame_size, 2048 | 4096 | LARGE_FRAME) {
            let size = self.frame_size;
            return complain(format!("frame_size is {size}; use 2048, 4096 or {LARGE_FRAME}"));
        }
        if self.frames == 0 || self.frames > 1 << 24 {
            return complain(format!("frames is {}; use 1 to 16777216", self.frames));
        }
        if u32::from(self.headroom) >= self.frame_size {
            return complain(format!("headroom {} leaves no room for a packet", self.headroom));
        }
        Ok(())
    }
}

/// A set of frames of one size. Clones are handles to the same pool.
///
/// ```
/// use weever_packet::{Pool, PoolConfig};
///
/// let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() })?;
/// // Each thread takes frames from a cache of its own.
/// let mut cache = pool.cache();
/// let mut buffer = cache.alloc().expect("64 frames are free");
/// buffer.append(b"payload");
/// buffer.prepend(4).expect("there is headroom").copy_from_slice(b"head");
/// assert_eq!(buffer.data(), b"headpayload");
/// cache.free(buffer);
/// # Ok::<(), weever_packet::PoolError>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    pub(crate) owner: Arc<Owner>,
}

impl Pool {
    /// Maps a pool. Blocks for the page faults of the whole region.
    ///
    /// # Errors
    /// [`PoolError`], also when the system has not as much memory.
    pub fn new(config: PoolConfig) -> Result<Pool, PoolError> {
        config.check()?;
        let region = Region::map(config.bytes(), config.huge_pages, config.node)?;
        Ok(Pool::of(config, region))
    }

    /// Maps a pool whose memory can be [shared](Region::memfd) with a program that is trusted. [`HugePages`] and the node
    /// have no effect.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[cfg(not(miri))]
    pub fn shareable(config: PoolConfig) -> Result<Pool, PoolError> {
        config.check()?;
        let region = Region::shareable(config.bytes())?;
        // Who maps the memory promises to touch only frames that were given to them: see `Region::memfd`.
        Ok(Pool::of(config, region))
    }

    /// A pool whose frames lie in `region`, which an application or a device may share:
    /// [`HugePages`] and the node have no effect.
    ///
    /// # Errors
    /// [`PoolError::Config`], also when the region is too short.
    ///
    /// # Safety
    /// For as long as the pool or one of its buffers lives, no one outside writes to a frame, or
    /// reads bytes of it that may be written to, unless the frame is [lent](crate::Stock::lend) to
    /// them.
    pub unsafe fn over(config: PoolConfig, region: Region) -> Result<Pool, PoolError> {
        config.check()?;
        if region.len() < config.bytes() {
            let (has, wants) = (region.len(), config.bytes());
            let text = format!("the region has {has} bytes; {wants} are needed");
            return Err(PoolError::Config(text));
        }
        Ok(Pool::of(config, region))
    }

    /// The region is as long as a checked configuration needs.
    fn of(config: PoolConfig, region: Region) -> Pool {
        let frames = config.rounded();
        let base = region.start();
        // One pointer for everything: pointers derived from a reference would become invalid when
        // the parent is written through.
        let home = NonNull::from(Box::leak(Box::new(Shared {
            region,
            slots: Box::new([]),
            frame_size: config.frame_size,
            headroom: config.headroom,
            depot: Depot::full(frames),
            borrowers: Mutex::default(),
        })));
        let slot = |index: usize| {
            // SAFETY: the region holds `frames` frames, so the offset stays inside it.
            let start = unsafe { base.add(index * config.stride()) };
            UnsafeCell::new(Slot::new(start, home))
        };
        let slots = (0..frames).map(slot).collect();
        // SAFETY: made above and not handed out yet; the slots only carry its address.
        unsafe { (*home.as_ptr()).slots = slots };
        // SAFETY: leaked above, with its slots, and not shared yet.
        Pool { owner: Arc::new(unsafe { Owner::new(home) }) }
    }

    /// An empty buffer, taken from the depot without a cache: for pools of few frames that several
    /// threads draw from now and then. `None` when the pool is exhausted, or for a moment while
    /// another thread is breaking the last bundle up.
    pub fn alloc(&self) -> Option<Buffer> {
        let index = self.owner.shared().depot.take_one()?;
        // SAFETY: the depot owned this index, which has just left it.
        let mut buffer =
            unsafe { Buffer::from_slot(self.owner.shared().slots[index as usize].get()) };
        buffer.clear();
        Some(buffer)
    }

    /// How many frames the pool has.
    pub fn frames(&self) -> usize {
        self.owner.shared().slots.len()
    }

    /// The number of frames in the depot: in no cache, packet or device ring. Exact only while no
    /// thread allocates or frees.
    pub fn available(&self) -> usize {
        self.owner.shared().depot.len()
    }

    /// Bytes per frame.
    pub fn frame_size(&self) -> u32 {
        self.owner.shared().frame_size
    }

    /// Free bytes in front of a fresh packet.
    pub fn headroom(&self) -> u16 {
        self.owner.shared().headroom
    }

    /// The memory behind the frames: frame `i` starts at `i * frame_size`, a large one at
    /// `i * 65536`.
    pub fn region(&self) -> &Region {
        &self.owner.shared().region
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.frame_size();
        write!(f, "Pool({} frames of {size}, {} home)", self.frames(), self.available())
    }
}
