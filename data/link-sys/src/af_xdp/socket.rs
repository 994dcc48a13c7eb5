//! One AF_XDP socket: its descriptor, its rings, and nothing about buffers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use libc::xdp_desc;
use rustix::net::sockopt::{
    self, set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XdpOptionsFlags, XdpRingOffset, XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use weever_packet::Pool;
use weever_ring::{MultiProducer, RingParts};

use super::error::REGISTER_POOL;
use super::rings::{FrameRings, METADATA, Mapping, RingPlace, RxRing, TxRings};
use super::{ChecksumOffload, RingSizes};

/// `XDP_MAX_TX_SKB_BUDGET` of `<linux/if_xdp.h>`, since Linux 6.18.
const MAX_TX_SKB_BUDGET: i32 = 9;
/// `XDP_PACKET_HEADROOM` of `<linux/bpf.h>`: the bytes that the kernel leaves in front of a packet.
pub(super) const KERNEL_HEADROOM: u32 = 256;

/// A step that failed, by its name.
pub(super) type Step<T> = Result<T, (&'static str, io::Error)>;

fn step<E: Into<io::Error>>(name: &'static str) -> impl FnOnce(E) -> (&'static str, io::Error) {
    move |error| (name, error.into())
}

/// A socket with its rings. Fields are dropped in order: the rings, which point into the
/// mappings, then these, then the descriptor.
pub(super) struct Socket {
    pub(super) rx: Arc<RxRing>,
    pub(super) tx: MultiProducer<xdp_desc>,
    /// Those of its device queue, which other sockets may use too.
    pub(super) frames: Arc<FrameRings>,
    pub(super) rx_parts: RingParts<xdp_desc>,
    pub(super) tx_parts: RingParts<xdp_desc>,
    /// Whether room for metadata in front of sent packets was registered with the pool by this
    /// socket.
    pub(super) metadata: bool,
    _tx_mapping: Mapping,
    fd: OwnedFd,
}

/// Where a new socket's frames come from.
pub(super) enum Origin<'a> {
    /// From a pool that it registers.
    Pool(&'a Pool, ChecksumOffload),
    /// From a pool that another socket has registered, by rings of its own.
    Registered,
    /// By the rings of the first socket on the same device queue.
    Shared(Arc<FrameRings>),
}

impl Socket {
    /// Makes one of so many sockets of a device queue, with empty rings, not bound. A pool is registered with room for metadata if
    /// that is wanted and the kernel knows it.
    pub(super) fn new(sizes: &RingSizes, origin: Origin<'_>, sockets: u16) -> Step<Socket> {
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(step("socket(AF_XDP)"))?;
        let mut metadata = false;
        if let Origin::Pool(pool, offload) = origin {
            let with = with_metadata(pool, offload);
            metadata = with.is_some_and(|with| set_xdp_umem_reg(&fd, with).is_ok());
            if !metadata {
                set_xdp_umem_reg(&fd, registration(pool)).map_err(step(REGISTER_POOL))?;
            }
        }
        let frames = match origin {
            Origin::Shared(frames) => frames,
            Origin::Pool(..) | Origin::Registered => {
                Arc::new(frame_rings(fd.as_fd(), sizes, sockets)?)
            }
        };
        set_xdp_rx_ring_size(&fd, sizes.rx).map_err(step("XDP_RX_RING"))?;
        set_xdp_tx_ring_size(&fd, sizes.tx).map_err(step("XDP_TX_RING"))?;
        // Kernels without the option send 32 packets per call, and `flush` calls again.
        let _older_kernel = set_tx_budget(fd.as_fd(), sizes.tx);
        let mut socket = Socket::map(fd, frames, sizes, sockets).map_err(step("map rings"))?;
        socket.metadata = metadata;
        Ok(socket)
    }

    fn map(
        fd: OwnedFd,
        frames: Arc<FrameRings>,
        sizes: &RingSizes,
        sockets: u16,
    ) -> io::Result<Socket> {
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let place = |at: u64, offsets: XdpRingOffset, len: u32| RingPlace { at, offsets, len };
        let map = fd.as_fd();
        let (rx_map, rx) = Mapping::new(map, place(XDP_PGOFF_RX_RING, offsets.rx, sizes.rx))?;
        let (tx_map, tx) = Mapping::new(map, place(XDP_PGOFF_TX_RING, offsets.tx, sizes.tx))?;
        // SAFETY: mapped with the kernel's offsets and kept until the rings are gone; all work our side
        // through these rings, and `XdpDesc` takes any bits. Only the socket's own queue sends by it, which one thread has
        // at a time; and only that one receives by it, if there is no other socket.
        let (rx_ring, tx_ring) =
            unsafe { (RxRing::new(rx_map, rx, sockets), MultiProducer::for_one_thread(tx)) };
        Ok(Socket {
            rx: Arc::new(rx_ring?),
            tx: tx_ring.map_err(io::Error::other)?,
            frames,
            rx_parts: rx,
            tx_parts: tx,
            metadata: false,
            _tx_mapping: tx_map,
            fd,
        })
    }

    /// Binds to a device's queue; `umem` is the socket which registered the pool, if not this one.
    /// It does not wait for a queue that is in use.
    pub(super) fn bind(
        &self,
        ifindex: u32,
        queue: u32,
        umem: Option<BorrowedFd<'_>>,
        force_copy: bool,
    ) -> io::Result<()> {
        let Some(shared_umem_fd) = umem else {
            // Without asking for either, the kernel tries zero-copy and falls back to copying.
            let copy = SocketAddrXdpFlags::XDP_COPY;
            let mode = if force_copy { copy } else { SocketAddrXdpFlags::empty() };
            let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | mode;
            return Ok(bind(&self.fd, &SocketAddrXdp::new(flags, ifindex, queue))?);
        };
        // The mode is the first socket's: naming it again is an error.
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, ifindex, queue);
        Ok(bind(&self.fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })?)
    }

    /// The transmitter's rings.
    #[inline]
    pub(super) fn tx_rings(&self) -> TxRings<'_> {
        TxRings { tx: &self.tx, completion: &self.frames.completion }
    }

    /// Whether the device reads and writes the frames itself.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        Ok(sockopt::xdp_options(&self.fd)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    pub(super) fn statistics(&self) -> io::Result<XdpStatistics> {
        Ok(sockopt::xdp_statistics(&self.fd)?)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The registration that lets requests to the device stand in front of a packet.
fn with_metadata(pool: &Pool, offload: ChecksumOffload) -> Option<XdpUmemReg> {
    let flags = match offload {
        ChecksumOffload::None => return None,
        ChecksumOffload::Device => libc::XDP_UMEM_TX_METADATA_LEN,
        ChecksumOffload::Kernel => libc::XDP_UMEM_TX_METADATA_LEN | libc::XDP_UMEM_TX_SW_CSUM,
    };
    let flags = XdpUmemRegFlags::from_bits_retain(flags);
    let has_room = pool.headroom() >= METADATA;
    has_room.then(|| XdpUmemReg { flags, tx_metadata_len: METADATA.into(), ..registration(pool) })
}

/// The kernel leaves its own headroom, so that only the pool's headroom beyond it is asked for.
fn frame_rings(fd: BorrowedFd<'_>, sizes: &RingSizes, sockets: u16) -> Step<FrameRings> {
    set_xdp_umem_fill_ring_size(fd, sizes.fill).map_err(step("XDP_UMEM_FILL_RING"))?;
    set_xdp_umem_completion_ring_size(fd, sizes.completion)
        .map_err(step("XDP_UMEM_COMPLETION_RING"))?;
    FrameRings::map(fd, sizes, sockets).map_err(step("map rings"))
}

fn registration(pool: &Pool) -> XdpUmemReg {
    XdpUmemReg {
        addr: pool.region().start().as_ptr() as u64,
        len: pool.frames() as u64 * u64::from(pool.frame_size()),
        chunk_size: pool.frame_size(),
        headroom: extra_headroom(pool),
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    }
}

pub(super) fn extra_headroom(pool: &Pool) -> u32 {
    u32::from(pool.headroom()).saturating_sub(KERNEL_HEADROOM)
}

fn set_tx_budget(fd: BorrowedFd<'_>, budget: u32) -> io::Result<()> {
    let size = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const budget).cast();
    // SAFETY: the value is live and of the size given.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, MAX_TX_SKB_BUDGET, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
