//! Streams at one worker: between the channels' entries and the transport's [`StreamPort`].
//!
//! ```text
//!  entry (queue, number) ─► Stream: kept frames by offset ─► requests ─► StreamPort::next_request
//!  entries to the application ◄─ deliver, accept, tell ◄──────────────── StreamPort
//! ```
//!
//! The transport names streams by numbers of this worker; an application names those that it
//! connects by numbers of its own. A stream outlives its application until the transport says that
//! it is closed: its frames stay mapped as long.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use atomic_refcell::AtomicRefCell;
use weever_app_ring::{
    ChannelError, Kind, NumberMap, PacketInfo, STREAMS, SentFrame, SentFrames, Transmit,
};
use weever_net::demux::Binding;
use weever_net::stream::{StreamEvent, StreamId, StreamOption, StreamPort, StreamRequest};

use crate::channels::{Channel, Channels};

/// Numbers of a worker's streams, below the worker's own and the highest bit.
const NUMBERS: u32 = 1 << 24;
/// `ENOBUFS`, for a stream beyond the limit.
const NO_ROOM: u16 = 105;

/// A frame of a stream, and the stream offset of its first octet.
struct Kept {
    start: u64,
    frame: SentFrame,
}

struct Stream {
    queue: u32,
    /// Its number in the channel's entries.
    number: u32,
    /// The application has not closed it.
    open: bool,
    /// No octets to send follow.
    finished: bool,
    /// Frames with octets that are not acknowledged, in order.
    sent: VecDeque<Kept>,
    /// The stream offset behind the last octet to send.
    end: u64,
    frames: SentFrames,
    /// Octets that were delivered and not consumed.
    unread: u64,
}

/// Listeners with one binding: connections go to them in turn.
struct Group {
    /// The first member's number, by which the transport knows the group.
    id: StreamId,
    binding: Binding,
    /// Queue and number of each.
    members: Vec<(u32, u32)>,
    next: usize,
}

/// The streams of one worker.
pub(crate) struct Streams {
    worker: u16,
    next: u32,
    most: usize,
    open: NumberMap<Stream>,
    /// Streams by the queue and the number that its application chose.
    named: HashMap<(u32, u32), StreamId>,
    groups: Vec<Group>,
    requests: VecDeque<StreamRequest>,
    /// Events that the channels had no room for, in order.
    untold: VecDeque<(StreamId, StreamEvent)>,
    /// Queues that had no room for octets or connections.
    short: Vec<u32>,
}

/// Channels and streams of one worker, for its queue of the link and its transport.
pub(crate) struct Ends {
    pub(crate) channels: Channels,
    pub(crate) streams: Streams,
}

pub(crate) type SharedEnds = Arc<AtomicRefCell<Ends>>;

impl Streams {
    pub(crate) fn new(worker: u16, most: usize) -> Streams {
        Streams {
            worker,
            next: 0,
            most,
            open: NumberMap::default(),
            named: HashMap::new(),
            groups: Vec::new(),
            requests: VecDeque::new(),
            untold: VecDeque::new(),
            short: Vec::new(),
        }
    }

    /// Whether the transport has something to do: requests, or room where there was none.
    pub(crate) fn is_wanted(&mut self, channels: &mut Channels) -> bool {
        let mut freed = false;
        self.short.retain(|queue| {
            let waits = channels.of(*queue).is_some_and(|channel| !channel.end.has_room());
            freed |= !waits;
            waits
        });
        freed || !self.requests.is_empty()
    }

    /// Whether nothing has to be done before an application does something.
    pub(crate) fn may_sleep(&self) -> bool {
        self.requests.is_empty() && self.untold.is_empty()
    }

    pub(crate) fn listen(&mut self, queue: u32, listener: u32, binding: Binding, backlog: u32) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.binding == binding) {
            group.members.push((queue, listener));
            return;
        }
        let members = vec![(queue, listener)];
        self.groups.push(Group { id: listener, binding, members, next: 0 });
        self.requests.push_back(StreamRequest::Listen { listener, binding, backlog });
    }

    pub(crate) fn stop_listening(&mut self, listener: u32) {
        let requests = &mut self.requests;
        self.groups.retain_mut(|group| {
            group.members.retain(|(_, member)| *member != listener);
            if group.members.is_empty() {
                requests.push_back(StreamRequest::StopListening { listener: group.id });
            }
            !group.members.is_empty()
        });
    }

    /// The application of a queue is gone: as on Linux, its streams are closed, and reset if it had
    /// not read everything.
    pub(crate) fn abandon(&mut self, queue: u32) {
        for (&stream, there) in self.open.iter_mut().filter(|(_, s)| s.queue == queue && s.open) {
            there.open = false;
            let unread = there.unread > 0;
            let (close, abort) = (StreamRequest::Close { stream }, StreamRequest::Abort { stream });
            self.requests.push_back(if unread { abort } else { close });
        }
        self.named.retain(|(owner, _), _| *owner != queue);
    }

    fn new_id(&mut self) -> StreamId {
        loop {
            self.next = (self.next + 1) % NUMBERS;
            let id = STREAMS | u32::from(self.worker) << 24 | self.next;
            if !self.open.contains_key(&id) {
                return id;
            }
        }
    }

    fn add(&mut self, id: StreamId, number: u32, channel: &Channel) {
        let frames = channel.end.sent_frames();
        let stream = Stream {
            queue: channel.queue,
            number,
            open: true,
            finished: false,
            sent: VecDeque::new(),
            end: 0,
            frames,
            unread: 0,
        };
        self.open.insert(id, stream);
    }

    /// The open stream that an entry of a channel names.
    fn find(&mut self, queue: u32, number: u32) -> Option<(StreamId, &mut Stream)> {
        let id = if number < STREAMS { *self.named.get(&(queue, number))? } else { number };
        let stream = self.open.get_mut(&id)?;
        let is_its = stream.queue == queue && stream.number == number && stream.open;
        is_its.then_some((id, stream))
    }

    /// Takes an entry that concerns a stream; false when it names none, or makes no sense.
    pub(crate) fn take(
        &mut self,
        channel: &mut Channel,
        transmit: &Transmit,
    ) -> Result<bool, ChannelError> {
        if transmit.kind == Kind::Connected {
            channel.end.complete()?;
            return self.connect(channel, transmit);
        }
        let queue = channel.queue;
        let Some((id, stream)) = self.find(queue, transmit.socket) else {
            channel.end.complete()?;
            return Ok(false);
        };
        let value = transmit.len as u32;
        let request = match transmit.kind {
            Kind::Stream if stream.finished => None,
            Kind::Stream => channel.end.keep().map(|frame| {
                let octets = frame.len() as u32;
                stream.sent.push_back(Kept { start: stream.end, frame });
                stream.end += u64::from(octets);
                StreamRequest::Send { stream: id, octets }
            }),
            Kind::Consumed if u64::from(value) <= stream.unread => {
                stream.unread -= u64::from(value);
                Some(StreamRequest::Consumed { stream: id, octets: value })
            }
            Kind::Finished => {
                stream.finished = true;
                Some(StreamRequest::Finish { stream: id })
            }
            Kind::Option => StreamOption::from_word(value)
                .map(|option| StreamRequest::Set { stream: id, option }),
            Kind::Closed | Kind::Abort => {
                (stream.open, stream.finished) = (false, true);
                self.named.remove(&(queue, transmit.socket));
                Some(match transmit.kind {
                    Kind::Closed => StreamRequest::Close { stream: id },
                    _ => StreamRequest::Abort { stream: id },
                })
            }
            _ => None,
        };
        channel.end.complete()?;
        let sensible = request.is_some();
        self.requests.extend(request);
        Ok(sensible)
    }

    fn connect(
        &mut self,
        channel: &mut Channel,
        transmit: &Transmit,
    ) -> Result<bool, ChannelError> {
        let number = transmit.socket;
        let name = (channel.queue, number);
        if number == 0 || number >= STREAMS || self.named.contains_key(&name) {
            return Ok(false);
        }
        let id = self.new_id();
        self.add(id, number, channel);
        self.named.insert(name, id);
        if self.open.len() > self.most {
            self.untold.push_back((id, StreamEvent::Failed(NO_ROOM)));
            self.untold.push_back((id, StreamEvent::Closed));
        } else {
            let PacketInfo { local, remote, .. } = transmit.info;
            self.requests.push_back(StreamRequest::Connect { stream: id, local, remote });
        }
        Ok(true)
    }

    /// Tells applications of events as far as there is room, each channel's in order.
    pub(crate) fn tell_untold(&mut self, channels: &mut Channels) {
        let mut full: Vec<u32> = Vec::new();
        for _ in 0..self.untold.len() {
            let Some((id, event)) = self.untold.pop_front() else { break };
            let Some(stream) = self.open.get(&id) else { continue };
            let queue = stream.queue;
            let told = !full.contains(&queue) && tell(stream, event, channels);
            if !told {
                full.push(queue);
                self.untold.push_back((id, event));
            } else if event == StreamEvent::Closed {
                self.forget(id, channels);
            }
        }
    }

    fn forget(&mut self, id: StreamId, channels: &mut Channels) {
        let Some(stream) = self.open.remove(&id) else { return };
        if stream.open {
            self.named.remove(&(stream.queue, stream.number));
        }
        give_back(stream.queue, stream.sent, channels);
    }
}

/// Writes an event into the ring of a stream's channel; false when there is no room. Done once the
/// application is gone or has closed the stream.
fn tell(stream: &Stream, event: StreamEvent, channels: &mut Channels) -> bool {
    let Some(channel) = channels.of(stream.queue).filter(|_| stream.open) else { return true };
    let number = stream.number;
    let plain = |kind, value| (kind, (value, 0));
    let (kind, value) = match event {
        StreamEvent::Connected { local, remote } => {
            let ends = PacketInfo { local, remote, ..PacketInfo::default() };
            let told = channel.end.connected(number, number, &ends);
            channel.dirty = true;
            channel.broken |= told.is_err();
            return told.unwrap_or(true);
        }
        StreamEvent::Finished => plain(Kind::Finished, 0),
        StreamEvent::Failed(errno) => plain(Kind::Error, errno),
        _ => plain(Kind::Closed, 0),
    };
    let told = channel.end.notify(number, kind, value, None);
    channel.dirty = true;
    channel.broken |= told.is_err();
    told.is_ok_and(|told| told == weever_app_ring::Delivery::Delivered) || channel.broken
}

fn give_back(queue: u32, frames: impl IntoIterator<Item = Kept>, channels: &mut Channels) {
    let Some(channel) = channels.of(queue) else { return };
    for Kept { frame, .. } in frames {
        channel.broken |= channel.end.give_back(frame).is_err();
    }
    channel.dirty = true;
}

/// The port of one worker's transport.
pub(crate) struct Port(pub(crate) SharedEnds);

impl StreamPort for Port {
    fn next_request(&self) -> Option<StreamRequest> {
        self.0.borrow_mut().streams.requests.pop_front()
    }

    fn accept(
        &self,
        listener: StreamId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<StreamId> {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        if streams.open.len() >= streams.most {
            return None;
        }
        let id = streams.new_id();
        let ends = PacketInfo { local, remote, ..PacketInfo::default() };
        let group = streams.groups.iter_mut().find(|group| group.id == listener)?;
        for _ in 0..group.members.len() {
            group.next = (group.next + 1) % group.members.len();
            let (queue, member) = group.members[group.next];
            let Some(channel) = channels.of(queue) else { continue };
            match channel.end.connected(id, member, &ends) {
                Ok(true) => {
                    channel.dirty = true;
                    streams.add(id, id, channel);
                    return Some(id);
                }
                Ok(false) => note(&mut streams.short, queue),
                Err(_) => channel.broken = true,
            }
        }
        None
    }

    fn deliver(&self, stream: StreamId, octets: &[u8]) -> usize {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        let Some(there) = streams.open.get_mut(&stream).filter(|stream| stream.open) else {
            return octets.len();
        };
        let Some(channel) = channels.of(there.queue) else { return octets.len() };
        match channel.end.deliver_stream(there.number, octets) {
            Ok(done) => {
                channel.dirty |= done > 0;
                there.unread += done as u64;
                if done < octets.len() {
                    note(&mut streams.short, there.queue);
                }
                done
            }
            Err(_) => {
                channel.broken = true;
                octets.len()
            }
        }
    }

    fn read_sent(&self, stream: StreamId, offset: u64, out: &mut [u8]) -> usize {
        let ends = self.0.borrow();
        let Some(stream) = ends.streams.open.get(&stream) else { return 0 };
        let first = stream.sent.partition_point(|kept| kept.start <= offset);
        let mut done = 0;
        for kept in stream.sent.iter().skip(first.saturating_sub(1)) {
            let skip = (offset + done as u64).saturating_sub(kept.start);
            let Ok(skip) = usize::try_from(skip) else { break };
            done += stream.frames.read(&kept.frame, skip, &mut out[done..]);
            if done == out.len() {
                break;
            }
        }
        done
    }

    fn acknowledged(&self, stream: StreamId, offset: u64) {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        let Some(stream) = streams.open.get_mut(&stream) else { return };
        let whole = |kept: &Kept| kept.start + kept.frame.len() as u64 <= offset;
        let count = stream.sent.iter().take_while(|kept| whole(kept)).count();
        give_back(stream.queue, stream.sent.drain(..count), channels);
    }

    fn tell(&self, stream: StreamId, event: StreamEvent) {
        let Ends { channels, streams } = &mut *self.0.borrow_mut();
        streams.untold.push_back((stream, event));
        streams.tell_untold(channels);
    }
}

fn note(short: &mut Vec<u32>, queue: u32) {
    if !short.contains(&queue) {
        short.push(queue);
    }
}
