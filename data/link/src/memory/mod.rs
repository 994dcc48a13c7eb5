//! Two links joined back to back in memory: each receives the packets that the other sends.
//!
//! Buffers move by ownership and are not copied; each knows the pool it goes home to, so the two
//! ends may use one pool or two.

mod queue;

use std::sync::Arc;

use rtrb::RingBuffer;
use weever_packet::Flags;

use crate::{Link, LinkInfo, LinkQueue, Offload};
use queue::{Doorbell, MemoryQueue, RingsWhenGone};

/// The settings of a pair of memory links, the same for both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// The links' names.
    pub names: [String; 2],
    /// Their MAC addresses.
    pub macs: [[u8; 6]; 2],
    /// How many queues each has; queue *i* of one is joined with queue *i* of the other.
    pub queues: u16,
    /// How many packets a direction of a queue holds.
    pub ring: usize,
    /// Largest packet behind the link header, in bytes.
    pub mtu: u16,
    /// Whether partial checksums may be sent, and received packets are flagged as possibly having
    /// them.
    pub partial_checksums: bool,
    /// Whether a queue can be waited on. It costs the sender a fence at each flush, and a system
    /// call when the receiver waits.
    pub waitable: bool,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig {
            names: ["memory0".into(), "memory1".into()],
            macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            queues: 1,
            ring: 1024,
            mtu: 1500,
            partial_checksums: false,
            waitable: false,
        }
    }
}

/// One end of a pair.
#[derive(Debug)]
pub struct MemoryLink {
    info: LinkInfo,
    queues: Vec<MemoryQueue>,
}

/// Makes two joined links.
///
/// # Errors
/// Without descriptors for [`MemoryConfig::waitable`] (one for each queue and end).
pub fn pair(config: &MemoryConfig) -> std::io::Result<(MemoryLink, MemoryLink)> {
    let mut ends = [0, 1].map(|end| MemoryLink { info: config.info(end), queues: Vec::new() });
    for queue in 0..config.queues {
        let [left, right] = join(config, queue)?;
        ends[0].queues.push(left);
        ends[1].queues.push(right);
    }
    let [left, right] = ends;
    Ok((left, right))
}

impl MemoryConfig {
    fn info(&self, end: usize) -> LinkInfo {
        LinkInfo {
            name: self.names[end].clone(),
            mac: self.macs[end],
            mtu: self.mtu,
            queues: self.queues,
            partial_checksums: self.partial_checksums,
            offload: Offload { tx_checksum: self.partial_checksums, segmentation: false },
            mode: "memory".into(),
        }
    }

    fn flags(&self) -> Flags {
        if self.partial_checksums { Flags::MAY_BE_PARTIAL } else { Flags::NONE }
    }

    fn doorbell(&self) -> std::io::Result<Option<Arc<Doorbell>>> {
        self.waitable.then(Doorbell::new).transpose().map(|bell| bell.map(Arc::new))
    }
}

fn join(config: &MemoryConfig, queue: u16) -> std::io::Result<[MemoryQueue; 2]> {
    let (to_right, from_left) = RingBuffer::new(config.ring.max(1));
    let (to_left, from_right) = RingBuffer::new(config.ring.max(1));
    let bells = [config.doorbell()?, config.doorbell()?];
    let end = |end: usize, outgoing, incoming| {
        MemoryQueue::new(queue::Parts {
            link: config.names[end].clone(),
            queue,
            mtu: config.mtu,
            flags: config.flags(),
            outgoing,
            incoming,
            peers_bell: bells[1 - end].clone().map(RingsWhenGone),
            bell: bells[end].clone(),
        })
    };
    Ok([end(0, to_right, from_right), end(1, to_left, from_left)])
}

impl Link for MemoryLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let boxed = |queue| Box::new(queue) as Box<dyn LinkQueue>;
        std::mem::take(&mut self.queues).into_iter().map(boxed).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
