//! Observing the packets of a link: a middleware that shows each packet to an observer.
//!
//! An observer may print a line ([`Event::line`]), write a capture file
//! ([`Recorder`](crate::pcap::Recorder)), or count in a test. It is called under a lock and may be
//! slow, so this is for simulations, tests and looking for a fault; on the packet path of a running
//! stack, captures are taken elsewhere.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use weever_packet::{BURST, Buffer, Burst, Nanos, Pool, PoolCache};

use crate::pcap::Direction;
use crate::{FrameNeed, Frames, Link, LinkError, LinkInfo, LinkQueue, QueueStats};

/// A packet on its way past.
#[derive(Debug)]
pub struct Event<'a> {
    /// The link's name.
    pub link: &'a str,
    /// The queue it passes.
    pub queue: u16,
    /// Received or sent; never unknown.
    pub direction: Direction,
    /// The queue's time.
    pub now: Nanos,
    /// The packet.
    pub packet: &'a Buffer,
}

impl Event<'_> {
    /// One line for people: time in seconds, link and queue, direction, length, and the frame as
    /// `describe` puts it. This crate knows no protocol.
    pub fn line(&self, describe: impl FnOnce(&[u8]) -> String) -> String {
        let (seconds, rest) = (self.now / 1_000_000_000, self.now % 1_000_000_000);
        let arrow = if self.direction == Direction::Inbound { "<" } else { ">" };
        let Event { link, queue, packet, .. } = self;
        let description = describe(packet.data());
        format!("{seconds}.{rest:09} {link}/{queue} {arrow} {} B {description}", packet.len())
    }
}

/// An observer of packets.
pub trait Observe: Send {
    /// Looks at packets that pass a queue together.
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>);
}

impl<F: FnMut(&Event<'_>) + Send> Observe for F {
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        burst.for_each(|event| self(&event));
    }
}

/// An observer for several queues or links. It is locked once for each burst.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<dyn Observe>>);

impl Shared {
    /// Shares an observer.
    pub fn new(observer: impl FnMut(&Event<'_>) + Send + 'static) -> Shared {
        Shared(Arc::new(Mutex::new(observer)))
    }

    /// Shares an observer that the caller keeps a handle to.
    pub fn of(observer: Arc<Mutex<impl Observe + 'static>>) -> Shared {
        Shared(observer)
    }

    fn see(&self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        // An observer that panicked once is called again: its state is its own business.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).see(burst);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared(observer)")
    }
}

/// A link whose packets are shown to an observer: received ones when they are handed out, sent
/// ones in the order in which they go to the wrapped link. Otherwise it is the wrapped link.
pub struct TracedLink {
    inner: Box<dyn Link>,
    info: LinkInfo,
    observer: Shared,
}

impl TracedLink {
    /// Wraps a link whose queues have not been taken.
    pub fn new(inner: Box<dyn Link>, observer: Shared) -> TracedLink {
        let mut info = inner.info().clone();
        info.mode = format!("{}, traced", info.mode);
        TracedLink { inner, info, observer }
    }
}

impl Link for TracedLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        let wrap = |(index, inner): (usize, Box<dyn LinkQueue>)| {
            let (link, observer) = (self.info.name.clone(), self.observer.clone());
            Box::new(TracedQueue::new(inner, link, index as u16, observer)) as Box<dyn LinkQueue>
        };
        self.inner.take_queues().into_iter().enumerate().map(wrap).collect()
    }
}

/// A queue whose packets are shown to an observer.
pub struct TracedQueue {
    inner: Box<dyn LinkQueue>,
    link: String,
    queue: u16,
    now: Nanos,
    observer: Shared,
    /// PredicateText, and not yet taken by the wrapped queue: a packet is shown once.
    shown: VecDeque<Buffer>,
}

impl TracedQueue {
    /// Wraps a queue of a link.
    pub fn new(
        inner: Box<dyn LinkQueue>,
        link: String,
        queue: u16,
        observer: Shared,
    ) -> TracedQueue {
        let shown = VecDeque::with_capacity(BURST);
        TracedQueue { inner, link, queue, now: 0, observer, shown }
    }

    fn show<'b>(&'b self, direction: Direction, packets: impl Iterator<Item = &'b Buffer>) {
        let (link, queue, now) = (self.link.as_str(), self.queue, self.now);
        let event = |packet| Event { link, queue, direction, now, packet };
        self.observer.see(&mut packets.map(event));
    }
}

impl LinkQueue for TracedQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let n = self.inner.rx(pool, burst, max)?;
        if n > 0 {
            let burst = &*burst;
            self.show(Direction::Inbound, (0..n).filter_map(|slot| burst.get(slot)));
        }
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let before = packets.len();
        loop {
            self.inner.tx(pool, &mut self.shown)?;
            if !self.shown.is_empty() || packets.is_empty() {
                return Ok(before - packets.len());
            }
            self.shown.extend(packets.drain(..packets.len().min(BURST)));
            self.show(Direction::Outbound, self.shown.iter());
        }
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.inner.tx(pool, &mut self.shown)?;
        self.inner.flush(pool)
    }

    fn pool(&self) -> Option<&Pool> {
        self.inner.pool()
    }

    fn frame_need(&self) -> FrameNeed {
        self.inner.frame_need()
    }

    fn limit_frames(&mut self, most: Frames) {
        self.inner.limit_frames(most);
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn unsent(&self) -> bool {
        !self.shown.is_empty() || self.inner.unsent()
    }

    fn keeps_order(&self) -> bool {
        self.inner.keeps_order()
    }

    fn has_turn(&self) -> bool {
        self.inner.has_turn()
    }

    fn may_send(&mut self) -> bool {
        self.inner.may_send()
    }

    fn sent(&mut self) {
        self.inner.sent();
    }

    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.inner.advance(now);
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.inner.prepare_to_sleep()
    }

    fn end_sleep(&mut self) {
        self.inner.end_sleep();
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.inner.next_deadline()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests;
