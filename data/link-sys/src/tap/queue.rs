//! One queue of a TAP interface.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{Errno, readv, writev};
use weever_link::{LinkError, LinkInfo, LinkQueue, QueueStats, fits};
use weever_packet::{BURST, Buffer, Burst, Flags, PoolCache};

use super::device::{Header, Received, header_of, header_of_gathered};
use crate::offload::{Cutter, Gathered, MOST_PIECES, gather};

/// How many packets are taken between two flushes.
const MOST_OUTGOING: usize = 256;

#[derive(Debug)]
pub(super) struct TapQueue {
    fd: Arc<OwnedFd>,
    link: String,
    index: u16,
    mtu: u16,
    /// A large packet, while it is being cut.
    cutter: Cutter,
    /// The flags of its pieces.
    flags: Flags,
    /// Taken, and to be written at the next flush.
    outgoing: VecDeque<Buffer>,
    stats: QueueStats,
}

/// The result of reading once.
enum Read {
    /// Nothing is there.
    Nothing,
    /// A packet for the burst.
    Packet(Buffer),
    /// A large packet, or one that cannot be used: look again.
    Again,
}

impl TapQueue {
    pub(super) fn new(fd: Arc<OwnedFd>, index: usize, info: &LinkInfo) -> TapQueue {
        TapQueue {
            fd,
            link: info.name.clone(),
            index: index as u16,
            mtu: info.mtu,
            cutter: Cutter::new(),
            flags: Flags::NONE,
            outgoing: VecDeque::with_capacity(MOST_OUTGOING),
            stats: QueueStats::default(),
        }
    }

    /// Reads a packet into an empty buffer, and the bytes beyond its end into the cutter's room.
    fn read(&mut self, mut buffer: Buffer, pool: &mut PoolCache) -> Result<Read, LinkError> {
        let head = buffer.head();
        let room = buffer.tailroom();
        let opened = buffer.set_bounds(head, head + room as u16);
        debug_assert!(opened, "the tailroom is within the frame");
        let mut header = Header::default();
        let spill = &mut self.cutter.room()[room..];
        let mut parts = [
            IoSliceMut::new(&mut header),
            IoSliceMut::new(buffer.data_mut()),
            IoSliceMut::new(spill),
        ];
        let n = match readv(&*self.fd, &mut parts) {
            Ok(n) => n.saturating_sub(header.len()),
            Err(errno) => {
                pool.free(buffer);
                return self.sort(errno, "read").map(|()| Read::Nothing);
            }
        };
        let Received { flags, segments } = Received::of(&header);
        match segments {
            Ok(None) if n <= room => Ok(Read::Packet(self.received(buffer, n, flags))),
            Ok(Some((transport, size))) => {
                let inside = n.min(room);
                self.cutter.room()[..inside].copy_from_slice(&buffer.data()[..inside]);
                pool.free(buffer);
                self.flags = flags.with(Flags::PARTIAL_CHECKSUM);
                if !self.cutter.start(n, transport, size) {
                    self.stats.rx_invalid += 1;
                }
                Ok(Read::Again)
            }
            Ok(None) | Err(()) => {
                self.stats.rx_invalid += 1;
                pool.free(buffer);
                Ok(Read::Again)
            }
        }
    }

    /// Makes a packet of `len` bytes at a buffer's head.
    fn received(&mut self, mut buffer: Buffer, len: usize, flags: Flags) -> Buffer {
        let head = buffer.head();
        buffer.received(head, len as u16);
        let meta = buffer.meta_mut();
        (meta.l2, meta.queue, meta.flags) = (head, self.index, flags);
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += len as u64;
        buffer
    }

    /// The next piece of a large packet, in an empty buffer; `None` if it is too long for one, and
    /// with it the others.
    fn piece(&mut self, mut buffer: Buffer, len: usize, pool: &mut PoolCache) -> Option<Buffer> {
        let head = buffer.head();
        let fits = len <= buffer.tailroom() && buffer.set_bounds(head, head + len as u16);
        if !fits {
            self.stats.rx_invalid += 1;
            self.cutter.abandon();
            pool.free(buffer);
            return None;
        }
        self.cutter.cut(buffer.data_mut());
        let flags = self.flags;
        Some(self.received(buffer, len, flags))
    }

    /// Whether a packet is one the interface takes: not too long, unless the kernel cuts it.
    fn sendable(&self, packet: &Buffer) -> bool {
        let meta = packet.meta();
        let cut = meta.segment != 0 && meta.flags.has(Flags::PARTIAL_CHECKSUM);
        fits(packet.data(), if cut { u16::MAX } else { self.mtu })
    }

    /// Writes the packets at the front, as one if they are segments that the kernel can cut; how many. An
    /// interface that is down refuses them, which a cable would not notice.
    fn write(&mut self) -> (usize, Result<(), LinkError>) {
        let whole = |packet: &&Buffer| {
            let meta = packet.meta();
            meta.flags.has(Flags::PARTIAL_CHECKSUM) && meta.segment == 0
        };
        let segments = self.outgoing.iter().take_while(whole).map(|packet| packet.data());
        let (count, written) = match gather(segments.take(MOST_PIECES)) {
            Some(gathered) => match self.write_gathered(&gathered) {
                // A kernel that would not cut it takes the segments.
                Err(Errno::INVAL) => (1, self.write_first()),
                written => (gathered.count, written),
            },
            None => (self.outgoing.len().min(1), self.write_first()),
        };
        let sent = self.outgoing.iter().take(count);
        match written {
            Ok(_) => {
                self.stats.tx_bytes += sent.map(|packet| packet.len() as u64).sum::<u64>();
                self.stats.tx_packets += count as u64;
                (count, Ok(()))
            }
            Err(errno) => {
                self.stats.tx_dropped += count as u64;
                (count, self.sort(errno, "write"))
            }
        }
    }

    fn write_first(&self) -> Result<usize, Errno> {
        let Some(packet) = self.outgoing.front() else { return Ok(0) };
        let header = header_of(packet);
        writev(&*self.fd, &[IoSlice::new(&header), IoSlice::new(packet.data())])
    }

    fn write_gathered(&self, gathered: &Gathered) -> Result<usize, Errno> {
        let header = header_of_gathered(gathered);
        let mut parts = [IoSlice::new(&[]); MOST_PIECES + 2];
        parts[0] = IoSlice::new(&header);
        parts[1] = IoSlice::new(gathered.headers());
        for (part, packet) in parts[2..].iter_mut().zip(&self.outgoing).take(gathered.count) {
            *part = IoSlice::new(packet.data().get(gathered.payload..).unwrap_or_default());
        }
        writev(&*self.fd, &parts[..gathered.count + 2])
    }

    /// The meaning of a failed call: an interface that is down may come up again, and one that is
    /// gone has left the descriptor in a bad state.
    fn sort(&self, errno: Errno, what: &'static str) -> Result<(), LinkError> {
        let link = self.link.clone();
        match errno {
            Errno::AGAIN
            | Errno::INTR
            | Errno::IO
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::INVAL => Ok(()),
            Errno::BADFD => Err(LinkError::Gone { link, why: "the interface was removed".into() }),
            other => Err(LinkError::Io { link, what, source: other.into() }),
        }
    }
}

impl LinkQueue for TapQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let max = max.min(BURST);
        let mut n = 0;
        while n < max {
            let Some(buffer) = pool.alloc() else {
                self.stats.fill_empty += 1;
                break;
            };
            let packet = match self.cutter.next_len() {
                Some(len) => self.piece(buffer, len, pool),
                None => match self.read(buffer, pool) {
                    Ok(Read::Packet(packet)) => Some(packet),
                    Ok(Read::Again) => None,
                    Ok(Read::Nothing) => break,
                    // Packets received before are handed out first.
                    Err(_) if n > 0 => break,
                    Err(error) => return Err(error),
                },
            };
            if let Some(packet) = packet {
                drop(burst.put(n, packet));
                n += 1;
            }
        }
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let before = packets.len();
        while self.outgoing.len() < MOST_OUTGOING
            && let Some(packet) = packets.pop_front()
        {
            if self.sendable(&packet) {
                self.outgoing.push_back(packet);
            } else {
                self.stats.tx_dropped += 1;
                pool.free(packet);
            }
        }
        Ok(before - packets.len())
    }

    /// Writes the taken packets, one call a packet; segments of a connection that follow each other are one.
    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        while !self.outgoing.is_empty() {
            let (count, written) = self.write();
            self.outgoing.drain(..count).for_each(|packet| pool.free(packet));
            written?;
        }
        Ok(())
    }

    fn unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Readable while packets wait in the kernel. Pieces of a large packet do not make it so: poll
    /// until a receive brings nothing before waiting.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}
