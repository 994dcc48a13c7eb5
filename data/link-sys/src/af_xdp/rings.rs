//! What the sockets of one device queue share: the rings by which frames come and go.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::sockopt;
use rustix::net::xdp::{XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING};
use weever_ring::{MultiConsumer, MultiProducer, RingParts};

use super::RingSizes;
use super::mapping::{Mapping, Place};

/// The fill and the completion ring of a device queue, used by every socket on it. They are those
/// of the first socket, which the kernel keeps as long as they are mapped.
pub(super) struct FrameRings {
    pub(super) fill: MultiProducer<u64>,
    pub(super) completion: MultiConsumer<u64>,
    pub(super) fill_parts: RingParts<u64>,
    pub(super) completion_parts: RingParts<u64>,
    /// Packets given to the kernel, by any of the sockets, whose frames have not come back. A
    /// frame may come back to another socket than the one that sent it.
    pub(super) out: AtomicU32,
    users: AtomicU32,
    /// Behind the rings, which lie in them.
    _mappings: [Mapping; 2],
}

impl FrameRings {
    /// Maps the rings of a socket that has them.
    pub(super) fn map(socket: BorrowedFd<'_>, sizes: &RingSizes) -> io::Result<FrameRings> {
        let offsets = sockopt::xdp_mmap_offsets(socket)?;
        let at = XDP_UMEM_PGOFF_FILL_RING;
        let place = Place { at, offsets: offsets.fr, len: sizes.fill };
        let (fill_map, fill_parts) = Mapping::new(socket, place)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let place = Place { at, offsets: offsets.cr, len: sizes.completion };
        let (done_map, completion_parts) = Mapping::new(socket, place)?;
        // SAFETY: as those of `Socket`: mapped until after the rings are dropped, the kernel is the
        // other side, and whoever works on our side does it through these.
        let (fill, completion) =
            unsafe { (MultiProducer::new(fill_parts), MultiConsumer::new(completion_parts)) };
        Ok(FrameRings {
            fill: fill.map_err(io::Error::other)?,
            completion: completion.map_err(io::Error::other)?,
            fill_parts,
            completion_parts,
            out: AtomicU32::new(0),
            users: AtomicU32::new(0),
            _mappings: [fill_map, done_map],
        })
    }

    /// One more queue works with them.
    pub(super) fn join(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One less does; says whether it was the last.
    pub(super) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
