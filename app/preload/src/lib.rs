//! `libweever_preload.so`: the socket calls of a program that knows nothing of weever, on a weever stack.
//!
//! ```text
//!  program ── bind, recv, epoll_wait … ──► calls, transfer, waits ── not weever's ──► the C library
//!                                             │ numbers: what a descriptor means
//!                                             ▼
//!                          state, behind one lock: files, sets, sleepers
//!                             │ open, connect: a descriptor becomes weever's
//!                             │ receive, send, options, wait, epoll: and is used
//!                             ▼
//!                          AppQueue, one for each process ══ rings ══► the stack
//! ```
//!
//! Every socket of weever's has a socket of the kernel's behind it, made by the program itself: it is the
//! descriptor, with its number, its duplicates and its inheritance; it keeps the port and the options; and for an
//! address of both stacks it receives beside weever's. Calls about other descriptors take one look into a table and go
//! to the next library.
//!
//! See `docs/run.md` for what works, and `docs/design/0053-unmodified-programs.md` for why it is so.
#![allow(unsafe_code, reason = "pointers of C programs, and the C library's own calls")]
#![cfg(target_os = "linux")]

mod address;
mod adopt;
mod backlog;
mod behind;
mod bind;
mod calls;
mod closing;
mod collect;
mod connect;
mod control;
mod datagram;
mod deferred;
mod environment;
mod epoll;
mod errors;
mod failure;
mod file;
mod handover;
mod inherited;
mod inside;
mod interfaces;
mod log;
mod nested;
mod numbers;
mod open;
mod options;
mod owners;
mod parts;
mod passing;
mod process;
mod programs;
mod queue;
mod real;
mod receive;
mod rights;
mod rings;
mod select;
mod send;
mod sendfile;
mod set;
mod signals;
mod silence;
mod slab;
mod splice;
mod state;
mod transfer;
mod twins;
mod undelivered;
mod urgent;
mod wait;
mod waits;
mod ways;

pub use inside::{Inside, Unavailable, set_inside};
