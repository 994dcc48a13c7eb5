//! Versioned control messages and their client.
//!
//! A running stack listens on a Unix stream socket. A message is one JSON object on one line of
//! at most [`MAX_MESSAGE`] bytes. The client sends a request, the stack answers each with one
//! [`Response`] that carries the same `id`:
//!
//! ```text
//! {"version":1,"id":1,"method":"counters"}
//! {"version":1,"id":1,"ok":{…}}
//! {"version":1,"id":2,"error":{"kind":"unknown-method","message":"…","remedy":"…"}}
//! ```
//!
//! A [`Method`] is one file here, or shares one with its like: the types of its request and of its answer. Adding one means that file,
//! its line in the list below, and a handler in the stack, which does not compile without it.
//!
//! Within a version, fields may be added to answers, so a reader ignores those it does not know;
//! parameters of requests that the stack does not know are refused, so that a misspelt one is not
//! silently without effect. `docs/control.md` describes every method.
//!
//! ```no_run
//! # fn main() -> Result<(), weever_service_api::ClientError> {
//! use weever_service_api::{Client, CountersRequest};
//!
//! let mut client = Client::connect("/run/weever/eth0.sock")?;
//! for link in client.call(&CountersRequest {})?.links {
//!     println!("queue {}: {} packets received", link.queue, link.rx_packets);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] is the blocking client; the stack implements [`Handler`] and calls [`answer`].
#![forbid(unsafe_code)]

mod capture;
mod change;
mod client;
mod counters;
mod graph;
mod line;
mod message;
mod method;
mod queues;
pub mod settings;
pub mod socket;
mod sockets;
mod status;

pub use capture::{
    CaptureEnd, CaptureEvent, CapturePlace, CaptureRequest, CaptureStarted, CapturedPacket,
    Direction, MAX_SNAPLEN,
};
pub use change::{
    ApplyRequest, Assignment, Changed, How, ParseAssignmentError, SetRequest, Settings,
    SettingsRequest, StopRequest, Stopping,
};
pub use client::{Client, ClientError, TIMEOUT};
pub use counters::{
    Counters, CountersRequest, DropCounter, LinkCounters, NamedCounter, NodeCounters, PoolCounters,
    PoolShare, PortCounter,
};
pub use graph::{GraphFormat, GraphRequest, GraphText};
pub use line::{LineError, LineReader, MAX_MESSAGE, VERSION};
pub use message::{ApiError, ErrorKind, Outcome, Response, decode_response};
pub use method::{Answers, Handle, Method, Reply};
pub use queues::{
    ClassShare, FilterStatus, FlowStatus, Flows, FlowsRequest, MAX_FLOWS, QueueStatus, Queues,
    QueuesRequest,
};
pub use sockets::{
    AppQueueStatus, ConnectionStatus, MAX_SOCKETS, SocketCounts, SocketStatus, Sockets,
    SocketsRequest,
};
pub use status::{
    InterfaceStatus, NeighbourStatus, RouteStatus, ServiceStatus, Status, StatusRequest,
    WorkerStatus,
};

method::methods![
    ApplyRequest,
    CaptureRequest,
    CountersRequest,
    FlowsRequest,
    GraphRequest,
    QueuesRequest,
    SetRequest,
    SettingsRequest,
    SocketsRequest,
    StatusRequest,
    StopRequest,
];
