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
use std::sync::Arc;
use std::sync::mpsc::Sender;

use atomic_refcell::AtomicRefCell;
use weever_app_ring::{
    ChannelError, Delivery, Kind, NumberMap, PacketInfo, STREAMS, SentFrame, SentFrames,
    StreamOption, Transmit,
};
use weever_net::demux::Binding;
use weever_net::stream::{StreamEvent, StreamId, StreamRequest};

use crate::channels::{Channel, Channels};
use crate::passage::{Action, Passage, Peer, Relay, Told};
use crate::pending::{LastRequest, Pending};
use crate::request::Connections;

/// Numbers of a worker's streams, below the worker's own and the highest bit.
const NUMBERS: u32 = 1 << 24;
/// `ENOBUFS`, for a stream beyond the limit.
const NO_ROOM: u16 = 105;

/// A frame of a stream, and the stream offset of its first octet.
pub(crate) struct Kept {
    pub(crate) start: u64,
    pub(crate) frame: SentFrame,
    /// The worker by whose channel it came.
    pub(crate) home: u16,
}

pub(crate) struct Stream {
    pub(crate) queue: u32,
    /// Its number in the channel's entries.
    pub(crate) number: u32,
    /// The application has not closed it.
    pub(crate) open: bool,
    /// No octets to send follow.
    finished: bool,
    /// Frames with octets that are not acknowledged, in order.
    pub(crate) sent: VecDeque<Kept>,
    /// The stream offset behind the last octet to send.
    end: u64,
    /// The octets of frames, by the worker to whose channel they belong.
    pub(crate) frames: Vec<(u16, SentFrames)>,
    /// Octets that were delivered and not consumed.
    pub(crate) unread: u64,
    /// Closing resets it, also when the application ends.
    resets: bool,
    /// It came from another worker, and its application has not changed over yet.
    pub(crate) passage: Option<Box<Passage>>,
    /// Its last among the pending requests.
    pub(crate) last_request: LastRequest,
}

/// Listeners with one binding: connections go to them in turn.
pub(crate) struct Group {
    /// The first member's number, by which the transport knows the group.
    pub(crate) id: StreamId,
    binding: Binding,
    /// Queue and number of each.
    pub(crate) members: Vec<(u32, u32)>,
    pub(crate) next: usize,
}

/// The streams of one worker.
pub(crate) struct Streams {
    pub(crate) worker: u16,
    next: u32,
    pub(crate) most: usize,
    pub(crate) open: NumberMap<Stream>,
    /// Streams by the queue and the number that its application chose.
    pub(crate) named: HashMap<(u32, u32), StreamId>,
    /// Streams that have gone to other workers, and whose applications have not changed over yet.
    pub(crate) relays: NumberMap<Relay>,
    /// The ways to all workers.
    pub(crate) peers: Arc<[Peer]>,
    /// Frames that are not needed any more: the worker of their channel, and their queue.
    pub(crate) returns: Vec<(u16, u32, SentFrame)>,
    /// The transport may deliver where it could not.
    pub(crate) freed: bool,
    pub(crate) groups: Vec<Group>,
    pub(crate) requests: Pending,
    /// Events and answers that the channels had no room for, in order.
    pub(crate) untold: VecDeque<(StreamId, Told)>,
    /// Queues that had no room for octets or connections.
    pub(crate) short: Vec<u32>,
    /// Operators that wait for the list of connections.
    pub(crate) reports: VecDeque<Sender<Connections>>,
}

/// Channels and streams of one worker, for its queue of the link and its transport.
pub(crate) struct Ends {
    pub(crate) channels: Channels,
    pub(crate) streams: Streams,
}

pub(crate) type SharedEnds = Arc<AtomicRefCell<Ends>>;

impl Streams {
    pub(crate) fn new(worker: u16, most: usize, peers: Arc<[Peer]>) -> Streams {
        Streams {
            worker,
            next: 0,
            most,
            open: NumberMap::default(),
            named: HashMap::new(),
            relays: NumberMap::default(),
            peers,
            returns: Vec::new(),
            freed: false,
            groups: Vec::new(),
            requests: Pending::default(),
            untold: VecDeque::new(),
            short: Vec::new(),
            reports: VecDeque::new(),
        }
    }

    /// Whether the transport has something to do: requests, or room where there was none.
    pub(crate) fn is_wanted(&mut self, channels: &mut Channels) -> bool {
        let mut freed = std::mem::take(&mut self.freed);
        self.short.retain(|queue| {
            let waits = channels.of(*queue).is_some_and(|channel| !channel.end.has_room());
            freed |= !waits;
            waits
        });
        freed || !self.requests.is_empty()
    }

    /// Whether nothing has to be done before an application does something.
    pub(crate) fn may_sleep(&self) -> bool {
        self.requests.is_empty() && !self.freed && !self.has_unsaid()
    }

    /// Whether something waits to be told or given back.
    pub(crate) fn has_unsaid(&self) -> bool {
        !self.untold.is_empty() || !self.returns.is_empty()
    }

    pub(crate) fn listen(&mut self, queue: u32, listener: u32, binding: Binding, backlog: u32) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.binding == binding) {
            group.members.push((queue, listener));
            return;
        }
        let members = vec![(queue, listener)];
        self.groups.push(Group { id: listener, binding, members, next: 0 });
        self.requests.push(StreamRequest::Listen { listener, binding, backlog });
    }

    /// An operator wants the list of connections.
    pub(crate) fn report(&mut self, most: usize, to: Sender<Connections>) {
        self.reports.push_back(to);
        self.requests.push(StreamRequest::Report { most });
    }

    pub(crate) fn stop_listening(&mut self, listener: u32) {
        let requests = &mut self.requests;
        self.groups.retain_mut(|group| {
            group.members.retain(|(_, member)| *member != listener);
            if group.members.is_empty() {
                requests.push(StreamRequest::StopListening { listener: group.id });
            }
            !group.members.is_empty()
        });
    }

    /// The application of a queue is gone: as on Linux, its streams are closed, and reset if it had
    /// not read everything.
    pub(crate) fn abandon(&mut self, queue: u32) {
        for (&stream, there) in self.open.iter_mut().filter(|(_, s)| s.queue == queue && s.open) {
            there.open = false;
            if !there.close_later() {
                let request = close(stream, there);
                self.requests.push_of(&mut there.last_request, request);
            }
        }
        self.abandon_relays(queue);
        self.named.retain(|(owner, _), _| *owner != queue);
    }

    pub(crate) fn new_id(&mut self) -> StreamId {
        loop {
            self.next = (self.next + 1) % NUMBERS;
            let id = STREAMS | u32::from(self.worker) << 24 | self.next;
            if !self.open.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn add(&mut self, id: StreamId, number: u32, channel: &Channel) {
        let frames = vec![(self.worker, channel.end.sent_frames())];
        let stream = Stream {
            queue: channel.queue,
            number,
            open: true,
            finished: false,
            sent: VecDeque::new(),
            end: 0,
            frames,
            unread: 0,
            resets: false,
            passage: None,
            last_request: LastRequest::default(),
        };
        self.open.insert(id, stream);
    }

    /// The transport's number of a listener that an entry of a channel names.
    fn group_of(&self, queue: u32, number: u32) -> Option<StreamId> {
        let group = self.groups.iter().find(|group| group.members.contains(&(queue, number)))?;
        Some(group.id)
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
        if transmit.kind == Kind::Option
            && let Some(listener) = self.group_of(queue, transmit.socket)
        {
            channel.end.complete()?;
            let option = StreamOption::from_word(transmit.len as u32);
            let request = option.map(|option| StreamRequest::SetListener { listener, option });
            let sensible = request.is_some();
            request.into_iter().for_each(|request| self.requests.push(request));
            return Ok(sensible);
        }
        let (id, settled, finished) = match self.find(queue, transmit.socket) {
            Some((id, stream)) => (id, stream.passage.is_none(), stream.finished),
            None => match self.relayed(queue, transmit.socket) {
                Some(id) => (id, false, false),
                None => {
                    channel.end.complete()?;
                    return Ok(false);
                }
            },
        };
        let value = transmit.len as u32;
        let action = match transmit.kind {
            Kind::Stream if settled && finished => None,
            Kind::Stream => channel.end.keep().map(Action::Octets),
            Kind::Moved if value == 0 => Some(Action::End),
            kind => Some(Action::Request(kind, value)),
        };
        channel.end.complete()?;
        Ok(match action {
            Some(Action::Request(Kind::Moved, _)) => self.note_ready(id),
            Some(action) if settled => self.apply(id, self.worker, action),
            Some(action) => self.take_action(id, action),
            None => false,
        })
    }

    /// Carries out what the application of a stream has asked for; false if it makes no sense.
    pub(crate) fn apply(&mut self, id: StreamId, home: u16, action: Action) -> bool {
        let Some(stream) = self.open.get_mut(&id) else { return false };
        let request = match action {
            Action::Octets(frame) if stream.finished => {
                self.returns.push((home, stream.queue, frame));
                None
            }
            Action::Octets(frame) => {
                let octets = frame.len() as u32;
                stream.sent.push_back(Kept { start: stream.end, frame, home });
                stream.end += u64::from(octets);
                Some(StreamRequest::Send { stream: id, octets })
            }
            Action::Request(Kind::Consumed, value) if u64::from(value) <= stream.unread => {
                stream.unread -= u64::from(value);
                Some(StreamRequest::Consumed { stream: id, octets: value })
            }
            Action::Request(Kind::Finished, _) => {
                stream.finished = true;
                Some(StreamRequest::Finish { stream: id })
            }
            Action::Request(Kind::Option, value) => match StreamOption::from_word(value) {
                Some(StreamOption::ResetOnClose(resets)) => {
                    stream.resets = resets;
                    return true;
                }
                Some(StreamOption::DeferAccept(_) | StreamOption::SendBuffer(_)) | None => None,
                Some(option) => Some(StreamRequest::Set { stream: id, option }),
            },
            Action::Request(Kind::Info, _) => Some(StreamRequest::Inform { stream: id }),
            Action::Request(kind @ (Kind::Closed | Kind::Abort), _) => {
                (stream.open, stream.finished) = (false, true);
                let name = (stream.queue, stream.number);
                let request = match kind {
                    Kind::Closed => close(id, stream),
                    _ => StreamRequest::Abort { stream: id },
                };
                self.named.remove(&name);
                Some(request)
            }
            _ => None,
        };
        let Some(request) = request else { return false };
        self.requests.push_of(&mut stream.last_request, request);
        true
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
            self.untold.push_back((id, Told::Event(StreamEvent::Failed(NO_ROOM))));
            self.untold.push_back((id, Told::Event(StreamEvent::Closed)));
        } else {
            let PacketInfo { local, remote, .. } = transmit.info.into();
            let request = StreamRequest::Connect { stream: id, local, remote };
            if let Some(stream) = self.open.get_mut(&id) {
                self.requests.push_of(&mut stream.last_request, request);
            }
        }
        Ok(true)
    }

    /// Tells applications of events as far as there is room, each channel's in order.
    pub(crate) fn tell_untold(&mut self, channels: &mut Channels) {
        let mut full: Vec<u32> = Vec::new();
        for _ in 0..self.untold.len() {
            let Some((id, what)) = self.untold.pop_front() else { break };
            let place = self.open.get(&id).map(|there| (there.queue, there.number, there.open));
            let relay = || self.relays.get(&id).map(|there| (there.queue, there.number, true));
            let Some((queue, number, open)) = place.or_else(relay) else { continue };
            let told = !open || !full.contains(&queue) && tell((queue, number), &what, channels);
            if !told {
                full.push(queue);
                self.untold.push_back((id, what));
            } else if matches!(what, Told::Event(StreamEvent::Closed)) {
                self.forget(id, channels);
            }
        }
    }

    fn forget(&mut self, id: StreamId, channels: &mut Channels) {
        let Some(stream) = self.open.remove(&id) else { return };
        if stream.open {
            self.named.remove(&(stream.queue, stream.number));
        }
        self.return_all(stream.queue, stream.sent);
        self.give_back(channels);
    }
}

/// The request that closes a stream: as on Linux, a reset if the application has not read everything, or
/// wants that.
fn close(id: StreamId, stream: &Stream) -> StreamRequest {
    if stream.unread > 0 || stream.resets {
        StreamRequest::Abort { stream: id }
    } else {
        StreamRequest::Close { stream: id }
    }
}

/// Writes an event or an answer into the ring of a stream's channel; false when there is no room. Done once
/// the application is gone.
fn tell((queue, number): (u32, u32), what: &Told, channels: &mut Channels) -> bool {
    let Some(channel) = channels.of(queue) else { return true };
    let plain = |kind, value| (kind, (value, 0));
    let event = match what {
        Told::Event(event) => *event,
        Told::Moved(worker) => {
            let told = channel.end.notify(number, Kind::Moved, (*worker, 0), None);
            channel.dirty = true;
            channel.broken |= told.is_err();
            return told.is_ok_and(|told| told == Delivery::Delivered) || channel.broken;
        }
        Told::Info(info) => {
            let told = channel.end.inform(number, &info[..]);
            channel.dirty = true;
            channel.broken |= told.is_err();
            return told.unwrap_or(true);
        }
    };
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
    told.is_ok_and(|told| told == Delivery::Delivered) || channel.broken
}
