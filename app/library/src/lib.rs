//! The stack inside an application: the same sockets, and the worker in the thread that uses them.
//!
//! ```text
//!   thread 0                          thread 1                     keeper (asleep)
//!   AppQueue ── poll, commit ──┐      AppQueue ──┐                 takes a seat over when its thread
//!                              ▼                 ▼                 has not turned it for a while
//!                    Seat 0: Worker      Seat 1: Worker  ◄───────────────┘
//!                              │                 │
//!                              └──── one host: links, graph, sockets
//! ```
//!
//! A [`Stack`] is either of the two: chosen by [`QueueConfig::path`], the name of a Unix socket, or
//! `library:dev=eth0,addr=192.0.2.10/24`. A program opens its queues by [`Stack::queue`] and does not
//! know which it is.
//!
//! One path, a request: the thread polls its queue, finds the rings empty, and turns its worker: the
//! link's packets go through the graph and into the queue's channel, in this thread. The answer is
//! committed, and the turn that follows sends it. No other thread is involved, and no system call but
//! the link's.
//!
//! # When the application does not poll
//!
//! Neighbours have to be answered and timers run all the same. A seat's worker is behind a lock that
//! its thread takes for each turn, and a keeper thread looks at the clock: a worker that was not
//! turned for [`Settings::patience`] passes to the keeper, which runs it as the daemon would, sleeping
//! while nothing comes, until the thread wants it back. The same keeper takes over at once when the thread
//! goes to sleep in an event loop of its own ([`AppQueue::arm`]), so the queue's descriptor works as it
//! does with a stack in another process.
#![forbid(unsafe_code)]

mod backend;
mod seat;
mod settings;
mod stack;

pub use settings::{Entrance, LibraryError, Settings};
pub use stack::{Library, Stack};
#[doc(no_inline)]
pub use weever_app_sockets::{AppQueue, QueueConfig};
