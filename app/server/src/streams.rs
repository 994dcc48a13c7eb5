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

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use atomic_refcell::AtomicRefCell;
use weever_app_ring::{
    ChannelError, Kind, NumberMap, PacketInfo, STREAMS, SentFrame, StreamOption, Transmit,
};
use weever_net::demux::PortRange;
use weever_net::stream::{StreamEvent, StreamId, StreamRequest};

use crate::channels::{Channel, Channels};
use crate::passage::{Action, Peer, Relay, Told};
use crate::pending::Pending;
use crate::request::{Connections, FoundPorts};
use crate::stream::{Group, Home, Kept, Stream, close};

/// Numbers of a worker's streams, below the worker's own and the highest bit.
const NUMBERS: u32 = 1 << 24;
/// `ENOBUFS`, for a stream beyond the limit.
const NO_ROOM: u16 = 105;
/// `EADDRNOTAVAIL`, for a port that may be a kernel's socket's.
const NOT_TAKEN: u16 = 99;

/// The streams of one worker.
pub(crate) struct Streams {
    pub(crate) worker: u16,
    next: u32,
    pub(crate) most: usize,
    pub(crate) open: NumberMap<Stream>,
    /// Streams by the queue and the number that its application chose, and by holder and number.
    pub(crate) named: HashMap<(u32, u32), StreamId>,
    /// Streams that have gone to other workers, and whose applications have not changed over yet.
    pub(crate) relays: NumberMap<Relay>,
    /// The ways to all workers.
    pub(crate) peers: Arc<[Peer]>,
    /// Frames that are not needed any more, and their channels.
    pub(crate) returns: Vec<(Home, SentFrame)>,
    /// The transport may deliver where it could not.
    pub(crate) freed: bool,
    pub(crate) groups: Vec<Group>,
    pub(crate) requests: Pending,
    /// Events and answers that the channels had no room for, in order.
    pub(crate) untold: VecDeque<(StreamId, Told)>,
    /// How many [holders](Stream::holders) all streams have.
    pub(crate) holds: usize,
    /// The number of connections that have come to listeners which accept each.
    pub(crate) arrivals: u64,
    /// Streams that have a queue again, with octets or events from the time in which they rested.
    pub(crate) resting: Vec<StreamId>,
    /// Queues and numbers of streams that were released, which the queues are not told of yet.
    pub(crate) released: VecDeque<(u32, u32)>,
    /// Connections that go to other listeners.
    pub(crate) unplaced: Vec<StreamId>,
    /// Those for which no listener has room now.
    pub(crate) stuck: Vec<StreamId>,
    /// Queues that had no room for octets or connections.
    pub(crate) short: Vec<u32>,
    /// Where connections may begin, if the addresses are the kernel's as well.
    pub(crate) range: Option<PortRange>,
    /// Ports beyond it that queues have taken, and how many connections they have begun there.
    pub(crate) own_ports: HashMap<(u32, u16), u64>,
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
            holds: 0,
            arrivals: 0,
            resting: Vec::new(),
            released: VecDeque::new(),
            unplaced: Vec::new(),
            stuck: Vec::new(),
            short: Vec::new(),
            range: None,
            own_ports: HashMap::new(),
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
        if freed {
            self.wake_resting(channels);
        }
        freed || !self.requests.is_empty()
    }

    /// Whether nothing has to be done before an application does something.
    pub(crate) fn may_sleep(&self) -> bool {
        self.requests.is_empty() && !self.freed && !self.has_unsaid()
    }

    /// Whether something waits to be told or given back.
    pub(crate) fn has_unsaid(&self) -> bool {
        !self.untold.is_empty()
            || !self.returns.is_empty()
            || !self.released.is_empty()
            || !self.unplaced.is_empty()
    }

    /// An operator wants the list of connections.
    pub(crate) fn report(&mut self, most: usize, to: Sender<Connections>) {
        self.reports.push_back(to);
        self.requests.push(StreamRequest::Report { most });
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
                None => return self.take_of_holder(channel, transmit),
            },
        };
        let value = transmit.len as u32;
        let action = match transmit.kind {
            Kind::Stream if settled && finished => None,
            Kind::Stream => channel.end.keep().map(Action::Octets),
            Kind::Moved if value == 0 => Some(Action::End),
            Kind::Accepted => return self.take_in(channel, id),
            Kind::Released => return self.hand_back(channel, id, transmit),
            Kind::Closed | Kind::Abort if self.is_held(id) => {
                return self.hand_back(channel, id, transmit);
            }
            kind => Some(Action::Request(kind, value)),
        };
        channel.end.complete()?;
        Ok(match action {
            Some(Action::Request(Kind::Moved, _)) => self.note_ready(id),
            Some(action) if settled => self.apply(id, (self.worker, queue), action),
            Some(action) => self.take_action(id, action),
            None => false,
        })
    }

    /// Carries out what the application of a stream has asked for; false if it makes no sense.
    pub(crate) fn apply(&mut self, id: StreamId, home: Home, action: Action) -> bool {
        let Some(stream) = self.open.get_mut(&id) else { return false };
        let request = match action {
            Action::Octets(frame) if stream.finished => {
                self.returns.push((home, frame));
                None
            }
            Action::Octets(frame) => {
                let octets = frame.len() as u32;
                stream.sent.push_back(Kept { start: stream.end, frame, home });
                stream.end += u64::from(octets);
                Some(StreamRequest::Send { stream: id, octets })
            }
            Action::Request(Kind::Consumed, value) if u64::from(value) <= stream.unread => {
                stream.note_consumed(value);
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

    /// The connections of these ports.
    pub(crate) fn find_ports(&self, ports: &BTreeSet<u16>) -> FoundPorts {
        let mut found = FoundPorts::default();
        for there in self.open.values().filter(|there| ports.contains(&there.port)) {
            found.connected.insert(there.port);
            if there.open {
                found.open.insert(there.port);
            }
        }
        let begun = self.own_ports.iter().filter(|((_, port), _)| ports.contains(port));
        found.begun.extend(begun.map(|(of, begun)| (*of, *begun)));
        found
    }

    /// Whether packets for a port come to this stack; 0 is the transport's choice.
    fn may_begin_at(&self, port: u16, queue: u32) -> bool {
        let Some(range) = self.range else { return true };
        port == 0 || range.contains(port) || self.own_ports.contains_key(&(queue, port))
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
        let mut stream = Stream::new(number);
        stream.give_to(self.worker, channel);
        let PacketInfo { local, remote, .. } = transmit.info.into();
        stream.port = local.port();
        if let Some(begun) = self.own_ports.get_mut(&(channel.queue, stream.port)) {
            *begun += 1;
        }
        self.open.insert(id, stream);
        self.named.insert(name, id);
        let refusal = if self.open.len() > self.most {
            Some(NO_ROOM)
        } else {
            (!self.may_begin_at(local.port(), channel.queue)).then_some(NOT_TAKEN)
        };
        if let Some(errno) = refusal {
            self.untold.push_back((id, Told::Event(StreamEvent::Failed(errno))));
            self.untold.push_back((id, Told::Event(StreamEvent::Closed)));
        } else {
            let request = StreamRequest::Connect { stream: id, local, remote };
            if let Some(stream) = self.open.get_mut(&id) {
                self.requests.push_of(&mut stream.last_request, request);
            }
        }
        Ok(true)
    }
}
