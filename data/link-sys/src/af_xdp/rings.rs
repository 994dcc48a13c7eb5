//! The mapped rings: memory, the rings that the sockets of one device queue share, and a sender's
//! part of them.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::xdp_desc;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::sockopt;
use rustix::net::xdp::{XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpRingOffset};
use weever_packet::{Buffer, Flags, Pool};
use weever_ring::{Departures, MultiConsumer, MultiProducer, RingParts};

use super::RingSizes;
use crate::offload::Layers;

/// Where the kernel keeps a ring, in a descriptor's space of mappings.
#[derive(Clone, Copy)]
pub(super) struct RingPlace {
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

// SAFETY: an address range that is only freed once; its contents are reached through the rings.
unsafe impl Send for Mapping {}
// SAFETY: no method touches the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a ring of `T`s.
    pub(super) fn new<T>(
        fd: BorrowedFd<'_>,
        place: RingPlace,
    ) -> io::Result<(Mapping, RingParts<T>)> {
        let RingPlace { at, offsets, len } = place;
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
        // SAFETY: exactly the range that `new` mapped; rings over it are dropped before (see
        // `Socket`).
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The ring of a socket's received packets, which the other sockets' workers on its device queue may serve
/// too. The kernel keeps it as long as it is mapped.
pub(super) struct RxRing {
    pub(super) ring: MultiConsumer<xdp_desc>,
    /// The order in which its packets are sent on, where that is kept.
    pub(super) departures: Departures,
    /// Behind the ring, which lies in it.
    _mapping: Mapping,
}

impl std::fmt::Debug for RxRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RxRing({} waiting)", self.ring.available())
    }
}

impl RxRing {
    /// # Errors
    /// For a length that is no power of two.
    ///
    /// # Safety
    /// The parts are those of the mapping, and nobody else works our side of the ring. If it is the ring of the only one of
    /// so many `sockets`, one thread at a time takes packets out.
    pub(super) unsafe fn new(
        mapping: Mapping,
        parts: RingParts<xdp_desc>,
        sockets: u16,
    ) -> io::Result<RxRing> {
        // SAFETY: mapped until after the ring is dropped; the rest by the caller's word.
        let ring = unsafe {
            match sockets {
                ..=1 => MultiConsumer::for_one_thread(parts),
                _ => MultiConsumer::new(parts),
            }
        };
        let ring = ring.map_err(io::Error::other)?;
        let departures = Departures::new(ring.position());
        Ok(RxRing { ring, departures, _mapping: mapping })
    }
}

/// The fill and the completion ring of a device queue, used by every socket on it. They are those
/// of the first socket, which the kernel keeps as long as they are mapped.
pub(super) struct FrameRings {
    pub(super) fill: MultiProducer<u64>,
    pub(super) completion: MultiConsumer<u64>,
    pub(super) fill_parts: RingParts<u64>,
    pub(super) completion_parts: RingParts<u64>,
    /// Packets given to the kernel by sockets that are gone, whose frames have not come back.
    left: AtomicU32,
    users: AtomicU32,
    /// Behind the rings, which lie in them.
    _mappings: [Mapping; 2],
}

impl FrameRings {
    /// Maps the rings of a socket that has them, for so many sockets.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        sizes: &RingSizes,
        sockets: u16,
    ) -> io::Result<FrameRings> {
        let offsets = sockopt::xdp_mmap_offsets(socket)?;
        let at = XDP_UMEM_PGOFF_FILL_RING;
        let place = RingPlace { at, offsets: offsets.fr, len: sizes.fill };
        let (fill_map, fill_parts) = Mapping::new(socket, place)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let place = RingPlace { at, offsets: offsets.cr, len: sizes.completion };
        let (done_map, completion_parts) = Mapping::new(socket, place)?;
        // SAFETY: as those of `Socket`: mapped until after the rings are dropped, the kernel is the
        // other side, and our side works through these only. One socket alone works them by its queue, which one
        // thread has at a time.
        let (fill, completion) = unsafe {
            match sockets {
                ..=1 => {
                    let fill = MultiProducer::for_one_thread(fill_parts);
                    (fill, MultiConsumer::for_one_thread(completion_parts))
                }
                _ => (MultiProducer::new(fill_parts), MultiConsumer::new(completion_parts)),
            }
        };
        Ok(FrameRings {
            fill: fill.map_err(io::Error::other)?,
            completion: completion.map_err(io::Error::other)?,
            fill_parts,
            completion_parts,
            left: AtomicU32::new(0),
            users: AtomicU32::new(0),
            _mappings: [fill_map, done_map],
        })
    }

    /// One more queue works with them.
    pub(super) fn join(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One less does, and leaves packets that are out. The last one is told how many were left in all.
    pub(super) fn leave(&self, out: u32) -> Option<u32> {
        self.left.fetch_add(out, Ordering::Relaxed);
        let is_last = self.users.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| self.left.load(Ordering::Relaxed))
    }
}

/// The rings by which packets leave and their frames come back.
#[derive(Clone, Copy)]
pub(super) struct TxRings<'a> {
    pub(super) tx: &'a MultiProducer<xdp_desc>,
    pub(super) completion: &'a MultiConsumer<u64>,
}

/// How a pool's memory is cut into frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    shift: u32,
}

impl Frames {
    pub(super) fn of(pool: &Pool) -> Frames {
        debug_assert!(pool.frame_size().is_power_of_two(), "2048 or 4096, see PoolConfig");
        Frames { shift: pool.frame_size().trailing_zeros() }
    }

    /// The frame that an address lies in; a number that no frame has where there is none so far out.
    #[inline]
    pub(super) fn index(self, address: u64) -> u32 {
        (address >> self.shift).min(u64::from(u32::MAX)) as u32
    }

    /// Where in its frame an address lies.
    #[inline]
    pub(super) fn offset(self, address: u64) -> u16 {
        (address & ((1 << self.shift) - 1)) as u16
    }

    /// The address of a byte in a frame.
    #[inline]
    pub(super) fn address(self, index: u32, offset: u16) -> u64 {
        (u64::from(index) << self.shift) + u64::from(offset)
    }
}

/// Bytes of metadata in front of a packet: `struct xsk_tx_metadata` with flags and the longest of
/// their requests. Once registered every packet needs them, whether used or not.
pub(super) const METADATA: u16 = 24;

/// Writes in front of a packet with a partial checksum where the device has to complete it. Returns
/// the descriptor's options.
pub(super) fn request_checksum(packet: &mut Buffer) -> u32 {
    if !packet.meta().flags.has(Flags::PARTIAL_CHECKSUM) {
        return 0;
    }
    let Some(layers) = Layers::of(packet.data()) else { return 0 };
    let Some(place) = packet.prepend(METADATA) else { return 0 };
    place.fill(0);
    place[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
    place[8..10].copy_from_slice(&(layers.l4 as u16).to_ne_bytes());
    place[10..12].copy_from_slice(&(layers.transport.checksum_at() as u16).to_ne_bytes());
    packet.strip(METADATA);
    libc::XDP_TX_METADATA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_frame_and_an_offset() {
        for shift in [11, 12] {
            let frames = Frames { shift };
            for (index, offset) in [(0, 0), (1, 256), (77, 2047), (u32::MAX >> 12, 14)] {
                let address = frames.address(index, offset);
                assert_eq!((frames.index(address), frames.offset(address)), (index, offset));
            }
        }
    }
}
