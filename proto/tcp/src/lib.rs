//! TCP as state machines without input, output or clock.
//!
//! An [`Endpoint`] holds the connections and listeners of one owner (a worker, a test, a simulated
//! host). A [`Connection`] is one transmission control block. Neither sends or receives anything
//! itself, asks a clock, or holds an octet of payload.
//!
//! # How to drive it
//! 1. Report the events: [`Endpoint::handle`] for each segment that arrived,
//!    [`Endpoint::handle_timeout`] when [`Endpoint::next_deadline`] has come, and the application's
//!    calls: [`connect`](Endpoint::connect), [`listen`](Endpoint::listen),
//!    [`queue`](Endpoint::queue), [`consume`](Endpoint::consume), [`shutdown`](Endpoint::shutdown),
//!    [`close`](Endpoint::close), [`abort`](Endpoint::abort).
//! 2. Then take the results, each until `None`: [`Endpoint::poll_transmit`] (or
//!    [`poll_into`](Endpoint::poll_into), which moves nothing) for segments to send,
//!    [`Endpoint::poll_event`] for events to report to applications.
//! 3. Sleep until the next segment, the next call of an application, or
//!    [`Endpoint::next_deadline`], which never moves to an earlier time without one of these.
//!
//! `now` is a number of nanoseconds since an instant that the caller chose; it must not go back.
//!
//! # How payload moves
//! The engine counts octets and names them by their *stream offset*: 0 is the first octet that the
//! application sent or the peer sent. The octets lie in regions of the application's (a [`Region`] does
//! for tests and simple users).
//! - **Sent data** stays in the application's region from `queue` until [`Events::ACKED`] says that it
//!   was acknowledged. A [`Transmit`] names the range that has to be copied behind its header; a
//!   retransmission names it again. No frame is kept.
//! - **Received payload** is handed on as a range of the segment that brought it, with its stream
//!   offset ([`Payload`]). Payload in order may be read in place, within the batch; payload not
//!   read at once, and all that is out of order, is to be copied to its offset in the region.
//!   Offsets below [`readable`](Connection::readable) can be read; [`Endpoint::consume`] makes room
//!   again.
//!
//! # Costs Finding a connection takes one keyed hash. A connection takes 512 bytes with its place
//! in the table, and 16 for each further one when more than two segments are in flight, 12 for each
//! run of octets received out of order, and some 100 for the state of losses once there were any.
//! All deadlines of an endpoint are in one wheel, one timer a connection.
//!
//! RFC sentences stand beside the code that fulfils them; deliberate deviations are listed in
//! `docs/rfc-exceptions.md`, features and gaps in `docs/tcp.md`.
#![forbid(unsafe_code)]

mod config;
pub mod congestion;
mod connection;
mod endpoint;
mod fast_open;
mod input;
mod name;
mod output;
mod receive;
mod recovery;
mod region;
mod segment;

pub use config::{EcnMode, KeepAlive, TcpConfig};
pub use connection::{Connection, Events, Failure, Settings, State};
pub use endpoint::{
    ConnectError, Counters, Endpoint, Handled, ListenError, ListenerConfig, ListenerId,
};
pub use input::{Payload, Reject};
pub use name::{Id, Tuple};
pub use region::Region;
pub use segment::{Ecn, MAX_JOINED, Segment, Transmit};

/// Nanoseconds since an instant that the caller chose.
pub type Nanos = weever_timer::Nanos;

/// A deadline that never comes.
pub(crate) const NEVER: Nanos = Nanos::MAX;
