//! Streams that several processes hold: each has one queue at a time, and goes to another's when that claims it.
//!
//! ```text
//!  queue A ── fork: Share ──► holder h ── Claim ──► queue B        what A has not consumed is taken out of
//!     ▲                                               │            its frames, and comes again by B's channel
//!     └────────────── Claim by A, a holder now ───────┘
//! ```
//!
//! A holder is a connection of the control socket that a process and its children inherit, or a queue that another has
//! claimed a stream of. A stream whose queue releases it, or is gone, *rests* while it has holders: octets stay in the
//! transport's window, and events wait. It is closed when it has no holder left.
//!
//! A claim is carried out once all entries are taken that the previous queue had published by then, so that
//! this process' writes come before those of the next one. Streams with several holders do not move between
//! workers.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weever_app_ring::{ChannelError, Kind, STREAMS, Transmit};
use weever_net::demux::Sharing;
use weever_net::stream::{StreamEvent, StreamId, StreamRequest};

use crate::channels::{Channel, Channels};
use crate::passage::{Action, Told};
use crate::request::Identity;
use crate::stream::{close, note};
use crate::streams::Streams;
use crate::telling::tell_urgent;

/// A connection that holds streams, or listeners.
pub(crate) struct HolderEntry {
    pub(crate) key: u64,
    /// The application that opened it.
    pub(crate) owner: Identity,
    pub(crate) listeners: Vec<HeldListener>,
}

/// A listener that is held.
#[derive(Clone, Copy)]
pub(crate) struct HeldListener {
    /// Its number at the queue that opened it.
    pub(crate) number: u32,
    /// The number of the holder's own, with which connections wait.
    pub(crate) socket: u32,
}

/// A listener whose connections may wait for other processes.
#[derive(Clone, Copy)]
pub(crate) struct LastingListener {
    pub(crate) backlog: u32,
    pub(crate) sharing: Sharing,
    pub(crate) user: u32,
    /// Whose the kernel's socket of its port is, if the application has one.
    pub(crate) own: Option<u32>,
}

/// A stream that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) stream: StreamId,
    pub(crate) worker: u16,
    pub(crate) ends: (SocketAddr, SocketAddr),
}

impl Streams {
    /// Another holder for the streams of one, or for the one with this number there.
    pub(crate) fn share(&mut self, from: u32, to: u32, only: Option<u32>) {
        for (&id, stream) in &mut self.open {
            let number = match stream.holders.iter().find(|(holder, _)| *holder == from) {
                Some((_, number)) => *number,
                None if stream.queue == from => stream.number,
                None => continue,
            };
            let wanted = only.is_none_or(|only| only == number);
            if wanted && stream.open && stream.waits.is_none() && stream.passage.is_none() {
                stream.holders.push((to, number));
                self.named.insert((to, number), id);
                self.holds += 1;
            }
        }
    }

    /// A holder has let go of the stream with this number, or of all.
    pub(crate) fn release(&mut self, holder: u32, only: Option<u32>) {
        if self.holds == 0 {
            return;
        }
        let of_holder = |(name, _): &(&(u32, u32), &StreamId)| {
            name.0 == holder && only.is_none_or(|only| only == name.1)
        };
        let all: Vec<_> = self.named.iter().filter(of_holder).map(|(_, id)| *id).collect();
        for id in all {
            let Some(stream) = self.open.get_mut(&id) else { continue };
            let Some(at) = stream.holders.iter().position(|(who, _)| *who == holder) else {
                continue;
            };
            let name = stream.holders.swap_remove(at);
            self.holds -= 1;
            self.named.remove(&name);
            if stream.queue == 0 && stream.holders.is_empty() && stream.open {
                self.close_resting(id, false);
            }
        }
    }

    /// Whether others hold a stream.
    pub(crate) fn is_held(&self, id: StreamId) -> bool {
        self.open.get(&id).is_some_and(|stream| !stream.holders.is_empty())
    }

    /// The queue of the stream that a holder has under this number; 0 while it rests.
    pub(crate) fn queue_of(&self, holder: u32, number: u32) -> Option<u32> {
        Some(self.open.get(self.named.get(&(holder, number))?)?.queue)
    }

    /// Takes a stream of a holder to a queue. The one that had it becomes a holder.
    pub(crate) fn claim(
        &mut self,
        (holder, number): (u32, u32),
        to: u32,
        channels: &mut Channels,
    ) -> Option<Claimed> {
        let id = *self.named.get(&(holder, number))?;
        let stream = self.open.get_mut(&id)?;
        let ends = stream.ends?;
        let at = stream.holders.iter().position(|(who, _)| *who == holder)?;
        channels.of(to)?;
        if stream.queue != to {
            let before = (stream.queue, stream.number);
            stream.holders.swap_remove(at);
            self.holds -= 1;
            self.named.remove(&(holder, number));
            if before.0 != 0 {
                self.let_go(id, channels.of(before.0));
                if let Some(stream) = self.open.get_mut(&id) {
                    stream.holders.push(before);
                }
                self.named.insert(before, id);
                self.holds += 1;
            }
            self.settle_on(id, to, channels);
        }
        Some(Claimed { stream: id, worker: self.worker, ends })
    }

    /// The application releases its stream.
    pub(crate) fn hand_back(
        &mut self,
        channel: &mut Channel,
        id: StreamId,
        transmit: &Transmit,
    ) -> Result<bool, ChannelError> {
        channel.end.complete()?;
        let unseen = transmit.kind == Kind::Released && transmit.len == 0;
        self.let_go(id, Some(channel));
        self.leave(id, unseen);
        Ok(true)
    }

    /// Decides about a stream that has no queue any more: it goes to another listener, rests, or is closed.
    /// One that no program has seen is reset.
    fn leave(&mut self, id: StreamId, unseen: bool) {
        match self.open.get(&id) {
            Some(stream) if stream.waits.is_some() => self.unplaced.push(id),
            Some(stream) if stream.holders.is_empty() => self.close_resting(id, unseen),
            _ => {}
        }
    }

    /// Takes a stream out of its queue, with what the application has not consumed.
    fn let_go(&mut self, id: StreamId, channel: Option<&mut Channel>) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        let mut rest = stream.rest.take().unwrap_or_default();
        let mut octets = VecDeque::new();
        if let Some(channel) = channel {
            stream.filled.iter().for_each(|filled| channel.end.read_back(filled, &mut octets));
        }
        stream.filled.clear();
        // These octets come again, and so does the place of urgent data.
        stream.delivered -= octets.len() as u64;
        let delivered = stream.delivered;
        stream.urgent.iter_mut().for_each(|urgent| urgent.told = urgent.end <= delivered);
        octets.append(&mut rest.octets);
        // The application had read the other octets, but not reported it.
        let read = stream.unread.saturating_sub(octets.len() as u64);
        stream.unread -= read;
        rest.octets = octets;
        if rest.untold.is_empty() {
            rest.untold.extend(stream.finished_or_failed.iter().map(|event| Told::Event(*event)));
        }
        let name = (stream.queue, stream.number);
        (stream.queue, stream.number) = (0, id);
        for _ in 0..self.untold.len() {
            match self.untold.pop_front() {
                Some((of, what)) if of == id => {
                    if matches!(what, Told::Event(StreamEvent::Closed)) {
                        rest.untold.push_back(what);
                    }
                }
                other => self.untold.extend(other),
            }
        }
        stream.rest = Some(rest);
        if read > 0 {
            let request = StreamRequest::Consumed { stream: id, octets: read as u32 };
            self.requests.push_of(&mut stream.last_request, request);
        }
        if name.1 < STREAMS {
            self.named.remove(&name);
        }
        self.released.push_back(name);
    }

    /// Gives a stream that rests to a queue.
    pub(crate) fn settle_on(&mut self, id: StreamId, queue: u32, channels: &mut Channels) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        (stream.queue, stream.number) = (queue, id);
        if let Some(channel) = channels.of(queue) {
            stream.may_send_by(self.worker, channel);
        }
        self.resting.push(id);
        self.wake_resting(channels);
    }

    /// Delivers octets and events that came while streams rested to their queues, as far as there
    /// is room.
    pub(crate) fn wake_resting(&mut self, channels: &mut Channels) {
        for id in std::mem::take(&mut self.resting) {
            let Some(stream) = self.open.get_mut(&id) else { continue };
            let queue = stream.queue;
            let Some((channel, rest)) = channels.of(queue).zip(stream.rest.as_mut()) else {
                continue;
            };
            if !tell_urgent(stream.number, stream.delivered, &mut stream.urgent, channel) {
                note(&mut self.short, queue);
                self.resting.push(id);
                continue;
            }
            let octets = rest.octets.make_contiguous();
            match channel.end.deliver_stream(stream.number, octets, &mut stream.filled) {
                Ok(done) => {
                    rest.octets.drain(..done);
                    stream.delivered += done as u64;
                }
                Err(_) => channel.broken = true,
            }
            channel.dirty = true;
            if rest.octets.is_empty() {
                let untold = stream.rest.take().into_iter().flat_map(|rest| rest.untold);
                self.untold.extend(untold.map(|what| (id, what)));
                self.freed = true;
            } else {
                note(&mut self.short, queue);
                self.resting.push(id);
            }
        }
        self.unplaced.append(&mut self.stuck);
    }

    /// Takes an entry of an application about a stream that it holds, but that is on another queue. Octets that it
    /// writes are dropped; a close ends the hold.
    pub(crate) fn take_of_holder(
        &mut self,
        channel: &mut Channel,
        transmit: &Transmit,
    ) -> Result<bool, ChannelError> {
        let (queue, number) = (channel.queue, transmit.socket);
        let held = self.named.get(&(queue, number)).copied().filter(|_| self.holds > 0);
        let kept =
            if transmit.kind == Kind::Stream && held.is_some() { channel.end.keep() } else { None };
        channel.end.complete()?;
        let Some(id) = held else { return Ok(false) };
        Ok(match (transmit.kind, kept) {
            (Kind::Stream, Some(frame)) => {
                if let Some(stream) = self.open.get_mut(&id) {
                    stream.may_send_by(self.worker, channel);
                }
                self.apply(id, (self.worker, queue), Action::Octets(frame))
            }
            (Kind::Closed | Kind::Abort | Kind::Released, _) => {
                self.release(queue, Some(number));
                true
            }
            // It had read octets before it knew that the stream is on another queue.
            (Kind::Consumed, _) => true,
            _ => false,
        })
    }

    /// The application of a queue is gone: as on Linux, its streams are closed, and reset if it had
    /// not read everything. Those that others hold stay, and those that it has not accepted go to other listeners.
    pub(crate) fn abandon(&mut self, queue: u32, channels: &mut Channels) {
        let mut kept = Vec::new();
        for (&id, there) in self.open.iter_mut().filter(|(_, s)| s.queue == queue && s.open) {
            if there.waits.is_some() || !there.holders.is_empty() {
                kept.push(id);
                continue;
            }
            there.open = false;
            if !there.close_later() {
                let request = close(id, there);
                self.requests.push_of(&mut there.last_request, request);
            }
        }
        for id in kept {
            self.let_go(id, channels.of(queue));
            self.leave(id, false);
        }
        self.release(queue, None);
        self.abandon_relays(queue);
        self.named.retain(|(owner, _), _| *owner != queue);
    }
}
