//! The applications' channels at one worker.

use std::os::fd::OwnedFd;

use weever_app_ring::{NumberMap, StackEnd};
use weever_packet::Exchange;

/// An application queue's channel at this worker.
pub(crate) struct Channel {
    pub(crate) queue: u32,
    pub(crate) end: StackEnd,
    /// The application's frames are those of packets, if there is one.
    pub(crate) exchange: Option<Exchange>,
    wake: OwnedFd,
    /// Turns since the application sent something.
    pub(crate) idle: u32,
    /// Deliveries or completions wait to be published.
    pub(crate) dirty: bool,
    /// The application broke the protocol; its queue is waiting to be closed.
    pub(crate) broken: bool,
}

impl Channel {
    /// Whether something was delivered. Then an answer may come soon: it is looked for in each turn again.
    #[inline]
    pub(crate) fn note_delivery(&mut self, delivered: bool) {
        if delivered {
            (self.dirty, self.idle) = (true, 0);
        }
    }
}

/// All channels, by place and by queue.
#[derive(Default)]
pub(crate) struct Channels {
    all: Vec<Channel>,
    place_of: NumberMap<usize>,
}

impl Channels {
    pub(crate) fn add(
        &mut self,
        queue: u32,
        (end, exchange): (StackEnd, Option<Exchange>),
        wake: OwnedFd,
    ) {
        self.place_of.insert(queue, self.all.len());
        let (idle, dirty, broken) = (0, false, false);
        self.all.push(Channel { queue, end, exchange, wake, idle, dirty, broken });
    }

    pub(crate) fn remove(&mut self, queue: u32) {
        let Some(place) = self.place_of.remove(&queue) else { return };
        self.all.swap_remove(place);
        if let Some(moved) = self.all.get(place) {
            self.place_of.insert(moved.queue, place);
        }
    }

    /// The channel of a queue, unless it is broken.
    #[inline]
    pub(crate) fn of(&mut self, queue: u32) -> Option<&mut Channel> {
        let place = *self.place_of.get(&queue)?;
        self.all.get_mut(place).filter(|channel| !channel.broken)
    }

    pub(crate) fn all(&mut self) -> &mut [Channel] {
        &mut self.all
    }

    /// Makes deliveries and completions visible, and wakes applications that sleep.
    pub(crate) fn publish(&mut self) {
        for channel in &mut self.all {
            if std::mem::take(&mut channel.dirty) && channel.end.publish() {
                // The only way to fail is a full counter: then it is readable already.
                let _ = rustix::io::write(&channel.wake, &1u64.to_ne_bytes());
            }
        }
    }
}
