//! The stack's end of a channel, which a worker uses. What goes to the application is in `deliver`, what
//! comes from it in `transmit`.

mod deliver;
mod swap;
mod transmit;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::layout::{ChannelError, Geometry};
use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

pub use deliver::{Delivery, Filled};
pub use transmit::{MemoryUse, SentFrame, SentFrames, Transmit};

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
    /// Lent frames that are empty. Those that the application gave back last are filled first: the caches have them.
    free: Vec<u32>,
    /// Whether it was looked for lent frames since the last [`publish`](Self::publish).
    refilled: bool,
    /// How often each frame was lent, which tells whether one that was filled is still with the application.
    loans: Box<[u32]>,
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
        let holders = vec![Holder::Application; geometry.frames as usize];
        Ok(StackEnd::over(memory, holders))
    }

    fn over(memory: Arc<SharedMemory>, holders: Vec<Holder>) -> StackEnd {
        // SAFETY: `memory` is a field of the same struct as everything that points into it.
        let parts = unsafe { memory.parts() };
        StackEnd {
            fill: Consumer::new(parts.fill),
            receive: Producer::new(parts.receive),
            transmit: Consumer::new(parts.transmit),
            completion: Producer::new(parts.completion),
            app: parts.app,
            own: parts.stack,
            free: Vec::with_capacity(memory.geometry().frames as usize),
            refilled: false,
            loans: vec![0; holders.len()].into(),
            holders: holders.into(),
            parts: Vec::with_capacity(usize::from(u8::MAX) + 1),
            owed: Vec::new(),
            misuse: Misuse::default(),
            memory,
        }
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

    /// Notes that the application gave a frame away; false, and counted, when it could not.
    #[inline]
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

    /// Makes deliveries and completions visible, lets the application reuse transmit entries, and
    /// says whether its descriptor has to be written to, because it sleeps.
    #[inline]
    #[must_use = "an application that sleeps has to be woken"]
    pub fn publish(&mut self) -> bool {
        self.refilled = false;
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
        let theirs = self.holders.iter().filter(|h| **h == Holder::Application).count();
        // Of frames elsewhere, most are neither side's by the channel.
        (theirs, (self.geometry().frames as usize).saturating_sub(theirs))
    }
}
