//! The stack's side of application queues.
//!
//! To a worker, applications are one more link: it receives the datagrams that applications send, and
//! transmits the datagrams for their sockets. So the engine needs to know nothing of applications, and
//! back-pressure, waiting and fairness are those of any link.
//!
//! ```text
//!             control thread                          worker w
//!   AppServer::open_queue ── Command ──► AppLinkQueue::advance: channels, sockets, SocketTable
//!   AppServer::open_socket ─ Command ──►      │
//!                                             ├─ rx: transmit rings ─► buffers ─► graph (source node)
//!   application ═══ channel w ═══════════════ └─ tx: graph (deliver node) ─► receive rings
//! ```
//!
//! One path, a received datagram: the graph's demux node looks it up in the worker's
//! [`SocketTable`](weever_net::demux::SocketTable), notes the socket in the metadata's `entry` and
//! where the payload is in `l4` and `end`, and hands it to this link. [`tx`](weever_link::LinkQueue::tx)
//! copies it into the channel of the socket's queue at this worker. A ring that is full, or an
//! application that lent no frame, costs that datagram: it is counted against its socket, and
//! nobody else waits.
//!
//! One path, a datagram to send: [`rx`](weever_link::LinkQueue::rx) takes it from a transmit ring
//! as far as there are buffers (the rest waits in the ring, which is the application's back-pressure),
//! checks that the socket is the application's, fills in the endpoints from the socket and the
//! packet info, and copies the payload. The graph's source node checks the addresses.
//!
//! An application that is trusted with a worker's frames gets a datagram in the frame in which it was received, and what
//! it sends goes in the frame in which it was written ([`AppServer::lend_frames`]).
//!
//! [`AppListener`] serves applications on a Unix socket with a thread of its own: one connection is
//! one queue, and when an application dies, its connection ends and all it held is reclaimed.
//!
//! The table is shared between this link's queue and the graph's nodes of the same worker, thus by
//! one thread; the cell around it only checks that.
#![forbid(unsafe_code)]

mod access;
mod application;
mod channels;
mod connections;
mod datagram;
mod flows;
mod holders;
mod link;
mod listener;
mod listening;
mod memory;
mod moves;
mod network;
mod passage;
mod pending;
mod place;
mod plans;
mod port;
mod ports;
mod queue;
mod request;
mod server;
mod session;
mod stats;
mod stream;
mod streams;
mod telling;
#[cfg(test)]
mod tests;
mod trust;
mod worker;

pub use access::Access;
pub use flows::{PlanLimits, PlanRequests, PlanTokens};
pub use link::{AppLink, LINK_NAME};
pub use listener::{AppListener, AppSocket};
pub use network::HostNetwork;
pub use place::ListenError;
pub use ports::PortKeeper;
pub use queue::AppLinkQueue;
pub use request::{
    ConnectionStatus, Identity, OpenedSocket, QueueId, QueueStatus, RegisteredFlow, ServerError,
    SocketRequest, SocketStatus, TransportPort,
};
pub use server::{AppServer, OpenedQueue};
pub use session::{Answer, Session};
pub use stats::{SocketCounts, SocketStats};
pub use trust::Trusted;
pub use worker::SharedTable;
