//! Frames for every station of a link, which the kernel and the stack both receive.
//!
//! ```text
//!                      ┌─ ours ──► AF_XDP socket ───┐
//!  frames ──► steering ┤                            ├──► queue 0
//!                      └─ others ──► kernel ┬─ ear ─┘
//!                                           └─► the kernel's protocols
//! ```
//!
//! On a device that is shared by address, a frame goes to the stack or to the kernel: the steering
//! program cannot copy it. That is right for frames to one of them, and wrong for those to both:
//! router advertisements, and queries of group memberships. [`overhear`] leaves these to the kernel
//! and lets the stack hear them too, through a packet socket.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, ptr};

use libc::{cmsghdr, iovec, msghdr, sock_filter, sock_fprog, tpacket_auxdata};
use rustix::event::epoll;
use weever_link::{FrameNeed, Frames, Link, LinkError, LinkInfo, LinkQueue, QueueStats};
use weever_packet::{Buffer, Burst, Flags, Nanos, Pool, PoolCache};

use crate::netdev::{Interface, InterfaceError};
use crate::packet::{Protocol, bind, failure, set_option, unbound};

/// How often a queue that is not waited on is listened to.
const PERIOD: Nanos = 10_000_000;
/// Frames that are heard at a time: a flood of them takes no more than 800 places a second from
/// frames for the stack alone, and the rest is lost.
const MOST: usize = 8;
/// Bytes of a frame before its tag.
const STATIONS: usize = 12;

/// Has the first queue of a device's link hear frames for all hosts (224.0.0.1) and all nodes
/// (ff02::1) that the kernel receives on the device. Opened in the calling thread's network
/// namespace; needs CAP_NET_RAW.
///
/// # Errors
/// [`InterfaceError`], when the device is gone or the kernel refuses the socket.
pub fn overhear(link: impl Link + 'static) -> Result<impl Link, InterfaceError> {
    let name = link.info().name.clone();
    let (ear, device) = (Ear::open(&name)?, Interface::find(&name)?);
    let flags = if device.partial_checksums() { Flags::MAY_BE_PARTIAL } else { Flags::NONE };
    Ok(Overhearing { link, ear: Some((ear, flags)) })
}

struct Overhearing<L> {
    link: L,
    ear: Option<(Ear, Flags)>,
}

impl<L: Link> Link for Overhearing<L> {
    fn info(&self) -> &LinkInfo {
        self.link.info()
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let mut queues = self.link.take_queues();
        if queues.is_empty() {
            return queues;
        }
        if let Some((ear, flags)) = self.ear.take() {
            let first = queues.remove(0);
            queues.insert(0, Box::new(Listener::new(first, ear, flags)));
        }
        queues
    }
}

/// A queue that hears more than it is sent.
struct Listener {
    queue: Box<dyn LinkQueue>,
    ear: Ear,
    flags: Flags,
    /// Both descriptors as one to wait on; without it, the queue's own is, and hearing takes as long
    /// as its worker sleeps.
    both: Option<OwnedFd>,
    scratch: Box<[u8]>,
    /// When to listen next.
    next: Nanos,
    due: Cell<bool>,
    heard: QueueStats,
}

impl Listener {
    fn new(queue: Box<dyn LinkQueue>, ear: Ear, flags: Flags) -> Listener {
        let both = both(&*queue, &ear).ok();
        let scratch = vec![0; 1 << 14].into();
        let (due, heard) = (Cell::new(true), QueueStats::default());
        Listener { queue, ear, flags, both, scratch, next: 0, due, heard }
    }

    /// Fills the burst with the frames heard. A frame that has no room in a buffer is left out, and
    /// so are errors of the socket: the device's own queue notices when the device is gone.
    #[cold]
    fn listen(&mut self, pool: &mut PoolCache, burst: &mut Burst, max: usize) -> usize {
        self.due.set(false);
        let mut n = 0;
        while n < max.min(MOST) {
            let Ok(Some(heard)) = self.ear.hear(&mut self.scratch) else { break };
            let Some(mut buffer) = pool.alloc() else { break };
            let head = buffer.head();
            if !(self.scratch.get(..heard.len)).is_some_and(|f| fill(&mut buffer, f, heard.tag)) {
                self.heard.rx_dropped += 1;
                pool.free(buffer);
                continue;
            }
            self.heard.rx_packets += 1;
            self.heard.rx_bytes += buffer.len() as u64;
            let meta = buffer.meta_mut();
            (meta.l2, meta.queue, meta.flags) = (head, 0, self.flags);
            drop(burst.put(n, buffer));
            n += 1;
        }
        n
    }
}

/// Writes a frame with its tag to an empty buffer, if there is room for it.
fn fill(buffer: &mut Buffer, frame: &[u8], tag: Option<[u8; 4]>) -> bool {
    let Some((stations, rest)) = frame.split_at_checked(STATIONS) else { return false };
    let tag = tag.as_ref().map_or(&[][..], |tag| tag);
    buffer.append(stations) && buffer.append(tag) && buffer.append(rest)
}

/// A descriptor that is ready when one of the two is.
fn both(queue: &dyn LinkQueue, ear: &Ear) -> io::Result<OwnedFd> {
    let own = queue.fd().ok_or(io::ErrorKind::Unsupported)?;
    let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, fd) in [(0, own), (1, ear.as_fd())] {
        epoll::add(&both, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
    }
    Ok(both)
}

impl LinkQueue for Listener {
    #[inline]
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        if self.due.get() {
            let n = self.listen(pool, burst, max);
            if n > 0 {
                return Ok(n);
            }
        }
        self.queue.rx(pool, burst, max)
    }

    #[inline]
    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        self.queue.tx(pool, packets)
    }

    #[inline]
    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.queue.flush(pool)
    }

    fn pool(&self) -> Option<&Pool> {
        self.queue.pool()
    }

    fn frame_need(&self) -> FrameNeed {
        self.queue.frame_need()
    }

    fn limit_frames(&mut self, most: Frames) {
        self.queue.limit_frames(most);
    }

    fn holds_back(&self) -> bool {
        self.queue.holds_back()
    }

    fn unsent(&self) -> bool {
        self.queue.unsent()
    }

    fn keeps_order(&self) -> bool {
        self.queue.keeps_order()
    }

    fn has_turn(&self) -> bool {
        self.queue.has_turn()
    }

    fn may_send(&mut self) -> bool {
        self.queue.may_send()
    }

    fn sent(&mut self) {
        self.queue.sent();
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        if now >= self.next {
            self.due.set(true);
            self.next = now.saturating_add(PERIOD);
        }
        self.queue.advance(now);
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.queue.prepare_to_sleep()
    }

    fn end_sleep(&mut self) {
        self.queue.end_sleep();
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.queue.next_deadline()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // The worker that sleeps on it processes these first when it wakes.
        self.due.set(true);
        let own = self.queue.fd();
        self.both.as_ref().map(AsFd::as_fd).or(own)
    }

    fn stats(&self) -> QueueStats {
        let (own, heard) = (self.queue.stats(), &self.heard);
        QueueStats {
            rx_packets: own.rx_packets + heard.rx_packets,
            rx_bytes: own.rx_bytes + heard.rx_bytes,
            rx_dropped: own.rx_dropped + heard.rx_dropped,
            ..own
        }
    }
}

/// The groups of stations that hear 224.0.0.1 (RFC 1112 §6.4) and ff02::1 (RFC 2464 §7), the first
/// two bytes and the other four.
const GROUPS: [(u32, u32); 2] = [(0x0100, 0x5e00_0001), (0x3333, 0x0000_0001)];
/// Bytes of auxiliary data, with room to align it.
const AUXILIARY: usize = 64;

#[derive(Debug)]
pub(super) struct Ear {
    fd: OwnedFd,
}

/// A frame that was heard.
pub(super) struct Heard {
    /// Bytes of the frame, also of those that had no room.
    pub(super) len: usize,
    /// The VLAN tag, which the kernel takes out of a frame.
    pub(super) tag: Option<[u8; 4]>,
}

impl Ear {
    /// Opens one in the calling thread's network namespace; needs CAP_NET_RAW.
    pub(super) fn open(interface: &str) -> Result<Ear, InterfaceError> {
        let (fd, interface) = unbound(interface)?;
        let fail = |what| {
            let interface = &interface;
            move |error| failure(interface, what, error)
        };
        filter(&fd).map_err(fail("SO_ATTACH_FILTER"))?;
        set_option(&fd, libc::PACKET_AUXDATA, &1i32).map_err(fail("PACKET_AUXDATA"))?;
        // Last: until then, nothing is heard.
        bind(&fd, &interface, Protocol::All)?;
        Ok(Ear { fd })
    }

    /// Writes the next frame, without its tag, to `room` as far as it fits. Does not wait.
    pub(super) fn hear(&self, room: &mut [u8]) -> io::Result<Option<Heard>> {
        let mut part = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut auxiliary = [MaybeUninit::<u64>::zeroed(); AUXILIARY / 8];
        // SAFETY: a header of zeros says that there is nothing to write to.
        let mut header: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        (header.msg_control, header.msg_controllen) = (auxiliary.as_mut_ptr().cast(), AUXILIARY);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the header names live memory of the sizes that it says.
        let n = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags) };
        let Ok(len) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            return if nothing { Ok(None) } else { Err(error) };
        };
        Ok(Some(Heard { len, tag: tag(&header) }))
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The tag that the kernel says the frame had.
fn tag(header: &msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has filled the header in, and the memory it names is live.
    let first: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(header) };
    if first.is_null() {
        return None;
    }
    // SAFETY: it is within the auxiliary data, which is aligned for it.
    let (level, kind) = unsafe { ((*first).cmsg_level, (*first).cmsg_type) };
    if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    // SAFETY: messages of this kind hold this type, and there is room for a whole one.
    let said: tpacket_auxdata = unsafe { ptr::read_unaligned(libc::CMSG_DATA(first).cast()) };
    let valid = said.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
    let typed = said.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if typed { said.tp_vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), said.tp_vlan_tci.to_be_bytes());
    valid.then_some([a, b, c, d])
}

/// Has the socket hear frames to the groups only, before it hears any.
fn filter(fd: &OwnedFd) -> io::Result<()> {
    let load = |size, at| statement(libc::BPF_LD | size | libc::BPF_ABS, at);
    let unless = |value, steps| jump(value, 0, steps);
    let [(first, rest), (first6, rest6)] = GROUPS;
    let mut program = [
        load(libc::BPF_H, 0),
        unless(first, 2),
        load(libc::BPF_W, 2),
        jump(rest, 4, 3),
        unless(first6, 2),
        load(libc::BPF_W, 2),
        jump(rest6, 1, 0),
        statement(libc::BPF_RET | libc::BPF_K, 0),
        statement(libc::BPF_RET | libc::BPF_K, u32::MAX),
    ];
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (size, value) = (size_of::<sock_fprog>() as u32, (&raw const program).cast());
    // SAFETY: the program is live and of the length given; the kernel copies and checks it.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(value: u32, equal: u8, other: u8) -> sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    sock_filter { code, jt: equal, jf: other, k: value }
}
