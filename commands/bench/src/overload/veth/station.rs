//! The far ends of cables: the benchmark sends frames and receives there.

use std::collections::VecDeque;

use weever_link::{Link, LinkError, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Buffer, Burst, Pool, PoolCache};
use weever_testbed::Namespace;

use crate::BenchError;

/// A queue of a device, by which the benchmark sends frames and receives.
pub(super) struct Station {
    queue: Box<dyn LinkQueue>,
    pool: PoolCache,
    /// Frames that have not been sent yet.
    pub(super) packets: VecDeque<Buffer>,
}

impl Station {
    /// The queues of a device, with the link, which must live as long as they do.
    pub(super) fn open(
        within: &Namespace,
        name: &str,
    ) -> Result<(AfXdp, Vec<Station>), BenchError> {
        let pool = super::super::flood::pool()?;
        let mut link = within.run(|| open(name, &pool))?;
        let station = |queue| Station { queue, pool: pool.cache(), packets: VecDeque::new() };
        let stations = link.take_queues().into_iter().map(station).collect();
        Ok((link, stations))
    }

    /// Puts a frame among those to be sent, unless no buffer is free.
    pub(super) fn put(&mut self, frame: &[u8]) {
        let Some(mut packet) = self.pool.alloc() else { return };
        if packet.append(frame) {
            self.packets.push_back(packet);
        } else {
            self.pool.free(packet);
        }
    }

    pub(super) fn send(&mut self) -> Result<(), LinkError> {
        self.queue.tx(&mut self.pool, &mut self.packets)?;
        self.queue.flush(&mut self.pool)
    }

    /// Receives up to 64 packets, and returns how many `counts` takes.
    pub(super) fn receive(&mut self, counts: fn(&Buffer) -> bool) -> Result<usize, LinkError> {
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.pool, &mut burst, 64)?;
        let mut counted = 0;
        for packet in (0..n).filter_map(|slot| burst.take(slot)) {
            counted += usize::from(counts(&packet));
            self.pool.free(packet);
        }
        Ok(counted)
    }
}

/// Opens a device of this thread's namespace.
pub(super) fn open(name: &str, pool: &Pool) -> Result<AfXdp, BenchError> {
    AfXdp::open(&AfXdpConfig::new(name, pool.clone())).map_err(BenchError::of("AF_XDP"))
}
