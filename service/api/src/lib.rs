//! Versioned control messages and their client.
//!
//! A running stack listens on a Unix stream socket. A message is one JSON object on one line of
//! at most [`MAX_MESSAGE`] bytes. The client sends a [`Request`], the stack answers each with one
//! [`Response`] that carries the same `id`:
//!
//! ```text
//! {"version":1,"id":1,"method":"counters"}
//! {"version":1,"id":1,"ok":{…}}
//! {"version":1,"id":2,"error":{"kind":"unknown-method","message":"…","remedy":"…"}}
//! ```
//!
//! Within a version, fields may be added to answers, so a reader ignores those it does not know;
//! parameters of requests that the stack does not know are refused, so that a misspelt one is not
//! silently without effect. `docs/control.md` describes every method.
//!
//! ```no_run
//! # fn main() -> Result<(), weever_service_api::ClientError> {
//! let mut client = weever_service_api::Client::connect("/run/weever/eth0.sock")?;
//! for link in client.counters()?.links {
//!     println!("queue {}: {} packets received", link.queue, link.rx_packets);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] is the blocking client; [`decode_request`] is what the stack reads requests with.
#![forbid(unsafe_code)]

mod capture;
mod change;
mod client;
mod counters;
mod error;
mod flows;
mod line;
mod request;
mod response;
pub mod settings;
pub mod socket;
mod status;

pub use capture::{
    CaptureEnd, CaptureEvent, CapturePlace, CaptureRequest, CaptureStarted, CapturedPacket,
    Direction, MAX_SNAPLEN,
};
pub use change::{Assignment, Changed, How, ParseAssignmentError, SetRequest};
pub use client::{CaptureStream, Client, ClientError, TIMEOUT};
pub use counters::{
    Counters, DropCounter, LinkCounters, NamedCounter, NodeCounters, PoolCounters, PortCounter,
};
pub use error::{ApiError, ErrorKind};
pub use flows::{ClassShare, FilterStatus, FlowStatus, Flows, MAX_FLOWS, QueueStatus, Queues};
pub use line::{LineError, LineReader};
pub use request::{Call, GraphFormat, GraphRequest, Rejection, Request, decode_request};
pub use response::{GraphText, Outcome, Reply, Response, Stopping, decode_response};
pub use status::{
    InterfaceStatus, NeighbourStatus, RouteStatus, ServiceStatus, Status, WorkerStatus,
};

/// The version of the messages in this crate. A stack answers requests of exactly this version.
pub const VERSION: u32 = 1;

/// The most bytes a message may have, its line end not counted: 1 MiB.
pub const MAX_MESSAGE: usize = 1 << 20;
