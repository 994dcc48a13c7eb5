//! Sockets on a weever stack, for applications.
//!
//! An [`AppQueue`] connects a thread of an application with the stack: shared rings and frames, and
//! any number of sockets on them. Nothing here makes a system call for a packet, or allocates for one
//! that fits into a frame.
//!
//! ```text
//!  open, begin_open ──► Backend: requests and answers ──► the stack, in another process or in this
//!                                                            │
//!  next:  in the order of arrival ◄──┐                       │ a channel for each worker
//!  poll:  by ready socket (Events) ◄─┴─ receive rings ◄──────┤
//!           │ RxBuf: borrows the queue, lies where the stack has put it
//!           ▼
//!  reply, into_answer, alloc (TxBuf), send_to ──► transmit rings ── commit ──► the stack
//! ```
//!
//! A thread with nothing to do sleeps in [`AppQueue::wait`], or by an event loop of its own on the
//! queue's descriptor ([`AppQueue::arm`]), or awaits it in a task of tokio's (the feature `tokio`,
//! `AsyncQueue`); `AsyncTcp` has TCP as `AsyncRead` and `AsyncWrite`.
//!
//! ```no_run
//! # fn main() -> Result<(), weever_app_sockets::Error> {
//! use weever_app_sockets::{AppQueue, QueueConfig, Event};
//!
//! let queue = AppQueue::connect(&QueueConfig::default())?;
//! queue.bind_udp("0.0.0.0:7".parse().unwrap())?;
//! loop {
//!     queue.wait(None)?;
//!     while let Some(event) = queue.next()? {
//!         if let Event::Datagram(datagram) = event {
//!             datagram.reply()?;
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! A buffer cannot outlive its queue:
//!
//! ```compile_fail,E0505
//! # fn main() -> Result<(), weever_app_sockets::Error> {
//! use weever_app_sockets::{AppQueue, QueueConfig};
//!
//! let queue = AppQueue::connect(&QueueConfig::default())?;
//! let kept = queue.next()?;
//! drop(queue);
//! println!("{kept:?}");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod asynchronous;
mod backend;
mod buffer;
mod cause;
mod error;
mod events;
mod holder;
mod info;
mod octets;
mod opening;
mod queue;
mod returning;
mod rings;
mod selection;
mod stream;
mod table;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncQueue, AsyncTcp, AsyncTcpListener, AsyncTcpStream};
pub use backend::{Answer, Backend, DEFAULT_PATH, Process, QueueConfig};
pub use buffer::{Info, RxBuf, SendOptions, TxBuf};
pub use cause::Cause;
pub use error::Error;
pub use events::{Chain, Event, Events, Handle, Look};
pub use holder::Holder;
pub use info::StreamInfo;
pub use octets::{StreamBuf, StreamTxBuf};
pub use opening::Opening;
pub use queue::{AppQueue, Flow, Way};
pub use returning::Credential;
pub use rings::makes_rings;
pub use selection::{Selection, SelectionError};
pub use stream::{TcpListener, TcpStream};
pub use table::{Bind, UdpSocket};
pub use weever_app_ring::control::{self, Share};
pub use weever_app_ring::{Congestion, Fragment, Geometry, SocketId, StreamOption};
