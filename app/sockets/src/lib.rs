//! Sockets on a weever stack, for applications.
//!
//! An [`AppQueue`] connects a thread of an application with the stack: shared rings and frames, and
//! any number of sockets on them. Nothing here makes a system call for a packet. What arrives is read
//! in the order of arrival ([`AppQueue::next`]), in place; what is sent is collected and handed over
//! by [`AppQueue::commit`]; a thread with nothing to do sleeps in [`AppQueue::wait`].
//!
//! ```no_run
//! # fn main() -> Result<(), weever_app_sockets::Error> {
//! use weever_app_sockets::{AppQueue, Config, Event};
//!
//! let mut queue = AppQueue::connect(&Config::default())?;
//! queue.bind_udp("0.0.0.0:7".parse().unwrap())?;
//! loop {
//!     queue.wait(None)?;
//!     while let Some(event) = queue.next()? {
//!         if let Event::Datagram(datagram) = event {
//!             queue.reply(datagram)?;
//!         }
//!     }
//!     queue.commit()?;
//! }
//! # }
//! ```
#![forbid(unsafe_code)]

mod channel;
mod datagram;
mod error;
mod queue;

pub use datagram::{Datagram, Event, SendOptions};
pub use error::Error;
pub use queue::{AppQueue, Config, DEFAULT_PATH, UdpSocket};
pub use weever_app_ring::control::Share;
pub use weever_app_ring::{Geometry, SocketId};
