//! A memory link as smoltcp sees it.

use std::collections::VecDeque;
use std::io;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use weever_link::LinkQueue;
use weever_packet::{Buffer, Burst, PoolCache};

/// A memory link's queue as a smoltcp device.
pub(super) struct Cable {
    pub(super) queue: Box<dyn LinkQueue>,
    pub(super) pool: PoolCache,
    pub(super) arrived: VecDeque<Buffer>,
    pub(super) leaving: VecDeque<Buffer>,
    pub(super) mtu: usize,
}

impl Cable {
    /// Moves received frames in and frames to send out.
    pub(super) fn pump(&mut self) -> io::Result<()> {
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.pool, &mut burst, 64).map_err(io::Error::other)?;
        self.arrived.extend((0..n).filter_map(|i| burst.take(i)));
        self.queue.tx(&mut self.pool, &mut self.leaving).map_err(io::Error::other)?;
        self.queue.flush(&mut self.pool).map_err(io::Error::other)
    }
}

pub(super) struct Arrived<'a>(Buffer, &'a mut PoolCache);
pub(super) struct Leaving<'a>(&'a mut VecDeque<Buffer>, Option<Buffer>);

impl RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.0.data());
        self.1.free(self.0);
        result
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut bytes = vec![0; len];
        let result = f(&mut bytes);
        if let Some(mut buffer) = self.1
            && buffer.append(&bytes)
        {
            self.0.push_back(buffer);
        }
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let buffer = self.arrived.pop_front()?;
        let reply = self.pool.alloc();
        Some((Arrived(buffer, &mut self.pool), Leaving(&mut self.leaving, reply)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        let buffer = self.pool.alloc()?;
        Some(Leaving(&mut self.leaving, Some(buffer)))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + 14;
        capabilities
    }
}
