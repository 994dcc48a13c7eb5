//! What passes between workers when a stream moves from one to another.
//!
//! ```text
//!            ┌─ channel of the old worker ─► relay ══ mail ══►┐
//!  application                                                 ├─► stream at the new worker
//!            └─ channel of the new worker ──► held until `End` ┘
//! ```
//!
//! The application learns in the old channel that a stream has moved ([`Kind::Moved`]). What it wrote there before
//! that is relayed, and goes before what it writes to the new channel; what the new worker delivers waits until
//! the application has read the old channel up to there. So octets keep their order in both directions, and
//! neither worker waits for the other.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use weever_app_ring::{Kind, SentFrame};
use weever_net::stream::{LINUX_INFO_LEN, StreamEvent, StreamId};

/// What an application does to a stream, apart from the channel by which it says so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Octets to send, in a frame that is kept.
    Octets(SentFrame),
    /// A request without a frame.
    Request(Kind, u32),
    /// Nothing follows by this channel: the application has changed over to the next worker's.
    End,
}

/// What an application is told of a stream.
pub(crate) enum Told {
    Event(StreamEvent),
    Info(Box<[u8; LINUX_INFO_LEN]>),
    /// The stream is at this worker now.
    Moved(u16),
    /// The stream does not belong to the queue any more.
    Released,
}

/// The state of a stream that has moved, until the application has changed over.
#[derive(Default)]
pub(crate) struct Passage {
    /// Nothing more comes from the worker before.
    pub(crate) ended: bool,
    /// The application has read all that the worker before has told it.
    pub(crate) ready: bool,
    /// What the application did by this worker's channel, until the worker before has nothing more.
    pub(crate) held: VecDeque<Action>,
    /// What the application is told once it is ready.
    pub(crate) untold: VecDeque<Told>,
}

/// The place of a stream that has gone to another worker, until the application has changed over.
pub(crate) struct Relay {
    pub(crate) queue: u32,
    /// Its number in the channel's entries.
    pub(crate) number: u32,
    /// The worker that has it; unknown until that says so.
    pub(crate) to: Option<u16>,
    /// Actions for the next worker, kept while that worker is unknown.
    pub(crate) out: VecDeque<Action>,
    /// The application has changed over, or closed the stream.
    pub(crate) done: bool,
}

/// A message from one worker to another.
pub(crate) enum Mail {
    /// The stream that was sent away is at this worker.
    Here { stream: StreamId, worker: u16 },
    /// An action that came by the channel of a worker before; `home` has the frame.
    Action { stream: StreamId, queue: u32, home: u16, action: Action },
    /// A frame of this worker's channel whose octets are acknowledged.
    GiveBack { queue: u32, frame: SentFrame },
}

/// The way to a worker.
#[derive(Clone)]
pub(crate) struct Peer {
    mail: Sender<Mail>,
    wake: Arc<OwnedFd>,
}

impl Peer {
    pub(crate) fn new(mail: Sender<Mail>, wake: Arc<OwnedFd>) -> Peer {
        Peer { mail, wake }
    }

    /// Sends a message, and wakes the worker if it sleeps. One that has ended needs none.
    pub(crate) fn send(&self, mail: Mail) {
        if self.mail.send(mail).is_ok() {
            // The only way to fail is a full counter: then it is readable already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}
