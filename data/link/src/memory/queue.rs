//! One queue of a memory link, and the bell that wakes a receiver which went to sleep, and only such a one.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer};
use rustix::event::{EventfdFlags, eventfd};
use weever_packet::{BURST, Buffer, Burst, Flags, PoolCache};

use crate::{FrameNeed, Frames, LinkError, LinkQueue, QueueStats, fits};

#[derive(Debug)]
pub(super) struct Parts {
    pub(super) link: String,
    pub(super) queue: u16,
    pub(super) mtu: u16,
    pub(super) flags: Flags,
    pub(super) outgoing: Producer<Buffer>,
    pub(super) incoming: Consumer<Buffer>,
    pub(super) peers_bell: Option<RingsWhenGone>,
    pub(super) bell: Option<Arc<Doorbell>>,
}

#[derive(Debug)]
pub(super) struct MemoryQueue {
    parts: Parts,
    /// Whether our bell is armed.
    waiting: Cell<bool>,
    /// Whether the peer has not been told of sent packets.
    unsent: bool,
    /// The most packets on their way to the peer.
    most: usize,
    stats: QueueStats,
}

impl MemoryQueue {
    pub(super) fn new(parts: Parts) -> MemoryQueue {
        MemoryQueue {
            most: parts.outgoing.buffer().capacity(),
            parts,
            waiting: Cell::new(false),
            unsent: false,
            stats: QueueStats::default(),
        }
    }

    fn gone(&self) -> LinkError {
        let why = "the other end was dropped".into();
        LinkError::Gone { link: self.parts.link.clone(), why }
    }

    fn wake_up(&mut self) {
        if self.waiting.replace(false)
            && let Some(bell) = &self.parts.bell
        {
            bell.disarm();
        }
    }

    /// The other end is gone and nothing can reach it, but its packets are still to be received:
    /// the queue has to live until `rx` has said so.
    fn discard(&mut self, pool: &mut PoolCache, packets: &mut VecDeque<Buffer>) -> usize {
        let n = packets.len();
        packets.drain(..).for_each(|packet| pool.free(packet));
        self.stats.tx_dropped += n as u64;
        n
    }

    /// Moves packets out of the front, passing over and freeing those that are too long, until
    /// `room` were found.
    fn send(&mut self, pool: &mut PoolCache, packets: &mut VecDeque<Buffer>, room: usize) {
        let Ok(chunk) = self.parts.outgoing.write_chunk_uninit(room) else { return };
        let (stats, mtu) = (&mut self.stats, self.parts.mtu);
        let sent = chunk.fill_from_iter(std::iter::from_fn(|| {
            loop {
                let packet = packets.pop_front()?;
                if fits(packet.data(), mtu) {
                    stats.tx_bytes += packet.len() as u64;
                    return Some(packet);
                }
                stats.tx_dropped += 1;
                pool.free(packet);
            }
        }));
        self.stats.tx_packets += sent as u64;
        self.unsent |= sent > 0;
    }
}

impl LinkQueue for MemoryQueue {
    fn rx(
        &mut self,
        _pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.wake_up();
        // Asked first: packets sent before the other end went must still be received.
        let abandoned = self.parts.incoming.is_abandoned();
        let n = self.parts.incoming.slots().min(max).min(BURST);
        if n == 0 && abandoned && max > 0 {
            return Err(self.gone());
        }
        let Ok(chunk) = self.parts.incoming.read_chunk(n) else { return Ok(0) };
        for (slot, mut packet) in chunk.into_iter().enumerate() {
            self.stats.rx_bytes += packet.len() as u64;
            let (head, len) = (packet.head(), packet.len() as u16);
            packet.received(head, len);
            let meta = packet.meta_mut();
            meta.l2 = head;
            meta.queue = self.parts.queue;
            meta.flags = self.parts.flags;
            drop(burst.put(slot, packet));
        }
        self.stats.rx_packets += n as u64;
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        if self.parts.outgoing.is_abandoned() {
            if self.parts.incoming.is_empty() {
                return Err(self.gone());
            }
            return Ok(self.discard(pool, packets));
        }
        let before = packets.len();
        let outgoing = &self.parts.outgoing;
        let under_way = outgoing.buffer().capacity() - outgoing.slots();
        let room = self.most.saturating_sub(under_way).min(before);
        if room > 0 {
            self.send(pool, packets, room);
        }
        Ok(before - packets.len())
    }

    fn flush(&mut self, _pool: &mut PoolCache) -> Result<(), LinkError> {
        if std::mem::take(&mut self.unsent)
            && let Some(RingsWhenGone(bell)) = &self.parts.peers_bell
        {
            bell.ring();
        }
        Ok(())
    }

    fn frame_need(&self) -> FrameNeed {
        let send = self.parts.outgoing.buffer().capacity() as u32;
        FrameNeed {
            least: Frames { receive: 0, send: send.min(16) },
            most: Frames { receive: 0, send },
        }
    }

    fn limit_frames(&mut self, most: Frames) {
        self.most = (most.send as usize).min(self.parts.outgoing.buffer().capacity());
    }

    fn unsent(&self) -> bool {
        self.unsent
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        let bell = self.parts.bell.as_ref()?;
        self.waiting.set(true);
        bell.arm();
        if !self.parts.incoming.is_empty() || self.parts.incoming.is_abandoned() {
            bell.write();
        }
        Some(bell.fd())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

/// An eventfd that is written only while its owner waits.
#[derive(Debug)]
pub(super) struct Doorbell {
    fd: OwnedFd,
    armed: AtomicBool,
}

impl Doorbell {
    pub(super) fn new() -> std::io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell { fd, armed: AtomicBool::new(false) })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The owner is about to wait; it looks at its ring once more after this. Either it sees the
    /// sent packets, or the sender sees it armed: a SeqCst fence stands between the write and the
    /// look on both sides.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake. A ring that comes too late only costs it a vain look.
    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
        let _nothing_there = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    /// Something was sent, or will never be again.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            self.write();
        }
    }

    /// Makes the descriptor readable at once.
    pub(super) fn write(&self) {
        let written = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "a counter that is read by ones does not overflow");
    }
}

/// Rings when dropped. Declared behind the producer, whose end the receiver is to notice.
#[derive(Debug)]
pub(super) struct RingsWhenGone(pub(super) Arc<Doorbell>);

impl Drop for RingsWhenGone {
    fn drop(&mut self) {
        self.0.ring();
    }
}
