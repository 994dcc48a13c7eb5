//! The stack's end of a channel, which a worker uses.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::app::AHEAD;
use crate::doorbell::Doorbell;
use crate::entry::{Entry, Kind, NO_FRAME, PacketInfo, SocketId};
use crate::layout::{ChannelError, Geometry, INFO_SIZE};
use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

/// How many entries of the fill ring are taken at once.
const REFILL: usize = 64;

/// The stack's private record of a frame's holder. The application's entries are checked against it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Application,
    /// Lent to the stack, free to receive into.
    Stack,
    /// Named by a transmit entry that is not completed yet, or octets of a stream that are not
    /// acknowledged yet.
    Transmit,
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the ring; the application sees it after [`StackEnd::publish`].
    Delivered,
    /// The application has lent no frame. Drop it and count it against the socket.
    NoFrame,
    /// The receive ring is full. Drop it and count it against the socket.
    RingFull,
}

/// How often an application broke the rules. Entries that break one are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misuse {
    /// A frame number beyond the channel's frames.
    pub no_such_frame: u64,
    /// A frame that the application did not hold: returned or sent twice.
    pub not_its_frame: u64,
    /// A range outside the frame's payload, or chained entries that do not belong together.
    pub bad_range: u64,
    /// An entry of a kind that does not go in this direction.
    pub bad_kind: u64,
}

impl Misuse {
    /// All together.
    pub fn total(&self) -> u64 {
        self.no_such_frame + self.not_its_frame + self.bad_range + self.bad_kind
    }
}

/// A checked entry of the transmit ring. A datagram's payload is copied by
/// [`StackEnd::copy_payload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// [`Kind::Data`], or a request that concerns a stream.
    pub kind: Kind,
    /// The socket that sends. Whether it is the application's is for the caller to check.
    pub socket: SocketId,
    /// Addresses and options, copied out. Whether they are allowed is for the caller to check.
    pub info: PacketInfo,
    /// The payload's length in bytes, all frames together. For a request without a frame, its
    /// [value](Entry::value).
    pub len: usize,
}

/// A frame with octets of a stream, which the stack holds until they are acknowledged. Give it back
/// by [`StackEnd::give_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost to the application"]
pub struct SentFrame {
    frame: u32,
    offset: u16,
    len: u16,
}

impl SentFrame {
    /// How many octets it has.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The octets of sent frames, which stay readable when the channel itself is closed.
#[derive(Clone, Debug)]
pub struct SentFrames(Arc<SharedMemory>);

impl SentFrames {
    /// Copies octets of a frame, from the `skip`th on, to `out`, and returns how many.
    #[inline]
    pub fn read(&self, sent: &SentFrame, skip: usize, out: &mut [u8]) -> usize {
        let len = sent.len().saturating_sub(skip).min(out.len());
        // Below the frame's length, which fits.
        let from = sent.offset.saturating_add(skip as u16);
        if self.0.read(sent.frame, from, &mut out[..len]) { len } else { 0 }
    }
}

struct Part {
    frame: u32,
    offset: u16,
    len: u16,
}

/// The stack's end. One thread at a time uses it; it may move between threads.
///
/// Receiving: [`deliver`](Self::deliver) and [`notify`](Self::notify) any number of times, then
/// [`publish`](Self::publish). Sending: [`next_transmit`](Self::next_transmit),
/// [`copy_payload`](Self::copy_payload), [`complete`](Self::complete), then `publish`. Before its
/// thread sleeps, or when it wants to stop looking at an idle channel: [`park`](Self::park).
/// Nothing blocks, allocates or makes a system call after construction.
pub struct StackEnd {
    fill: Consumer<'static>,
    receive: Producer<'static>,
    transmit: Consumer<'static>,
    completion: Producer<'static>,
    app: Doorbell<'static>,
    own: Doorbell<'static>,
    holders: Box<[Holder]>,
    free: Vec<u32>,
    /// The frames of the datagram that `next_transmit` returned last.
    parts: Vec<Part>,
    /// Frames to give back for which the completion ring had no room.
    owed: Vec<u32>,
    misuse: Misuse,
    /// Last, so that it outlives the rings above, which point into it.
    memory: Arc<SharedMemory>,
}

impl StackEnd {
    /// Makes a channel. Its descriptor goes to the application.
    ///
    /// # Errors
    /// See [`SharedMemory::create`].
    pub fn create(geometry: Geometry) -> Result<StackEnd, ChannelError> {
        let memory = Arc::new(SharedMemory::create(geometry)?);
        // SAFETY: `memory` is a field of the same struct as everything that points into it.
        let parts = unsafe { memory.parts() };
        Ok(StackEnd {
            fill: Consumer::new(parts.fill),
            receive: Producer::new(parts.receive),
            transmit: Consumer::new(parts.transmit),
            completion: Producer::new(parts.completion),
            app: parts.app,
            own: parts.stack,
            holders: vec![Holder::Application; geometry.frames as usize].into(),
            free: Vec::with_capacity(geometry.frames as usize),
            parts: Vec::with_capacity(usize::from(u8::MAX) + 1),
            owed: Vec::new(),
            misuse: Misuse::default(),
            memory,
        })
    }

    /// The memfd, to send to the application.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// The sizes of rings and frames.
    pub fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    /// How often the application broke the rules.
    pub fn misuse(&self) -> Misuse {
        self.misuse
    }

    /// Copies a datagram to the application, over as many frames as it needs, or not at all.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn deliver(
        &mut self,
        socket: SocketId,
        info: &PacketInfo,
        payload: &[u8],
    ) -> Result<Delivery, ChannelError> {
        let size = usize::from(self.geometry().payload_size());
        let frames = payload.len().div_ceil(size).max(1);
        if frames > usize::from(u8::MAX) + 1 {
            return Ok(Delivery::NoFrame);
        }
        if self.receive.room(frames as u32)? < frames as u32 {
            return Ok(Delivery::RingFull);
        }
        if self.free.len() < frames {
            self.refill()?;
            if self.free.len() < frames {
                return Ok(Delivery::NoFrame);
            }
        }
        if let Some(place) = self.free.len().checked_sub(frames + AHEAD as usize) {
            self.memory.prefetch(self.free[place], true);
        }
        for i in 0..frames {
            let part = &payload[i * size..payload.len().min((i + 1) * size)];
            let Some(frame) = self.free.pop() else { return Ok(Delivery::NoFrame) };
            if i == 0 {
                self.memory.write(frame, 0, &info.to_bytes());
            }
            self.memory.write(frame, INFO_SIZE, part);
            self.holders[frame as usize] = Holder::Application;
            let (len, more) = (part.len() as u16, (frames - 1 - i) as u8);
            let entry = Entry { frame, socket, offset: INFO_SIZE, len, kind: Kind::Data, more };
            self.receive.push(entry)?;
        }
        Ok(Delivery::Delivered)
    }

    /// Tells the application of something that concerns a socket and has no payload: an error with
    /// its errno as `value` and for `EMSGSIZE` the MTU as `len`. `about`, both ends of the datagram
    /// that it is about, goes along if the application has lent a frame.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn notify(
        &mut self,
        socket: SocketId,
        kind: Kind,
        (value, len): (u16, u16),
        about: Option<&PacketInfo>,
    ) -> Result<Delivery, ChannelError> {
        if self.receive.room(1)? < 1 {
            return Ok(Delivery::RingFull);
        }
        if about.is_some() && self.free.is_empty() {
            self.refill()?;
        }
        let with_frame = about.and_then(|info| Some((info, self.free.pop()?)));
        let frame = with_frame.map_or(NO_FRAME, |(info, frame)| {
            self.memory.write(frame, 0, &info.to_bytes());
            self.holders[frame as usize] = Holder::Application;
            frame
        });
        let entry = Entry { frame, socket, offset: value, len, kind, more: 0 };
        Ok(if self.receive.push(entry)? { Delivery::Delivered } else { Delivery::RingFull })
    }

    /// Copies octets of a stream to the application, and returns how many there were frames and
    /// entries for.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn deliver_stream(
        &mut self,
        stream: SocketId,
        octets: &[u8],
    ) -> Result<usize, ChannelError> {
        let mut done = 0;
        for part in octets.chunks(usize::from(self.geometry().payload_size())) {
            let Some(frame) = self.frame_to_fill()? else { break };
            self.memory.write(frame, INFO_SIZE, part);
            let len = part.len() as u16;
            let (offset, kind) = (INFO_SIZE, Kind::Stream);
            self.receive.push(Entry { frame, socket: stream, offset, len, kind, more: 0 })?;
            done += part.len();
        }
        Ok(done)
    }

    /// Tells the application of an established stream: both ends, and the number of the listener
    /// that it came to, or of the stream that was to be connected. False while there is no room.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn connected(
        &mut self,
        stream: SocketId,
        asked_as: SocketId,
        ends: &PacketInfo,
    ) -> Result<bool, ChannelError> {
        let Some(frame) = self.frame_to_fill()? else { return Ok(false) };
        self.memory.write(frame, 0, &ends.to_bytes());
        self.memory.write(frame, INFO_SIZE, &asked_as.to_ne_bytes());
        let (offset, len, kind) = (INFO_SIZE, 4, Kind::Connected);
        self.receive.push(Entry { frame, socket: stream, offset, len, kind, more: 0 })
    }

    /// A lent frame, with room in the receive ring for its entry. It is the application's again.
    fn frame_to_fill(&mut self) -> Result<Option<u32>, ChannelError> {
        if self.receive.room(1)? == 0 {
            return Ok(None);
        }
        if self.free.is_empty() {
            self.refill()?;
        }
        let frame = self.free.pop();
        if let Some(frame) = frame {
            self.holders[frame as usize] = Holder::Application;
        }
        Ok(frame)
    }

    /// Whether an event with a frame has room now. A broken channel has: it refuses by itself.
    pub fn has_room(&mut self) -> bool {
        let room = self.receive.room(1).unwrap_or(1) > 0;
        room && (!self.free.is_empty() || self.fill.look().unwrap_or(1) > 0)
    }

    /// Takes lent frames from the fill ring.
    fn refill(&mut self) -> Result<(), ChannelError> {
        for _ in 0..REFILL {
            let Some(entry) = self.fill.pop()? else { break };
            if self.take_from_application(entry.frame, Holder::Stack) {
                self.free.push(entry.frame);
            }
        }
        self.fill.release();
        Ok(())
    }

    /// Notes that the application gave a frame away; false, and counted, when it could not.
    fn take_from_application(&mut self, frame: u32, to: Holder) -> bool {
        match self.holders.get_mut(frame as usize) {
            Some(holder @ Holder::Application) => {
                *holder = to;
                true
            }
            Some(_) => {
                self.misuse.not_its_frame += 1;
                false
            }
            None => {
                self.misuse.no_such_frame += 1;
                false
            }
        }
    }

    /// The next datagram to send or request of a stream, if there is one and its completion has room.
    /// Entries that break the rules are skipped and counted. Follow it by
    /// [`complete`](Self::complete), or octets of a stream by [`keep`](Self::keep).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn next_transmit(&mut self) -> Result<Option<Transmit>, ChannelError> {
        debug_assert!(self.parts.is_empty(), "complete the datagram before the next");
        if !self.owed.is_empty() {
            self.pay()?;
        }
        // Bounded: a hostile application that goes on writing does not keep the worker here.
        for _ in 0..self.geometry().ring_len {
            let Some(first) = self.transmit.pop()? else { return Ok(None) };
            if let Some(frame) = self.transmit.frame_ahead(AHEAD) {
                self.memory.prefetch(frame, false);
            }
            let frames = u32::from(first.more) + 1;
            if frames > self.geometry().ring_len {
                // Its end is further away than the ring is long: no end will come.
                self.misuse.bad_range += 1;
                continue;
            }
            if self.completion.room(frames)? < frames {
                self.transmit.unpop();
                return Ok(None);
            }
            if let Some(transmit) = self.gather(first)? {
                return Ok(Some(transmit));
            }
            self.complete()?;
        }
        Ok(None)
    }

    /// Takes the frames of one datagram; nothing when one of its entries breaks the rules.
    fn gather(&mut self, first: Entry) -> Result<Option<Transmit>, ChannelError> {
        let mut valid = self.take_part(first);
        let mut len = usize::from(first.len);
        let mut previous = first;
        while previous.more > 0 {
            let Some(entry) = self.transmit.pop()? else {
                // A chain is published as a whole.
                self.misuse.bad_range += 1;
                return Ok(None);
            };
            let alike = entry.socket == first.socket && entry.kind == first.kind;
            if !alike || entry.more != previous.more - 1 {
                self.misuse.bad_range += 1;
                valid = false;
            }
            valid &= self.take_part(entry);
            len += usize::from(entry.len);
            // A chain that contradicts itself ends where its first entry said, at the latest.
            previous = Entry { more: previous.more - 1, ..entry };
        }
        if !valid {
            return Ok(None);
        }
        let (kind, socket) = (first.kind, first.socket);
        if first.frame == NO_FRAME || kind == Kind::Stream {
            let len = if kind == Kind::Stream { len } else { first.value() as usize };
            return Ok(Some(Transmit { kind, socket, info: PacketInfo::default(), len }));
        }
        let mut info = [0; 56];
        self.memory.read(first.frame, 0, &mut info);
        Ok(Some(Transmit { kind, socket, info: PacketInfo::from_bytes(&info), len }))
    }

    fn take_part(&mut self, entry: Entry) -> bool {
        match entry.kind {
            Kind::Data => {}
            // A request is one entry.
            _ if entry.more > 0 => {
                self.misuse.bad_range += 1;
                return false;
            }
            Kind::Stream | Kind::Connected => {}
            Kind::Consumed | Kind::Finished | Kind::Abort | Kind::Option | Kind::Closed
                if entry.frame == NO_FRAME =>
            {
                return true;
            }
            _ => {
                self.misuse.bad_kind += 1;
                return false;
            }
        }
        if !self.take_from_application(entry.frame, Holder::Transmit) {
            return false;
        }
        self.parts.push(Part { frame: entry.frame, offset: entry.offset, len: entry.len });
        if !self.memory.is_payload(entry.offset, entry.len) {
            self.misuse.bad_range += 1;
            return false;
        }
        true
    }

    /// Copies the payload of the datagram that [`next_transmit`](Self::next_transmit) returned
    /// last to the front of `out` and returns its length; bytes that do not fit are left out.
    #[inline]
    pub fn copy_payload(&self, out: &mut [u8]) -> usize {
        let mut done = 0;
        for part in &self.parts {
            let len = usize::from(part.len).min(out.len() - done);
            if !self.memory.read(part.frame, part.offset, &mut out[done..done + len]) {
                break;
            }
            done += len;
        }
        done
    }

    /// Keeps the frame of the octets that [`next_transmit`](Self::next_transmit) returned last, until
    /// they are acknowledged. Nothing when it was something else.
    pub fn keep(&mut self) -> Option<SentFrame> {
        let Part { frame, offset, len } = self.parts.pop()?;
        debug_assert!(self.parts.is_empty(), "octets of a stream come in one frame");
        Some(SentFrame { frame, offset, len })
    }

    /// The octets of kept frames.
    pub fn sent_frames(&self) -> SentFrames {
        SentFrames(Arc::clone(&self.memory))
    }

    /// Gives a kept frame back to the application, which sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn give_back(&mut self, sent: SentFrame) -> Result<(), ChannelError> {
        self.owed.push(sent.frame);
        self.pay()
    }

    /// Gives back frames as far as the completion ring has room.
    fn pay(&mut self) -> Result<(), ChannelError> {
        while let Some(&frame) = self.owed.last() {
            if !self.completion.push(Entry::frame(frame))? {
                break;
            }
            self.holders[frame as usize] = Holder::Application;
            self.owed.pop();
        }
        Ok(())
    }

    /// Gives the frames of the datagram that [`next_transmit`](Self::next_transmit) returned last
    /// back to the application, which sees them after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn complete(&mut self) -> Result<(), ChannelError> {
        for part in self.parts.drain(..) {
            self.holders[part.frame as usize] = Holder::Application;
            let pushed = self.completion.push(Entry::frame(part.frame))?;
            debug_assert!(pushed, "room was looked for before");
        }
        Ok(())
    }

    /// Makes deliveries and completions visible, lets the application reuse transmit entries, and
    /// says whether its descriptor has to be written to, because it sleeps.
    #[inline]
    #[must_use = "an application that sleeps has to be woken"]
    pub fn publish(&mut self) -> bool {
        self.transmit.release();
        let received = self.receive.publish();
        let completed = self.completion.publish();
        (received || completed) && self.app.take()
    }

    /// Whether frames that were given back wait for room in the completion ring.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Announces that the worker will not look at this channel until it is woken; false, and
    /// nothing announced, when there is something to send already.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn park(&mut self) -> Result<bool, ChannelError> {
        self.own.arm();
        if self.transmit.look()? > 0 {
            self.own.disarm();
            return Ok(false);
        }
        Ok(true)
    }

    /// The worker looks at the channel by itself again.
    pub fn unpark(&mut self) {
        self.own.disarm();
    }

    /// How many frames each side holds: (application, stack). For checks that none was lost.
    pub fn held(&self) -> (usize, usize) {
        let ours = self.holders.iter().filter(|h| **h != Holder::Application).count();
        (self.holders.len() - ours, ours)
    }
}
