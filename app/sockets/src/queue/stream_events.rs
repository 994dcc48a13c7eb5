//! The events of streams and listeners: those that the rings bring, and those that the library
//! finds out by itself.

use weever_app_ring::{Kind, Received, STREAMS};

use super::AppQueue;
use crate::error::Error;
use crate::events::Event;
use crate::info::StreamInfo;
use crate::octets::StreamBuf;
use crate::stream::{Found, Listener, Stream, TcpStream};

impl AppQueue {
    /// The next event that the library finds out by itself.
    pub(super) fn next_found(&self) -> Option<Event<'_>> {
        if self.streams.borrow().is_empty() {
            return None;
        }
        self.note_returned();
        Some(match self.streams.borrow_mut().found.pop_front()? {
            Found::Writable(stream) => Event::Writable(stream),
            Found::Failed(stream, errno) => Event::StreamFailed(stream, errno),
        })
    }

    /// Takes back frames, and notes those of streams.
    pub(super) fn reap(&self) -> Result<(), Error> {
        for channel in &self.channels {
            channel.end.borrow_mut().reap()?;
        }
        self.note_returned();
        Ok(())
    }

    /// Notes the frames that have come back.
    fn note_returned(&self) {
        for channel in &self.channels {
            let mut end = channel.end.borrow_mut();
            if !end.has_returned() {
                continue;
            }
            let mut streams = self.streams.borrow_mut();
            let limit = self.most_unacknowledged();
            while let Some(returned) = end.next_returned() {
                streams.returned(returned, limit);
            }
        }
    }

    /// The event of an entry that concerns a stream or a listener; `None` when the program has
    /// closed that.
    pub(super) fn stream_event(&self, channel: u16, received: Received) -> Option<Event<'_>> {
        let mut streams = self.streams.borrow_mut();
        let Received { socket: number, kind, .. } = received;
        if kind == Kind::Connected {
            drop(streams);
            return self.stream_connected(channel, received);
        }
        let value = received.value();
        let Received { frame, offset, len, .. } = received;
        let Some(stream) = streams.handle(number) else {
            match (kind, streams.passing.get_mut(&number)) {
                (Kind::Stream, Some(frames)) => frames.extend(frame),
                (Kind::Released | Kind::Closed, Some(_)) => {
                    let frames = streams.passing.remove(&number);
                    self.release(channel, frames.into_iter().flatten());
                }
                _ => self.release(channel, frame),
            }
            return None;
        };
        Some(match kind {
            Kind::Stream => {
                streams.get(stream).ok()?.held += u32::from(len);
                let (queue, range) = (self, (offset, len));
                Event::Octets(StreamBuf { queue, stream, channel, frame, range })
            }
            Kind::Info => {
                let frame = frame?;
                let info = StreamInfo::of(self.frames_of(channel).bytes(&frame, offset, len));
                self.release(channel, Some(frame));
                Event::Info(stream, info)
            }
            Kind::Moved => {
                let to = offset.min(self.channels.len() as u16 - 1);
                streams.change_over(number, (channel, to));
                self.mark_moves(&mut streams);
                return None;
            }
            Kind::Urgent => Event::Urgent(stream, value.cast_signed()),
            Kind::Finished => Event::Finished(stream),
            Kind::Error => Event::StreamFailed(stream, offset),
            Kind::Released => {
                streams.open.remove(&number);
                Event::Released(stream)
            }
            Kind::Closed => {
                streams.open.remove(&number);
                Event::StreamClosed(stream)
            }
            _ => return None,
        })
    }

    /// A connection is established, of a listener or by `connect`.
    fn stream_connected(&self, channel: u16, received: Received) -> Option<Event<'_>> {
        let mut streams = self.streams.borrow_mut();
        let Received { socket: number, frame, offset, len, .. } = received;
        let frame = frame?;
        let frames = self.frames_of(channel);
        let asked_as = frames.bytes(&frame, offset, len).first_chunk().copied();
        let asked_as = u32::from_ne_bytes(asked_as.unwrap_or_default());
        let info = frames.info(&frame);
        self.release(channel, Some(frame));
        let listener = streams.listeners.get(&asked_as).map(|listener| listener.handle);
        let stream = match listener {
            Some(_) => streams.add(number, channel),
            None if number >= STREAMS && streams.handle(number).is_none() => {
                // Its listener was closed while it was on its way; another may have it.
                let mut end = self.channels[usize::from(channel)].end.borrow_mut();
                let _full_or_broken = end.request(Kind::Released, number, 0);
                streams.passing.insert(number, Vec::new());
                return None;
            }
            None => streams.handle(number)?,
        };
        streams.get(stream).ok()?.ends = Some((info.local, info.remote));
        Some(match listener {
            Some(listener) => Event::Accepted(listener, stream),
            None => Event::Connected(stream),
        })
    }

    /// After the stack has ended: streams have failed, and listeners have to be opened anew.
    pub(super) fn forget_streams(&mut self) -> Vec<Listener> {
        let streams = self.streams.get_mut();
        streams.readers.clear();
        // Their channel is gone.
        streams.passing.clear();
        for (number, Stream { generation, .. }) in streams.open.drain() {
            streams.found.push_back(Found::Failed(TcpStream { number, generation }, RESET));
        }
        streams.listeners.drain().map(|(_, listener)| listener).collect()
    }
}

/// `ECONNRESET`.
const RESET: u16 = 104;
