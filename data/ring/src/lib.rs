//! Lock-free rings whose other end is the kernel (AF_XDP), shared by several threads on our end.
//!
//! An AF_XDP ring is single-producer single-consumer: a `producer` and a `consumer` index of 32
//! bits that only grow (and wrap), and a power-of-two array of descriptors. The kernel plays one
//! side and cannot be changed. Sockets on one (device, queue) share the fill and the completion
//! ring, and COREC lets several threads receive from one RX ring; so here *our* side may be played
//! by any number of threads, while the kernel still sees one well-behaved peer:
//!
//! - [`MultiProducer`]: fill and TX rings, the kernel consumes.
//! - [`MultiConsumer`]: completion and RX rings, the kernel produces.
//!
//! Both are one algorithm (COREC §3.4, adapted from NIC descriptors to AF_XDP indices):
//!
//! 1. **Claim**: a CAS on our own 64-bit `head`, which never wraps, takes `[start, end)`; no other
//!    thread can have those slots (COREC's "global transaction id").
//! 2. **Work**: write or copy out the descriptors, without any synchronisation.
//! 3. **Complete**: if the kernel-visible index stands at `start`, move it to `end`; else leave a
//!    mark in each slot. Then a thread that finds marks right behind the index carries it over
//!    them.
//!
//! The kernel-visible index thus only moves over a contiguous prefix of finished slots.
//!
//! # Differences from the paper
//!
//! COREC guards the index with a try-lock; a thread descheduled *inside* it stalls every release.
//! Here a mark is tagged with its 64-bit position instead of being one bit, so marks are never
//! cleared, and the index is moved by CAS: there is no lock to be descheduled in, and the next
//! thread that completes anything finishes the work that a sleeping one left. The remaining wait is
//! inherent in the kernel's protocol (COREC §3.4.4): a thread descheduled between claim and
//! completion holds back the slots behind its own, and nothing else; other threads go on claiming
//! until the ring is full (or empty). [`MultiProducer::unpublished`] and
//! [`MultiConsumer::unreleased`] show it.
//!
//! A thread that ends with slots in hand gives them back, whether it returns, fails, panics or is ended by
//! `pthread_exit` or `pthread_cancel`: all of these run its destructors. A [`Claim`] then releases its slots,
//! and its descriptors are lost; a [`Reservation`] leaves a gap that the next thread to push fills. Ends
//! without destructors are not covered: `mem::forget`, and the bare system call `exit`, which ends a thread
//! without the C library. A signal such as SIGKILL ends the process, never one thread.
//!
//! The kernel-visible index has 32 bits. A thread that is stopped exactly between reading it and
//! its CAS while an exact multiple of 2³² descriptors pass through the ring (7 minutes at 10
//! Mpps) would move it wrongly. The paper accepts the same for its 32-bit id.
//!
//! # Progress, order, cost
//!
//! Lock-free: a failed CAS means that another thread succeeded. Nothing blocks, and after construction nothing
//! allocates, but for a push into gaps, the slots of reservations that ended unpublished. Descriptors of one
//! producing call are contiguous and in order, and those of successive calls of one thread keep their order,
//! unless one of them fills such a gap. Uncontended, a call costs one CAS and one fence whatever the size of the
//! batch, so use batches.
//!
//! # Checking
//!
//! Atomics and cells come from one internal module, which takes them from loom when built with `--cfg loom`. The models in `tests/loom.rs` run by
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p weever-ring --release --test loom
//! ```
//!
//! `stepped` parks a thread before each of its atomic operations while others go on, and runs thousands of
//! schedules that a seed determines. Threads against a simulated kernel are in `tests/stress.rs`, random schedules against an
//! obvious reference in `tests/property.rs`. Real signals stop a real thread in `tests/signals.rs`, for seconds once.
//! Threads end with descriptors in hand in `tests/endings.rs`. Which of them finds which fault of the algorithm is in
//! `docs/design/0072`, by trial.
#![allow(unsafe_code, reason = "rings live in memory shared with the kernel")]

mod consumer;
mod departures;
mod parts;
mod producer;
mod sequencer;
pub mod simulated;
#[cfg(all(test, not(loom)))]
mod stepped;

pub use consumer::{Claim, MOST_CLAIMED, MultiConsumer, WORTH_WAKING, part};
pub use departures::{Departures, Ticket};
pub use parts::{AtomicU32, RingError, RingParts, Slot};
pub use producer::{MultiProducer, Reservation};
