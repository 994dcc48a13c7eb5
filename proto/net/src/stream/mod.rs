//! Streams between applications and a transport, at one worker.
//!
//! ```text
//!  application ══ transmit ring ══► link ── requests, sent octets ──► StreamPort ──► transport
//!  application ◄══ receive ring ═══ link ◄── accept, deliver, tell ── StreamPort ◄── transport
//! ```
//!
//! The transport is a block of the graph, the link holds the applications' channels; both belong to
//! one worker and meet here. Octets are named by their *stream offset*: 0 is the first octet that
//! the application sends.
//!
//! - **Sent octets** stay in the application's frames from [`StreamRequest::Send`] until
//!   [`StreamPort::acknowledged`]. A segment and its retransmissions copy them
//!   ([`StreamPort::read_sent`]); the frames go back to the application as they are acknowledged.
//! - **Received octets** are copied into the application's frames in order
//!   ([`StreamPort::deliver`]), straight from the segment's frame where possible. The application
//!   states by [`StreamRequest::Consumed`] how many it has read: the transport's window opens by
//!   that, so a slow reader fills neither its frames nor the ring, and stalls nobody else.
//!
//! The link wakes the transport by a packet without octets whose metadata names the protocol, sent
//! into the graph in each turn that finds requests. The transport then takes requests until there
//! are none, and offers again whatever was not delivered before: frames may be free again.

mod info;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::net::SocketAddr;

use crate::demux::Binding;
pub use info::{LINUX_INFO_LEN, StreamInfo};

#[doc(no_inline)]
pub use weever_wire::stream::{Congestion, StreamOption};

/// The number of a stream or a listener at a worker.
pub type StreamId = u32;

/// A request of an application. Requests for one stream come in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamRequest {
    /// Connections to this binding are accepted from now on, at every worker.
    Listen {
        /// The listener.
        listener: StreamId,
        /// Local address, port and family.
        binding: Binding,
        /// Connections that may wait to be accepted.
        backlog: u32,
    },
    /// No further connections are accepted; those not accepted yet are reset.
    StopListening {
        /// The listener.
        listener: StreamId,
    },
    /// A new stream is to be connected; [`StreamEvent::Connected`], or [`StreamEvent::Failed`] and
    /// [`StreamEvent::Closed`] answer it.
    Connect {
        /// The stream.
        stream: StreamId,
        /// Our end: an unspecified address is the route's choice, port 0 the transport's.
        local: SocketAddr,
        /// The peer.
        remote: SocketAddr,
    },
    /// More octets to send, behind those of earlier requests.
    Send {
        /// The stream.
        stream: StreamId,
        /// How many.
        octets: u32,
    },
    /// The application has read octets that were delivered.
    Consumed {
        /// The stream.
        stream: StreamId,
        /// How many.
        octets: u32,
    },
    /// No more octets follow those to send (half-close).
    Finish {
        /// The stream.
        stream: StreamId,
    },
    /// The application has closed the stream, or has ended: octets to send still go, nothing is
    /// delivered any more.
    Close {
        /// The stream.
        stream: StreamId,
    },
    /// The application resets the stream.
    Abort {
        /// The stream.
        stream: StreamId,
    },
    /// A setting of a stream.
    Set {
        /// The stream.
        stream: StreamId,
        /// The setting.
        option: StreamOption,
    },
    /// A setting of a listener, which its later streams begin with.
    SetListener {
        /// The listener.
        listener: StreamId,
        /// The setting.
        option: StreamOption,
    },
    /// The application asks how a stream is doing: [`StreamPort::inform`] answers.
    Inform {
        /// The stream.
        stream: StreamId,
    },
    /// The operator asks for the list of connections: [`StreamPort::report`] answers.
    Report {
        /// How many at the most.
        most: usize,
    },
}

/// A connection in the list for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// The application's stream; a service of the stack's has none.
    pub stream: Option<StreamId>,
    /// Our end.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// Its state.
    pub info: StreamInfo,
}

/// An event that an application is told of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A stream that was to be connected is established.
    Connected {
        /// Our end.
        local: SocketAddr,
        /// The peer.
        remote: SocketAddr,
    },
    /// The peer has announced urgent data (RFC 9293 §3.8.5). Tell it before its octets are delivered; again only when it
    /// ends further on.
    Urgent {
        /// The stream offset behind it.
        end: u64,
    },
    /// The peer sends no more. Tell it when all octets before it are delivered.
    Finished,
    /// The connection has failed, with this `errno`.
    Failed(u16),
    /// The stream is over and its number free: the last event.
    Closed,
}

impl StreamRequest {
    /// The stream that it is about; a listener's and an operator's requests are about none.
    pub fn stream(&self) -> Option<StreamId> {
        match *self {
            StreamRequest::Listen { .. }
            | StreamRequest::StopListening { .. }
            | StreamRequest::SetListener { .. }
            | StreamRequest::Report { .. } => None,
            StreamRequest::Connect { stream, .. }
            | StreamRequest::Send { stream, .. }
            | StreamRequest::Consumed { stream, .. }
            | StreamRequest::Finish { stream }
            | StreamRequest::Close { stream }
            | StreamRequest::Abort { stream }
            | StreamRequest::Set { stream, .. }
            | StreamRequest::Inform { stream } => Some(stream),
        }
    }
}

/// A stream on its way from one worker to another, as the applications' side knows it.
pub type StreamState = Box<dyn Any + Send>;

/// The applications' side of a transport at one worker. Only the worker's thread calls it; nothing
/// blocks.
pub trait StreamPort: Send + Sync {
    /// The next request.
    fn next_request(&self) -> Option<StreamRequest>;

    /// Hands an established connection to a listener's application. `None` while that has no room
    /// for it: offer it again in a later turn.
    fn accept(&self, listener: StreamId, local: SocketAddr, remote: SocketAddr)
    -> Option<StreamId>;

    /// Copies received octets to the application, in order, and returns how many it had room for.
    /// Offer the rest again in a later turn. All of them "fit" once the application is gone.
    fn deliver(&self, stream: StreamId, octets: &[u8]) -> usize;

    /// Copies octets to send from this stream offset on to `out`, and returns how many; fewer than
    /// asked for only when the application has not sent so many.
    fn read_sent(&self, stream: StreamId, offset: u64, out: &mut [u8]) -> usize;

    /// The octets before this offset were acknowledged: their frames go back.
    fn acknowledged(&self, stream: StreamId, offset: u64);

    /// Whether the connection of a stream may go to another worker now.
    fn may_move(&self, stream: StreamId) -> bool;

    /// Takes a stream out, whose connection goes to another worker. Its requests that were not taken go
    /// with it. `None` if it [may not](Self::may_move).
    fn export(&self, stream: StreamId) -> Option<StreamState>;

    /// Goes on with a stream that another worker's port gave away, under its number; false if it is none.
    /// The octets that were not delivered are to be offered; their application may not take any for a
    /// while.
    fn import(&self, stream: StreamId, state: StreamState) -> bool;

    /// Answers [`StreamRequest::Inform`]; kept while the application has no room for it.
    fn inform(&self, stream: StreamId, info: &StreamInfo);

    /// Answers [`StreamRequest::Report`]: connections, as many as were asked for, of `total`.
    fn report(&self, connections: Vec<StreamStatus>, total: usize);

    /// Tells the application of an event; it is kept while the application has no room for it.
    fn tell(&self, stream: StreamId, event: StreamEvent);
}
