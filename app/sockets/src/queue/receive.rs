//! What arrives is taken off the rings.

use weever_app_ring::{Kind, Received};

use super::AppQueue;
use crate::buffer::{Part, Parts, RxBuf};
use crate::error::Error;
use crate::events::{Event, Events, Look};

impl AppQueue {
    /// The next thing that happened, channel by channel in the order of arrival; `None` when there
    /// is nothing more now. Does not block.
    ///
    /// # Errors
    /// [`Error::Channel`]: the queue is of no more use. [`Error::Disconnected`] by a stack in this
    /// process that has failed.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and ends for now, not for good")]
    #[inline]
    pub fn next(&self) -> Result<Option<Event<'_>>, Error> {
        if let Some(event) = self.take_next()? {
            return Ok(Some(event));
        }
        if self.backend.borrow_mut().work()? { self.take_next() } else { Ok(None) }
    }

    /// As [`next`](Self::next), in bounded time: it takes one entry off the rings, or has a stack in
    /// this thread turn once.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn look(&self) -> Result<Look<'_>, Error> {
        let count = self.channels.len();
        for _ in 0..count {
            let current = self.current.get();
            let received = self.channels[current].end.borrow_mut().receive()?;
            if let Some(received) = received {
                let event = self.event(current as u16, received)?;
                return Ok(event.map_or(Look::Worked, Look::Event));
            }
            self.current.set(if current + 1 < count { current + 1 } else { 0 });
        }
        Ok(if self.backend.borrow_mut().work()? { Look::Worked } else { Look::Nothing })
    }

    /// Takes everything that has happened, as far as there is room in `events`, which is cleared
    /// before. Returns how much it was. Does not block.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn poll<'q>(&'q self, events: &mut Events<'q>) -> Result<usize, Error> {
        events.clear();
        self.fill(events)?;
        if events.is_empty() && self.backend.borrow_mut().work()? {
            self.fill(events)?;
        }
        Ok(events.len())
    }

    fn fill<'q>(&'q self, events: &mut Events<'q>) -> Result<(), Error> {
        while !events.is_full() {
            let Some(event) = self.take_next()? else { break };
            let table = self.table.borrow();
            if let Some(entry) = table.get(event.socket()) {
                events.push(event, &entry.ready);
            }
        }
        Ok(())
    }

    fn take_next(&self) -> Result<Option<Event<'_>>, Error> {
        let count = self.channels.len();
        let mut current = self.current.get();
        for _ in 0..count {
            loop {
                let received = self.channels[current].end.borrow_mut().receive()?;
                let Some(received) = received else { break };
                if let Some(event) = self.event(current as u16, received)? {
                    self.current.set(current);
                    return Ok(Some(event));
                }
            }
            current = if current + 1 < count { current + 1 } else { 0 };
        }
        self.current.set(current);
        Ok(None)
    }

    /// Nothing when it concerns a socket that is closed here.
    fn event(&self, channel: u16, received: Received) -> Result<Option<Event<'_>>, Error> {
        let (number, kind, errno) = (received.socket, received.kind, received.offset);
        let parts = match kind {
            Kind::Data => Some(self.gather(channel, received)?),
            _ => {
                self.release(channel, received.frame);
                None
            }
        };
        let table = self.table.borrow();
        let Some((socket, entry)) = table.by_number(number) else {
            let parts = parts.into_iter().flat_map(|p| std::iter::once(p.first).chain(p.more));
            self.release(channel, parts.map(|part| part.frame));
            return Ok(None);
        };
        Ok(Some(match (parts, kind) {
            (Some(parts), _) => {
                entry.home.set(channel);
                Event::Datagram(RxBuf { queue: self, socket, channel, parts: Some(parts) })
            }
            (None, Kind::Closed) => Event::Closed(socket),
            _ => Event::Error(socket, errno),
        }))
    }

    /// Gathers the frames of one datagram.
    fn gather(&self, channel: u16, first: Received) -> Result<Parts, Error> {
        let broken = || Error::Protocol("a datagram without all of its frames".into());
        let part = |received: Received| {
            let Received { frame, offset, len, .. } = received;
            frame.map(|frame| Part { frame, offset, len }).ok_or_else(broken)
        };
        let mut left = first.more;
        let mut parts = Parts { first: part(first)?, more: Vec::new() };
        while left > 0 {
            let received = self.channels[usize::from(channel)].end.borrow_mut().receive()?;
            let received = received.ok_or_else(broken)?;
            left = received.more;
            parts.more.push(part(received)?);
        }
        Ok(parts)
    }
}
