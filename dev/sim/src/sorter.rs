//! A device with several queues: it sorts the frames that arrive into them, by a filter for each peer's UDP
//! port, as a NIC does.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_link::{Link, LinkError, LinkInfo, LinkQueue, QueueStats};
use weever_packet::{BURST, Buffer, Burst, Nanos, PoolCache};
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::udp::{HEADER_LEN, UdpHeader};

const ETHERNET: usize = 14;
const IPV4: usize = 20;

/// Filters and queues of a device.
struct Device {
    inner: Box<dyn LinkQueue>,
    /// Frames that were sorted and not received yet, by queue.
    waiting: Vec<VecDeque<Buffer>>,
    /// The queue of each range of peers' ports that has a filter, the last first; others go to the first queue.
    filters: Vec<(RangeInclusive<u16>, u16)>,
    /// The queues that have failed.
    failed: Vec<bool>,
    /// Datagrams in the order of their arrival.
    arrived: Vec<(u16, Vec<u8>)>,
    burst: Burst,
}

/// A handle to a sorting device: its filters, and the datagrams that it has seen.
#[derive(Clone)]
pub(crate) struct Sorter(Arc<Mutex<Device>>);

impl Sorter {
    fn lock(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on datagrams of these ports of a peer go to another queue.
    pub(crate) fn set(&self, ports: RangeInclusive<u16>, queue: u16) {
        let filters = &mut self.lock().filters;
        let hidden = |(of, _): &(RangeInclusive<u16>, u16)| {
            ports.contains(of.start()) && ports.contains(of.end())
        };
        filters.retain(|filter| !hidden(filter));
        filters.insert(0, (ports, queue));
    }

    /// A queue fails: the frames that wait in it are lost, as if they had not arrived, and those of its filters go
    /// to the first queue.
    pub(crate) fn fail(&self, queue: u16) {
        let Device { waiting, filters, failed, arrived, .. } = &mut *self.lock();
        failed[usize::from(queue)] = true;
        for lost in waiting[usize::from(queue)].drain(..).rev() {
            let Some((port, octets)) = datagram(lost.data()) else { continue };
            if let Some(at) = arrived.iter().rposition(|(of, o)| (*of, &**o) == (port, octets)) {
                arrived.remove(at);
            }
        }
        filters.iter_mut().filter(|(_, to)| *to == queue).for_each(|(_, to)| *to = 0);
    }

    /// The datagrams that have arrived since the last call, in order: the peer's port and the payload.
    pub(crate) fn take_arrived(&self) -> Vec<(u16, Vec<u8>)> {
        std::mem::take(&mut self.lock().arrived)
    }
}

/// A link whose frames are sorted into several queues.
pub(crate) struct SortedLink {
    info: LinkInfo,
    sorter: Sorter,
}

impl SortedLink {
    /// Puts `queues` queues behind a link that has one.
    pub(crate) fn new(mut link: Box<dyn Link>, queues: u16) -> Option<SortedLink> {
        let info = LinkInfo { queues, ..link.info().clone() };
        let device = Device {
            inner: link.take_queues().pop()?,
            waiting: (0..queues).map(|_| VecDeque::new()).collect(),
            filters: Vec::new(),
            failed: vec![false; usize::from(queues)],
            arrived: Vec::new(),
            burst: Burst::new(),
        };
        Some(SortedLink { info, sorter: Sorter(Arc::new(Mutex::new(device))) })
    }

    pub(crate) fn sorter(&self) -> Sorter {
        self.sorter.clone()
    }
}

impl Link for SortedLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let queue = |number| {
            let sorter = self.sorter.clone();
            Box::new(SortedQueue { number, sorter, received: 0 }) as Box<dyn LinkQueue>
        };
        (0..self.info.queues).map(queue).collect()
    }
}

/// The peer's port and the payload of a UDP datagram in IPv4 without options.
fn datagram(frame: &[u8]) -> Option<(u16, &[u8])> {
    let ip = Ipv4Header::of(frame.get(ETHERNET..ETHERNET + IPV4)?.try_into().ok()?);
    let udp = frame.get(ETHERNET + IPV4..)?;
    let header = UdpHeader::of(udp.get(..HEADER_LEN)?.try_into().ok()?);
    let end = usize::from(header.length());
    (ip.protocol() == protocol::UDP).then_some((header.src_port(), udp.get(HEADER_LEN..end)?))
}

impl Device {
    /// Sorts all frames that have come.
    fn sort(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        loop {
            let received = self.inner.rx(pool, &mut self.burst, BURST)?;
            for packet in (0..received).filter_map(|slot| self.burst.take(slot)) {
                let read = datagram(packet.data()).map(|(port, octets)| (port, octets.to_vec()));
                let queue = read.as_ref().and_then(|(port, _)| {
                    let takes = |(ports, _): &&(RangeInclusive<u16>, u16)| ports.contains(port);
                    self.filters.iter().find(takes).map(|(_, queue)| *queue)
                });
                self.arrived.extend(read);
                self.waiting[usize::from(queue.unwrap_or(0))].push_back(packet);
            }
            if received < BURST {
                return Ok(());
            }
        }
    }
}

/// One of its queues.
struct SortedQueue {
    number: u16,
    sorter: Sorter,
    received: u64,
}

impl LinkQueue for SortedQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let mut device = self.sorter.lock();
        if device.failed[usize::from(self.number)] {
            let (link, why) = (format!("queue {}", self.number), "it was made to fail".into());
            return Err(LinkError::Gone { link, why });
        }
        device.sort(pool)?;
        let waiting = &mut device.waiting[usize::from(self.number)];
        let count = waiting.len().min(max).min(BURST);
        for (slot, mut packet) in waiting.drain(..count).enumerate() {
            packet.meta_mut().queue = self.number;
            drop(burst.put(slot, packet));
        }
        self.received += count as u64;
        Ok(count)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        self.sorter.lock().inner.tx(pool, packets)
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.sorter.lock().inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        self.sorter.lock().inner.unsent()
    }

    fn advance(&mut self, now: Nanos) {
        self.sorter.lock().inner.advance(now);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.sorter.lock().inner.next_deadline()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        QueueStats { rx_packets: self.received, ..QueueStats::default() }
    }
}
