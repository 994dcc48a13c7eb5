//! A link that receives the same prepared frames for ever, for benchmarks.
//!
//! Its own cost per packet is an allocation, a copy of the frame (or not, see [`Stamp`]), and a
//! free for each sent packet: measure it alone and subtract. It has no peer, so the conformance
//! suite does not apply to it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weever_packet::{BURST, Buffer, Burst, Flags, PoolCache};

use crate::{Link, LinkError, LinkInfo, LinkQueue, Offload, QueueStats, fits, free_sent};

/// How a prepared frame gets into a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp {
    /// It is copied each time.
    #[default]
    Always,
    /// It is copied when the buffer last held another one. Only for stacks that do not write into
    /// received packets, and a pool without other users.
    Once,
}

/// The settings of a replaying link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The link's properties. Its `queues` and `mtu` hold; `partial_checksums` sets the packets'
    /// flag.
    pub info: LinkInfo,
    /// The frames, each queue goes through all of them in turn. Longer ones than the MTU allows
    /// are left out.
    pub frames: Vec<Vec<u8>>,
    /// Whether the link vouches for the packets' transport checksums
    /// ([`Flags::CHECKSUM_VERIFIED`](weever_packet::Flags::CHECKSUM_VERIFIED)).
    pub verified: bool,
    /// How they get into the buffers.
    pub stamp: Stamp,
}

impl ReplayConfig {
    /// One queue, MTU 1,500.
    pub fn new(frames: Vec<Vec<u8>>) -> ReplayConfig {
        let info = LinkInfo {
            name: "replay".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            queues: 1,
            partial_checksums: false,
            offload: Offload::default(),
            mode: "replay".into(),
        };
        ReplayConfig { info, frames, verified: false, stamp: Stamp::default() }
    }
}

/// Replays frames on every queue and frees sent packets.
#[derive(Debug)]
pub struct ReplayLink {
    info: LinkInfo,
    queues: Vec<ReplayQueue>,
}

impl ReplayLink {
    /// Makes the link. Without a frame that fits it never receives anything.
    pub fn new(config: ReplayConfig) -> ReplayLink {
        let ReplayConfig { info, mut frames, verified, stamp } = config;
        let partial = if info.partial_checksums { Flags::MAY_BE_PARTIAL } else { Flags::NONE };
        let flags = if verified { partial.with(Flags::CHECKSUM_VERIFIED) } else { partial };
        frames.retain(|frame| fits(frame, info.mtu));
        let frames: Arc<[Vec<u8>]> = frames.into();
        let queue = |index| ReplayQueue::new((info.mtu, flags), index, frames.clone(), stamp);
        let queues = (0..info.queues).map(queue).collect();
        ReplayLink { info, queues }
    }
}

impl Link for ReplayLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let boxed = |queue| Box::new(queue) as Box<dyn LinkQueue>;
        std::mem::take(&mut self.queues).into_iter().map(boxed).collect()
    }
}

#[derive(Debug)]
struct ReplayQueue {
    frames: Arc<[Vec<u8>]>,
    next: usize,
    stamp: Stamp,
    /// For each buffer of the pool, by its index: one more than the frame that it holds.
    held: Vec<u32>,
    queue: u16,
    mtu: u16,
    flags: Flags,
    stats: QueueStats,
}

impl ReplayQueue {
    fn new(
        (mtu, flags): (u16, Flags),
        queue: u16,
        frames: Arc<[Vec<u8>]>,
        stamp: Stamp,
    ) -> ReplayQueue {
        let (held, stats) = (Vec::new(), QueueStats::default());
        ReplayQueue { frames, next: 0, stamp, held, queue, mtu, flags, stats }
    }

    /// Puts the next frame into an empty buffer; false if the pool's frames are too short for it.
    fn fill(&mut self, buffer: &mut Buffer) -> bool {
        let frame = &self.frames[self.next];
        let tag = self.next as u32 + 1;
        self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
        if self.stamp == Stamp::Always {
            return buffer.append(frame);
        }
        let index = buffer.index() as usize;
        if index >= self.held.len() {
            self.held.resize(index + 1, 0);
        }
        if self.held[index] == tag {
            buffer.received(buffer.head(), frame.len() as u16);
            return true;
        }
        let fitted = buffer.append(frame);
        self.held[index] = if fitted { tag } else { 0 };
        fitted
    }
}

impl LinkQueue for ReplayQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let max = if self.frames.is_empty() { 0 } else { max.min(BURST) };
        let mut n = 0;
        while n < max {
            let Some(mut buffer) = pool.alloc() else {
                self.stats.fill_empty += 1;
                break;
            };
            if !self.fill(&mut buffer) {
                self.stats.rx_invalid += 1;
                pool.free(buffer);
                break;
            }
            self.stats.rx_bytes += buffer.len() as u64;
            let head = buffer.head();
            let meta = buffer.meta_mut();
            meta.l2 = head;
            meta.queue = self.queue;
            meta.flags = self.flags;
            drop(burst.put(n, buffer));
            n += 1;
        }
        self.stats.rx_packets += n as u64;
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

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
