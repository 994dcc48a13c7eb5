//! A stream as the applications' side knows it: its queue, its frames, and events that are still to be
//! delivered.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weever_app_ring::{Filled, SentFrame, SentFrames};
use weever_net::demux::Binding;
use weever_net::stream::{StreamEvent, StreamId, StreamRequest};

use crate::channels::Channel;
use crate::passage::{Passage, Told};
use crate::pending::LastRequest;

/// The worker and the queue of a channel.
pub(crate) type Home = (u16, u32);

/// A frame of a stream, and the stream offset of its first octet.
pub(crate) struct Kept {
    pub(crate) start: u64,
    pub(crate) frame: SentFrame,
    pub(crate) home: Home,
}

pub(crate) struct Stream {
    /// The queue that it belongs to; 0 while it rests.
    pub(crate) queue: u32,
    /// Its number in the channel's entries.
    pub(crate) number: u32,
    /// The application has not closed it.
    pub(crate) open: bool,
    /// No octets to send follow.
    pub(crate) finished: bool,
    /// Frames with octets that are not acknowledged, in order.
    pub(crate) sent: VecDeque<Kept>,
    /// The stream offset behind the last octet to send.
    pub(crate) end: u64,
    /// The octets of frames, by the channel to which they belong.
    pub(crate) frames: Vec<(Home, SentFrames)>,
    /// Octets that were delivered and not consumed.
    pub(crate) unread: u64,
    /// The stream offset behind the octets that were delivered.
    pub(crate) delivered: u64,
    /// Urgent data of the peer's.
    pub(crate) urgent: Option<Urgent>,
    /// The frames in which octets are that were delivered and not consumed.
    pub(crate) filled: VecDeque<Filled>,
    /// Its own end and the peer's, once it is connected.
    pub(crate) ends: Option<(SocketAddr, SocketAddr)>,
    /// Its own port, unless the transport chooses it.
    pub(crate) port: u16,
    /// The events about its end that were delivered.
    pub(crate) finished_or_failed: Vec<StreamEvent>,
    /// Its listener's application has not accepted it.
    pub(crate) waits: Option<Box<Waits>>,
    /// Holders that may claim it, each with the number that it has there.
    pub(crate) holders: Vec<(u32, u32)>,
    /// Octets and events that came while it rested, until all are delivered to its queue.
    pub(crate) rest: Option<Box<Rest>>,
    /// Closing resets it, also when the application ends.
    pub(crate) resets: bool,
    /// It came from another worker, and its application has not changed over yet.
    pub(crate) passage: Option<Box<Passage>>,
    /// Its last among the pending requests.
    pub(crate) last_request: LastRequest,
}

/// Urgent data that the peer of a stream has announced.
#[derive(Clone, Copy)]
pub(crate) struct Urgent {
    /// The stream offset behind it.
    pub(crate) end: u64,
    /// The application knows of it.
    pub(crate) told: bool,
}

/// Octets and events that came to a stream while it rested, or were taken from its previous queue.
#[derive(Default)]
pub(crate) struct Rest {
    /// Octets that were not read.
    pub(crate) octets: VecDeque<u8>,
    /// The events that follow these octets.
    pub(crate) untold: VecDeque<Told>,
}

/// Listeners with one binding.
pub(crate) struct Group {
    /// The first member's number, by which the transport knows the group.
    pub(crate) id: StreamId,
    pub(crate) binding: Binding,
    pub(crate) members: Vec<Listener>,
    pub(crate) next: usize,
}

/// A listener of one queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) queue: u32,
    pub(crate) number: u32,
    /// Its application reports the connections that were accepted.
    pub(crate) accepts_each: bool,
    /// It gets connections; while no member does, connections wait.
    pub(crate) serves: bool,
    pub(crate) backlog: u32,
}

/// A connection that was not accepted.
pub(crate) struct Waits {
    /// The binding of its listener.
    pub(crate) binding: Binding,
    /// Its place in the order in which connections came.
    pub(crate) order: u64,
}

impl Stream {
    /// A stream without a queue.
    pub(crate) fn new(number: u32) -> Stream {
        Stream {
            queue: 0,
            number,
            open: true,
            finished: false,
            sent: VecDeque::new(),
            end: 0,
            frames: Vec::new(),
            unread: 0,
            delivered: 0,
            urgent: None,
            filled: VecDeque::new(),
            ends: None,
            port: 0,
            finished_or_failed: Vec::new(),
            waits: None,
            holders: Vec::new(),
            rest: None,
            resets: false,
            passage: None,
            last_request: LastRequest::default(),
        }
    }

    /// Whether it belongs to the queue of a channel.
    pub(crate) fn give_to(&mut self, worker: u16, channel: &Channel) {
        self.queue = channel.queue;
        self.may_send_by(worker, channel);
    }

    /// Octets to send may come by a channel.
    pub(crate) fn may_send_by(&mut self, worker: u16, channel: &Channel) {
        let home = (worker, channel.queue);
        if !self.frames.iter().any(|(there, _)| *there == home) {
            self.frames.push((home, channel.end.sent_frames()));
        }
    }

    /// Notes urgent data that the peer has announced; whether the application is to be told, and nothing that says so is
    /// on its way.
    pub(crate) fn note_urgent(&mut self, end: u64) -> bool {
        match self.urgent.replace(Urgent { end, told: false }) {
            Some(before) if before.end >= end => {
                self.urgent = Some(before);
                false
            }
            Some(before) => before.told,
            None => true,
        }
    }

    /// The application has read octets.
    pub(crate) fn note_consumed(&mut self, octets: u32) {
        self.unread -= u64::from(octets);
        let mut left = octets;
        while left > 0
            && let Some(first) = self.filled.front_mut()
        {
            let of_first = left.min(first.left.into());
            first.left -= of_first as u16;
            left -= of_first;
            if first.left == 0 {
                self.filled.pop_front();
            }
        }
    }

    /// Notes an event about its end that was delivered, for a process that gets the stream later.
    pub(crate) fn note_end(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Finished | StreamEvent::Failed(_) => self.finished_or_failed.push(event),
            StreamEvent::Connected { local, remote } => self.ends = Some((local, remote)),
            _ => {}
        }
    }
}

/// The request that closes a stream: as on Linux, a reset if the application has not read everything, or
/// wants that.
pub(crate) fn close(id: StreamId, stream: &Stream) -> StreamRequest {
    if stream.unread > 0 || stream.resets {
        StreamRequest::Abort { stream: id }
    } else {
        StreamRequest::Close { stream: id }
    }
}

/// Notes that a queue has no room.
pub(crate) fn note(short: &mut Vec<u32>, queue: u32) {
    if !short.contains(&queue) {
        short.push(queue);
    }
}
