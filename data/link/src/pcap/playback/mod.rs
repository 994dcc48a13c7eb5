//! A link that receives the packets of a capture file, with the file's timing, another, or none.
//!
//! The file is read as a whole before the link is made ([`Capture::read`]): reading it on the
//! packet path would block. Sent packets are counted and freed. There is no peer, so the
//! conformance suite does not apply.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::os::fd::BorrowedFd;

use weever_packet::{BURST, Buffer, Burst, Flags, Nanos, PoolCache};

use super::{ETHERNET, PcapError, Reader};
use crate::{Link, LinkError, LinkInfo, LinkQueue, QueueStats, fits, free_sent};

/// Packets of a capture file, in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    left_out: LeftOut,
}

/// Packets of a file that cannot be replayed. PredicateText as a reason: `12 were cut by their capture`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Packets of which the capture kept only a part.
    pub cut: u64,
    /// Packets that do not start with an Ethernet header.
    pub other_link: u64,
    /// The link type of the first of those, a number of the link type registry.
    pub link_type: u16,
}

impl LeftOut {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.cut + self.other_link
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { cut, other_link, link_type } = *self;
        let mut separator = "";
        if cut > 0 {
            write!(f, "{cut} were cut by their capture")?;
            separator = ", ";
        }
        if other_link > 0 {
            let name = link_type_name(link_type);
            write!(f, "{separator}{other_link} are of link type {link_type} ({name})")?;
        }
        Ok(())
    }
}

/// Names, from the link type registry, of link types that captures often have instead of Ethernet.
fn link_type_name(number: u16) -> &'static str {
    match number {
        0 | 108 => "loopback",
        12 | 14 | 101 | 228 | 229 => "IP without a link header",
        105 | 127 => "IEEE 802.11",
        113 | 276 => "Linux cooked, as from the device `any`",
        _ => "not Ethernet",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    /// Since the first one; never falls.
    at: Nanos,
    start: usize,
    len: usize,
}

impl Capture {
    /// Reads a file up to `most` bytes of packets. Left out, and counted in
    /// [`left_out`](Self::left_out), are packets that were cut and those of links other than
    /// Ethernet. A packet with an earlier time than the one before it comes right after that.
    ///
    /// # Errors
    /// As [`Reader`], and when there is more than `most`.
    pub fn read(file: impl Read, most: usize) -> Result<Capture, PcapError> {
        let mut reader = Reader::new(file)?;
        let (mut capture, mut first) = (Capture::default(), None);
        loop {
            let offset = reader.offset();
            let Some(record) = reader.read()? else { return Ok(capture) };
            let (interface, time, data) = (record.interface, record.time, record.data);
            let room = most - capture.bytes.len();
            if data.len() > room {
                let what = format!("more than {most} bytes of packets, the most that is replayed");
                return Err(PcapError::malformed(offset, what));
            }
            let (start, len) = (capture.bytes.len(), data.len());
            let whole = record.original as usize == len;
            capture.bytes.extend_from_slice(data);
            let link_type = reader.interfaces()[interface as usize].link_type;
            if !whole || link_type != ETHERNET {
                capture.bytes.truncate(start);
                capture.leave_out(link_type);
                continue;
            }
            let since = time.saturating_sub(*first.get_or_insert(time));
            let at = capture.packets.last().map_or(0, |last| last.at.max(since));
            capture.packets.push(Packet { at, start, len });
        }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The packets in the order in which they are replayed, and when after the first.
    pub fn packets(&self) -> impl Iterator<Item = (Nanos, &[u8])> {
        let data = |packet: &Packet| &self.bytes[packet.start..packet.start + packet.len];
        self.packets.iter().map(move |packet| (packet.at, data(packet)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets of the file that were left out.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn leave_out(&mut self, link_type: u16) {
        let left_out = &mut self.left_out;
        if link_type == ETHERNET {
            left_out.cut += 1;
            return;
        }
        if left_out.other_link == 0 {
            left_out.link_type = link_type;
        }
        left_out.other_link += 1;
    }

    /// From the first packet to the last.
    pub fn duration(&self) -> Nanos {
        self.packets.last().map_or(0, |last| last.at)
    }
}

/// How fast a capture is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As it was recorded, this many times as fast: 1.0 is the recorded timing, 2.0 half of it.
    /// Anything that is no positive number counts as 1.0.
    Timed(f64),
    /// As fast as it is received.
    #[default]
    Unpaced,
}

impl Pace {
    fn scale(self, at: Nanos) -> Nanos {
        match self {
            Pace::Unpaced => 0,
            Pace::Timed(times) if times > 0.0 && times != 1.0 => (at as f64 / times) as Nanos,
            Pace::Timed(_) => at,
        }
    }
}

/// The behaviour after the last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Silence.
    #[default]
    Quiet,
    /// The link is [`Gone`](LinkError::Gone).
    Gone,
}

/// A link with one queue that receives a capture's packets. The first one comes at the first poll.
#[derive(Debug)]
pub struct PlaybackLink {
    info: LinkInfo,
    queue: Option<PlaybackQueue>,
}

impl PlaybackLink {
    /// Makes the link. `info` are its properties: packets longer than its `mtu` allows, and those
    /// that fit no frame of the pool, are counted as unusable, as are those that the capture has
    /// left out; `queues` becomes 1.
    pub fn new(mut info: LinkInfo, capture: Capture, pace: Pace, end: End) -> PlaybackLink {
        info.queues = 1;
        let queue = PlaybackQueue {
            link: info.name.clone(),
            mtu: info.mtu,
            flags: if info.partial_checksums { Flags::MAY_BE_PARTIAL } else { Flags::NONE },
            stats: QueueStats { rx_unusable: capture.left_out().total(), ..QueueStats::default() },
            capture,
            pace,
            end,
            next: 0,
            started: None,
            now: 0,
        };
        PlaybackLink { info, queue: Some(queue) }
    }
}

impl Link for PlaybackLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        self.queue.take().map(|queue| Box::new(queue) as Box<dyn LinkQueue>).into_iter().collect()
    }
}

#[derive(Debug)]
struct PlaybackQueue {
    link: String,
    mtu: u16,
    flags: Flags,
    capture: Capture,
    pace: Pace,
    end: End,
    next: usize,
    started: Option<Nanos>,
    now: Nanos,
    stats: QueueStats,
}

impl PlaybackQueue {
    /// When the next packet comes, if there is one and the replay has begun.
    fn due(&self) -> Option<Nanos> {
        let packet = self.capture.packets.get(self.next)?;
        Some(self.started?.saturating_add(self.pace.scale(packet.at)))
    }

    /// Makes a buffer of the next packet; `None` without a free frame. A packet that fits neither
    /// link nor frame is passed over.
    fn fill(&mut self, pool: &mut PoolCache) -> Option<Option<Buffer>> {
        let mut buffer = pool.alloc()?;
        let Packet { start, len, .. } = self.capture.packets[self.next];
        let frame = &self.capture.bytes[start..start + len];
        self.next += 1;
        if fits(frame, self.mtu) && buffer.append(frame) {
            let head = buffer.head();
            let meta = buffer.meta_mut();
            (meta.l2, meta.flags) = (head, self.flags);
            return Some(Some(buffer));
        }
        self.stats.rx_unusable += 1;
        pool.free(buffer);
        Some(None)
    }
}

impl LinkQueue for PlaybackQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        self.started.get_or_insert(self.now);
        if self.end == End::Gone && max > 0 && self.next == self.capture.len() {
            let why = "the capture is over".into();
            return Err(LinkError::Gone { link: self.link.clone(), why });
        }
        let (mut n, max) = (0, max.min(BURST));
        // However many are unusable, a call looks at no more than so many.
        for _ in 0..max {
            if self.due().is_none_or(|at| at > self.now) {
                break;
            }
            let Some(filled) = self.fill(pool) else {
                self.stats.fill_empty += 1;
                break;
            };
            let Some(buffer) = filled else { continue };
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += buffer.len() as u64;
            drop(burst.put(n, buffer));
            n += 1;
        }
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        Ok(free_sent(self.mtu, pool, packets, &mut self.stats))
    }

    fn flush(&mut self, _pool: &mut PoolCache) -> Result<(), LinkError> {
        Ok(())
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn unsent(&self) -> bool {
        false
    }

    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.due()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
