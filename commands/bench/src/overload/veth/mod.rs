//! The same over AF_XDP on veth pairs, in namespaces of their own.
//!
//! With two cores, the unmeasured half has one of them (the flood's sender, its softirqs and the flooded worker, or the
//! source and the sinks), and the measured worker has the other. So figures show what workers take from each other, and
//! not how the system divides a core.

mod flood;
mod slow_link;

use std::collections::VecDeque;

use weever_link::{Link, LinkError, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Buffer, Burst, Pool, PoolCache};
use weever_testbed::{Namespace, allowed_cores, privileged};

use crate::samples::Plan;
use crate::{BenchError, Report};

/// Adds the figures, where the process may make namespaces and has two cores.
pub(super) fn measure(plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let cores = allowed_cores().map_err(BenchError::of("cores"))?;
    let [other, own, ..] = cores[..] else {
        report.setup("veth: left out, as it needs two cores");
        return Ok(());
    };
    if !privileged() {
        report.setup("veth: left out, as it needs CAP_NET_ADMIN and CAP_BPF");
        return Ok(());
    }
    report.setup(format!("veth: the measured worker on core {own}, all else on core {other}"));
    slow_link::measure([other, own], plan, report)?;
    flood::measure([other, own], plan, report)
}

/// A queue of a device, by which the benchmark sends frames and receives.
struct Station {
    queue: Box<dyn LinkQueue>,
    pool: PoolCache,
    packets: VecDeque<Buffer>,
}

impl Station {
    /// The queues of a device, with the link, which keeps them at work.
    fn open(within: &Namespace, name: &str) -> Result<(AfXdp, Vec<Station>), BenchError> {
        let pool = super::flood::pool()?;
        let mut link = within.run(|| open(name, &pool))?;
        let station = |queue| Station { queue, pool: pool.cache(), packets: VecDeque::new() };
        let stations = link.take_queues().into_iter().map(station).collect();
        Ok((link, stations))
    }

    /// Puts a frame among those to be sent, unless no buffer is free.
    fn put(&mut self, frame: &[u8]) {
        let Some(mut packet) = self.pool.alloc() else { return };
        if packet.append(frame) {
            self.packets.push_back(packet);
        } else {
            self.pool.free(packet);
        }
    }

    fn send(&mut self) -> Result<(), LinkError> {
        self.queue.tx(&mut self.pool, &mut self.packets)?;
        self.queue.flush(&mut self.pool)
    }

    /// Receives up to 64 packets, and returns how many `counts` takes.
    fn receive(&mut self, counts: fn(&Buffer) -> bool) -> Result<usize, LinkError> {
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
fn open(name: &str, pool: &Pool) -> Result<AfXdp, BenchError> {
    AfXdp::open(&AfXdpConfig::new(name, pool.clone())).map_err(BenchError::of("AF_XDP"))
}
